#include "program/recomputed.h"

#include <algorithm>

#include "base/integers.h"

namespace heddle {
namespace {

bool IsActivation(const Model& model, ValueId id) {
  NodeId producer = model.graph.value(id).producer;
  return producer.valid() && !model.once[producer.index()];
}

bool IsProduct(const Model& model, NodeId id) {
  const Node& node = model.graph.node(id);
  const std::vector<WorkTerm>& work = model.rules[id.index()].work;
  bool contraction =
      std::any_of(work.begin(), work.end(), [](const WorkTerm& term) { return term.contraction; });
  // Besides them there may be a constant, such as attention's bias.
  auto activations = std::count_if(node.operands.begin(), node.operands.end(),
                                   [&](ValueId operand) { return IsActivation(model, operand); });
  return contraction && activations > 1;
}

// Is a neighbour along this direction, without weights in between, a product of activations?
bool Reaches(const Model& model, NodeId id, bool forward) {
  for (int step = 0; step < 8; ++step) {
    const Node& node = model.graph.node(id);
    NodeId next;
    if (forward) {
      const std::vector<NodeId>& readers = model.readers[node.results[0].index()];
      if (readers.size() == 1) next = readers[0];
    } else {
      // Past constants: the condition of a mask.
      auto from = std::find_if(node.operands.begin(), node.operands.end(),
                               [&](ValueId operand) { return IsActivation(model, operand); });
      if (from != node.operands.end()) next = model.graph.value(*from).producer;
    }
    if (!next.valid() || model.block_of[next.index()] != model.block_of[id.index()]) return false;
    if (IsProduct(model, next)) return true;
    const Node& after = model.graph.node(next);
    for (ValueId operand : after.operands) {
      if (model.graph.value(operand).kind == ValueKind::kParameter) return false;
    }
    id = next;
  }
  return false;
}

bool IsCheapToRecompute(const Model& model, NodeId id) {
  const Node& node = model.graph.node(id);
  bool weights = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
    NodeId producer = model.graph.value(operand).producer;
    return model.graph.value(operand).kind == ValueKind::kParameter ||
           (producer.valid() && model.once[producer.index()] && model.flow.needed[operand.index()]);
  });
  return !weights &&
         (IsProduct(model, id) || (Reaches(model, id, true) && Reaches(model, id, false)));
}

}  // namespace

bool IsRecomputed(const Model& model, NodeId id, RecomputePolicy policy) {
  int block = model.block_of[id.index()];
  switch (policy) {
    case RecomputePolicy::kNone:
      return false;
    case RecomputePolicy::kSelective:
      return IsCheapToRecompute(model, id);
    case RecomputePolicy::kFull:
      return block >= 0 && model.blocks[ToSize(block)].chain >= 0;
  }
  return false;
}

}  // namespace heddle
