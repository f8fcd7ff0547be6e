#include "plan/policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  // There may also be a constant operand, such as the bias of attention.
  auto activations = std::count_if(node.operands.begin(), node.operands.end(),
                                   [&](ValueId operand) { return IsActivation(model, operand); });
  return contraction && activations > 1;
}

// Is there a product of activations in this direction, without a node that reads weights in between?
bool Reaches(const Model& model, NodeId id, bool forward) {
  for (int step = 0; step < 8; ++step) {
    const Node& node = model.graph.node(id);
    NodeId next;
    if (forward) {
      const std::vector<NodeId>& readers = model.readers[node.results[0].index()];
      if (readers.size() == 1) next = readers[0];
    } else {
      // The first operand that is an activation: others may be constants, such as the condition of a mask.
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

bool RecomputesNothing(const Model&, NodeId) { return false; }

bool RecomputesScores(const Model& model, NodeId node) { return IsCheapToRecompute(model, node); }

bool RecomputesBlocks(const Model& model, NodeId node) {
  int block = model.block_of[node.index()];
  return block >= 0 && model.blocks[ToSize(block)].chain >= 0;
}

std::string RecomputeHelp() {
  return fmt::format("activations to recompute in backward: {}", fmt::join(kRecomputeNames, ", "));
}

std::string OffloadHelp() {
  std::array<std::string_view, kOffloads.size()> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = kOffloads[i].in_help;
  return fmt::format("what is kept on the host between uses: {}", fmt::join(words, ", "));
}

std::string SyncHelp() {
  std::string text = "how replicas agree on gradients";
  std::string_view separator = ": ";
  for (const GradientSyncDef& def : kGradientSyncs) {
    text += fmt::format("{}{}: {}", separator, def.name, def.help);
    separator = "; ";
  }
  return text + "; auto: factors where that is faster";
}

std::string ZeroHelp() {
  std::string text = "ZeRO:";
  for (size_t level = 1; level < kZeroLevels.size(); ++level) {
    std::string_view splits = kZeroLevels[level].splits;
    text += level == 1 ? fmt::format(" {} splits {} over data ranks", level, splits)
                       : fmt::format(", {} also {}", level, splits);
  }
  return text;
}

}  // namespace heddle
