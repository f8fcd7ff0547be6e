#include <unordered_map>

#include "sim/kept_internal.h"

namespace heddle::kept {
namespace {

// Is the gradient of operand o that of the result, as it is?
bool HandsOn(const OpTraits& traits, const Rule& rule, size_t o) {
  if (traits.elements == ResultElements::kReshaped) return true;
  if (traits.elements == ResultElements::kPermuted) return true;
  bool term = !traits.signs.empty() && traits.signs[o] == 1;
  return term && rule.operands[o] == rule.results[0];
}

class BackwardTrace {
 public:
  // `keepers` as ForwardTrace gives them.
  BackwardTrace(const SegmentView& view, const std::vector<Keeper>& keepers, Half half, bool frees)
      : view_(view),
        keepers_(keepers),
        half_(half),
        frees_(frees),
        inputs_(view.segment().inputs.size()) {}

  HalfMemory Run() {
    const std::vector<SegmentOutput>& outputs = view_.segment().outputs;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!outputs[o].gradient.valid()) continue;
      const Local& gradient = view_.stage().local(outputs[o].gradient);
      bool seed = gradient.Is<FromSeed>();
      StorageRef ref = seed ? recorder_.Make(SizeOf(gradient.dtype)) : ~static_cast<StorageRef>(o);
      values_[gradient.value] = {recorder_.Hold(ref), true};
    }
    for (size_t n = view_.size(); n-- > 0;) {
      if (HasGradient(n)) PassNode(n);
      if (half_ == Half::kBW || frees_) ReleaseAfter(n);
    }
    Finish();
    return recorder_.Finish();
  }

 private:
  bool HasGradient(size_t n) const {
    const std::vector<ValueId>& results = view_.node(n).results;
    return std::any_of(results.begin(), results.end(),
                       [&](ValueId id) { return values_.count(id) != 0; });
  }

  void PassNode(size_t n) {
    const Node& node = view_.node(n);
    auto [first_bytes, scratch_bytes] = view_.BackwardScratch(n);
    StorageRef first = recorder_.MakeScratch(first_bytes);
    StorageRef scratch = recorder_.MakeScratch(scratch_bytes);
    recorder_.Drop(first);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (!view_.Wants(n, o)) continue;
      SegmentInputId input = view_.input(n, o);
      if (half_ == Half::kB && input.valid() && view_.input(input).late) continue;
      Placed gradient = GradientOf(n, o);
      Placed& sum = input.valid() ? inputs_[input] : values_[node.operands[o]];
      Add(sum, gradient, view_.OperandBytes(n, o));
    }
    recorder_.Drop(scratch);
    for (ValueId id : node.results) {
      auto found = values_.find(id);
      if (found == values_.end()) continue;
      if (half_ == Half::kB && view_.IsLate(n)) recorder_.Keep(found->second.storage);
      recorder_.Drop(found->second.storage);
      values_.erase(found);
    }
  }

  // Of an operand, from this node alone.
  Placed GradientOf(size_t n, size_t o) {
    const Node& node = view_.node(n);
    auto result = values_.find(node.results[0]);
    if (result != values_.end() && HandsOn(view_.traits(n), view_.rule(n), o)) {
      ResultElements elements = view_.traits(n).elements;
      bool reshape = elements == ResultElements::kReshaped && view_.rule(n).view;
      if (!reshape || result->second.row_major) {
        bool turned = elements == ResultElements::kPermuted;
        return {result->second.storage, !turned && result->second.row_major};
      }
    }
    return {recorder_.Make(view_.OperandBytes(n, o)), true};
  }

  // Adds up in place where only this sum holds one of the two.
  void Add(Placed& sum, const Placed& gradient, int64_t bytes) {
    StorageRef term = recorder_.Hold(gradient.storage);
    if (sum.storage == kNoStorage) {
      sum = gradient;
    } else if (recorder_.HasOneHolder(sum.storage)) {
      recorder_.Drop(term);
    } else if (recorder_.HasOneHolder(term)) {
      recorder_.Drop(sum.storage);
      sum = gradient;
    } else {
      StorageRef made = recorder_.Hold(recorder_.Make(bytes));
      recorder_.Drop(sum.storage);
      recorder_.Drop(term);
      sum = {made, true};
    }
  }

  void ReleaseAfter(size_t n) {
    for (size_t k = 0; k < keepers_.size(); ++k) {
      bool over = half_ == Half::kBW || !keepers_[k].weight;
      if (keepers_[k].node == n && over) recorder_.Release(static_cast<int>(k));
    }
  }

  // Gradients of inputs that become buffers; those of weights are added to what is there.
  void Finish() {
    for (SegmentInputId i : inputs_.ids()) {
      const SegmentInput& input = view_.segment().inputs[i];
      bool mine = half_ == Half::kBW || !input.late;
      bool written = input.gradient.valid() && !view_.stage().local(input.gradient).once;
      if (!mine || !written) continue;
      if (inputs_[i].storage == kNoStorage) {
        inputs_[i].storage = recorder_.Hold(recorder_.Make(InputBytes(input)));
      }
      recorder_.AddResult(inputs_[i].storage);
    }
    for (const Placed& gradient : inputs_) recorder_.Drop(gradient.storage);
  }

  int64_t InputBytes(const SegmentInput& input) const {
    const StageView& at = view_.stage();
    const Local& gradient = at.local(input.gradient);
    return LocalElements(at.stage.mesh, gradient.sharding, at.position) * SizeOf(gradient.dtype);
  }

  const SegmentView& view_;
  const std::vector<Keeper>& keepers_;
  const Half half_;
  const bool frees_;
  std::unordered_map<ValueId, Placed> values_;  // gradients at hand
  IdVector<SegmentInputId, Placed> inputs_;
  Recorder recorder_;
};

}  // namespace

HalfMemory TraceBackward(const SegmentView& view, const std::vector<Keeper>& keepers, Half half,
                         bool frees) {
  return BackwardTrace(view, keepers, half, frees).Run();
}

// W goes node by node; what it makes is added to the gradients of the weights at once.
HalfMemory TraceWeights(const SegmentView& view) {
  Recorder recorder;
  for (size_t n = 0; n < view.size(); ++n) {
    std::vector<StorageRef> made;
    for (size_t o = 0; o < view.node(n).operands.size(); ++o) {
      SegmentInputId input = view.input(n, o);
      if (!input.valid() || !view.input(input).late || !view.Wants(n, o)) continue;
      made.push_back(recorder.Hold(recorder.Make(view.OperandBytes(n, o))));
    }
    for (StorageRef ref : made) recorder.Drop(ref);
  }
  return recorder.Finish();
}

}  // namespace heddle::kept
