#include <unordered_map>

#include "sim/kept_internal.h"

namespace heddle::kept {
namespace {

class ForwardTrace {
 public:
  ForwardTrace(const SegmentView& view, bool keeps) : view_(view), keeps_(keeps) {
    for (size_t n = 0; n < view.size(); ++n) {
      for (ValueId id : view.node(n).results) last_[id] = n;
      for (size_t o = 0; o < view.node(n).operands.size(); ++o) {
        if (!view.input(n, o).valid()) last_[view.node(n).operands[o]] = n;
      }
    }
  }

  // Fills `keepers`, one per kept storage, and records which outputs are row-major.
  HalfMemory Run(std::vector<Keeper>* keepers, IdVector<LocalId, bool>* row_major) {
    for (size_t n = 0; n < view_.size(); ++n) {
      recorder_.BeginNode(n);
      StorageRef scratch = recorder_.MakeScratch(view_.ForwardScratch(n));
      AddResults(n);
      if (keeps_) Keep(n, keepers);
      recorder_.Drop(scratch);
      DropAfter(n);
    }
    for (const SegmentOutput& output : view_.segment().outputs) {
      const Placed& made = values_.at(view_.stage().local(output.local).value);
      recorder_.AddResult(made.storage);
      (*row_major)[output.local] = made.row_major;
    }
    DropOutputs();
    return recorder_.Finish();
  }

 private:
  Placed PlacedOperand(size_t n, size_t o) const {
    SegmentInputId input = view_.input(n, o);
    if (!input.valid()) return values_.at(view_.node(n).operands[o]);
    return {~input.value, view_.stage().row_major[view_.input(input).local]};
  }

  void AddResults(size_t n) {
    const Node& node = view_.node(n);
    bool reshape = view_.traits(n).elements == ResultElements::kReshaped;
    Placed source;
    if (view_.rule(n).view) source = PlacedOperand(n, 0);
    // As in Storages: a reshape of a value that is not row-major copies it.
    bool looks = view_.rule(n).view && (!reshape || source.row_major);
    for (size_t r = 0; r < node.results.size(); ++r) {
      StorageRef storage = looks ? source.storage : recorder_.Make(view_.ResultBytes(n, r));
      values_[node.results[r]] = {recorder_.Hold(storage), !looks || reshape};
    }
  }

  void Keep(size_t n, std::vector<Keeper>* keepers) {
    const Node& node = view_.node(n);
    NodeKept kept = KeptBy(node, view_.rule(n), view_.stage().flow);
    if (kept.any && view_.IsFusedLoss(n)) kept.values.push_back(node.operands[0]);
    for (ValueId id : kept.values) {
      auto operand = std::find(node.operands.begin(), node.operands.end(), id);
      Placed at;
      if (operand == node.operands.end()) {
        if (view_.KeepsScores(n)) continue;
        at = values_.at(id);
      } else {
        size_t o = static_cast<size_t>(operand - node.operands.begin());
        if (o == 0 && view_.KeepsWide(n)) continue;
        SegmentInputId input = view_.input(n, o);
        // Weights exist anyway; ZeRO frees gathered weights even where nodes keep them.
        if (input.valid() && view_.stage().IsParameter(view_.input(input).local)) continue;
        at = PlacedOperand(n, o);
      }
      if (at.storage < 0 && view_.input(SegmentInputId{~at.storage}).again) continue;
      const std::vector<StorageRef>& all = recorder_.kept();
      auto known = std::find(all.begin(), all.end(), at.storage);
      if (known != all.end()) {
        Keeper& keeper = (*keepers)[static_cast<size_t>(known - all.begin())];
        keeper.weight = keeper.weight || view_.IsLate(n);
        continue;
      }
      recorder_.Keep(at.storage);
      keepers->push_back({n, view_.IsLate(n)});
    }
    int64_t extra = kept.any ? view_.ExtraBytes(n) : 0;
    if (extra == 0) return;
    recorder_.Keep(recorder_.Make(extra));
    keepers->push_back({n, view_.IsLate(n)});
  }

  bool IsOutput(ValueId id) const {
    const std::vector<SegmentOutput>& outputs = view_.segment().outputs;
    return std::any_of(outputs.begin(), outputs.end(), [&](const SegmentOutput& output) {
      return view_.stage().local(output.local).value == id;
    });
  }

  // Drops the values that no later node of the segment reads; outputs stay.
  void DropAfter(size_t n) {
    auto drop = [&](ValueId id) {
      auto last = last_.find(id);
      if (last == last_.end() || last->second != n || IsOutput(id)) return;
      recorder_.Drop(values_.at(id).storage);
      last_.erase(last);
    };
    for (ValueId id : view_.node(n).results) drop(id);
    for (size_t o = 0; o < view_.node(n).operands.size(); ++o) {
      if (!view_.input(n, o).valid()) drop(view_.node(n).operands[o]);
    }
  }

  // Drops the references that outputs have as values; those as results remain.
  void DropOutputs() {
    for (const SegmentOutput& output : view_.segment().outputs) {
      ValueId id = view_.stage().local(output.local).value;
      if (last_.erase(id) > 0) recorder_.Drop(values_.at(id).storage);
    }
  }

  const SegmentView& view_;
  const bool keeps_;
  std::unordered_map<ValueId, size_t> last_;  // the last node that reads the value
  std::unordered_map<ValueId, Placed> values_;
  Recorder recorder_;
};

}  // namespace

HalfMemory TraceForward(const SegmentView& view, bool keeps, std::vector<Keeper>* keepers,
                        IdVector<LocalId, bool>* row_major) {
  return ForwardTrace(view, keeps).Run(keepers, row_major);
}

}  // namespace heddle::kept
