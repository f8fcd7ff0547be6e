#include "search/prices/stage_values.h"

#include <algorithm>

#include "program/stage_builder.h"

namespace heddle {

StageValues::StageValues(const StageCosts& costs, int first_block, int last_block,
                         RecomputePolicy recompute)
    : costs_(costs),
      model_(costs.model()),
      recompute_(recompute),
      uses_(model_.graph.values.size()),
      sole_(model_.graph.nodes.size()),
      kept_(model_.graph.nodes.size()) {
  Stage stage;
  stage.first_block = first_block;
  stage.last_block = last_block;
  nodes_ = NodesOf(model_, stage);
  FindOrder();
  std::vector<NodeId> side = SideNodesOf(model_, nodes_);
  nodes_.insert(nodes_.end(), side.begin(), side.end());
  std::sort(nodes_.begin(), nodes_.end());
  FindUses();
  FindKeepers();
}

bool StageValues::IsHere(NodeId id) const {
  return std::binary_search(nodes_.begin(), nodes_.end(), id);
}

int64_t StageValues::ElementBytes(ValueId id) const { return SizeOf(value(id).type.dtype); }

double StageValues::Repeats(ValueId id) const {
  NodeId producer = value(id).producer;
  if (producer.valid()) return costs_.Repeats(producer);
  return value(id).kind == ValueKind::kParameter ? 1 / costs_.options().microbatches : 1;
}

// For nodes of the stage's blocks: how many nodes with kernels precede them.
void StageValues::FindOrder() {
  kernels_before_.assign(model_.graph.nodes.size(), -1);
  int kernels = 0;
  for (NodeId id : nodes_) {
    kernels_before_[id.index()] = kernels;
    if (costs_.HasKernels(id)) ++kernels;
  }
}

// Is nothing computed between the two? Then traffic from one to the other cannot be hidden.
// Lowering cuts segments in the order of the nodes (program/segments.h).
bool StageValues::IsWaited(ValueId id, NodeId reader) const {
  NodeId producer = value(id).producer;
  if (!producer.valid() || !IsHere(producer)) return false;
  int made = kernels_before_[producer.index()], read = kernels_before_[reader.index()];
  if (made < 0 || read < 0) return false;
  return read - made <= (costs_.HasKernels(producer) ? 1 : 0);
}

Scale StageValues::ScaleOf(ValueId id, NodeId reader) const {
  Scale scale{ElementBytes(id), Repeats(id), Repeats(id), IsWaited(id, reader), false, false};
  bool activation = value(id).kind == ValueKind::kActivation && !model_.once[reader.index()];
  if (!activation) return scale;
  scale.recomputed = IsRecomputed(reader);
  scale.regathered = !scale.recomputed && model_.flow.needed[id.index()];
  return scale;
}

bool StageValues::IsInRecomputedUnit(NodeId id) const {
  return model_.block_of[id.index()] >= 0 && heddle::IsRecomputed(model_, id, recompute_);
}

// A node without a gradient may be left out of the recomputation, so it is not charged for it.
bool StageValues::IsRecomputed(NodeId id) const {
  return IsInRecomputedUnit(id) && costs_.HasGradient(id);
}

void StageValues::FindUses() {
  for (NodeId id : nodes_) {
    for (size_t o = 0; o < node(id).operands.size(); ++o) {
      uses_[node(id).operands[o].index()].push_back({id, o});
    }
  }
  for (NodeId id : nodes_) {
    for (ValueId operand : node(id).operands) {
      sole_[id.index()].push_back(value(operand).kind == ValueKind::kParameter &&
                                  uses_[operand.index()].size() == 1);
    }
  }
}

// The values that backward of a node needs; for a recomputed node, those that the recomputed unit
// reads from outside.
std::vector<ValueId> StageValues::KeptFor(NodeId id) const {
  const Node& at = node(id);
  if (!IsRecomputed(id)) return KeptBy(at, model_.rules[id.index()], model_.flow).values;
  std::vector<ValueId> kept;
  for (ValueId operand : at.operands) {
    NodeId producer = value(operand).producer;
    if (!producer.valid() || model_.once[producer.index()]) continue;
    bool together = model_.block_of[producer.index()] == model_.block_of[id.index()] &&
                    IsInRecomputedUnit(producer);
    if (!together) kept.push_back(operand);
  }
  return kept;
}

// The bytes of a kept value are charged to its producer, or to its first reader where it comes
// from elsewhere.
void StageValues::FindKeepers() {
  std::vector<ValueId> storages = Storages(model_.graph, model_.rules);
  std::vector<bool> charged(model_.graph.values.size(), false);
  for (NodeId id : nodes_) {
    const Node& at = node(id);
    kept_[id.index()].recomputed = IsRecomputed(id);
    for (ValueId kept : KeptFor(id)) {
      ValueId storage = storages[kept.index()];
      if (value(storage).kind != ValueKind::kActivation || charged[storage.index()]) continue;
      charged[storage.index()] = true;
      NodeId producer = value(storage).producer;
      if (IsHere(producer)) {
        const std::vector<ValueId>& results = node(producer).results;
        auto result = std::find(results.begin(), results.end(), storage);
        kept_[producer.index()].results.push_back(static_cast<size_t>(result - results.begin()));
        continue;
      }
      auto operand = std::find(at.operands.begin(), at.operands.end(), kept);
      if (operand == at.operands.end()) continue;
      kept_[id.index()].operands.push_back(static_cast<size_t>(operand - at.operands.begin()));
    }
  }
}

}  // namespace heddle
