#include "sim/kept.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "ops/analysis.h"
#include "ops/spec.h"

namespace heddle {
namespace {

constexpr StorageRef kNoStorage = INT32_MIN;

int64_t ElementsOf(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return elements;
}

// A half being written down: storages and how many hold each.
class Recorder {
 public:
  void BeginNode(size_t node) { node_ = static_cast<int>(node); }
  StorageRef Make(int64_t bytes) {
    half_.made.push_back({bytes, 0, node_});
    half_.events.push_back({HalfEvent::Kind::kMake, static_cast<int>(half_.made.size()) - 1});
    return static_cast<StorageRef>(half_.made.size()) - 1;
  }
  // Held until it is dropped; nothing where there are no bytes.
  StorageRef MakeScratch(int64_t bytes) { return bytes == 0 ? kNoStorage : Hold(Make(bytes)); }
  StorageRef Hold(StorageRef ref) {
    if (ref >= 0) ++half_.made[static_cast<size_t>(ref)].holders;
    return ref;
  }
  void Drop(StorageRef ref) {
    if (ref < 0) return;
    MadeStorage& made = half_.made[static_cast<size_t>(ref)];
    if (--made.holders == 0) half_.events.push_back({HalfEvent::Kind::kDrop, ref});
  }
  void Release(int kept) { half_.events.push_back({HalfEvent::Kind::kRelease, kept}); }
  bool HasOneHolder(StorageRef ref) const {
    return ref >= 0 && half_.made[static_cast<size_t>(ref)].holders == 1;
  }
  void AddResult(StorageRef ref) { half_.results.push_back(Hold(ref)); }
  void Keep(StorageRef ref) { half_.kept.push_back(Hold(ref)); }
  const std::vector<StorageRef>& kept() const { return half_.kept; }
  HalfMemory Finish() { return std::move(half_); }

 private:
  HalfMemory half_;
  int node_ = -1;
};

// What all segments of a stage share.
struct StageView {
  const Program& program;
  const StageProgram& stage;
  const Position& position;
  const MemoryHabits& habits;
  std::vector<bool> row_major;  // per Local, as far as segments have made them

  const Graph& graph() const { return program.model.graph; }
  const Local& local(int l) const { return stage.locals[static_cast<size_t>(l)]; }
  bool IsParameter(int l) const { return local(l).source.kind == SourceKind::kParameter; }
};

// A segment's nodes on the device: blocks, and the bytes of operands and results.
class SegmentView {
 public:
  SegmentView(const StageView& at, const Segment& segment) : at_(at), segment_(segment) {
    for (NodeId id : segment.nodes) {
      blocks_.push_back(
          LocalBlocks(at.stage.mesh, rule(id), at.stage.strategies[id.index()], at.position));
    }
  }

  const StageView& stage() const { return at_; }
  const Segment& segment() const { return segment_; }
  size_t size() const { return segment_.nodes.size(); }
  const Node& node(size_t n) const { return at_.graph().node(segment_.nodes[n]); }
  const Rule& rule(size_t n) const { return rule(segment_.nodes[n]); }
  int input(size_t n, size_t o) const { return segment_.operands[n][o].input; }
  const SegmentInput& input(int i) const { return segment_.inputs[static_cast<size_t>(i)]; }

  int64_t OperandBytes(size_t n, size_t o) const {
    return ElementsOf(LocalShape(rule(n), rule(n).operands[o], blocks_[n])) *
           SizeOf(at_.graph().value(node(n).operands[o]).type.dtype);
  }
  int64_t ResultBytes(size_t n, size_t r) const {
    return ElementsOf(LocalShape(rule(n), rule(n).results[r], blocks_[n])) *
           SizeOf(rule(n).result_dtypes[r]);
  }
  // Kept by the node in no value, and needed by each half while it runs.
  int64_t ExtraBytes(size_t n) const {
    int64_t bytes = BytesOf(n, rule(n).keep.extra);
    if (IsFusedLoss(n)) return bytes / Classes(n);  // of every row the logarithm of a sum
    if (KeepsScores(n)) bytes += ScoreBytes(n);
    if (IsEager(n, "RMSNorm")) bytes += OperandBytes(n, 0);  // before it is scaled
    if (KeepsWide(n)) bytes += WideBytes(n);
    return bytes;
  }
  int64_t ForwardScratch(size_t n) const {
    if (IsFusedLoss(n)) return 0;
    return KeepsScores(n) ? ScoreBytes(n) : BytesOf(n, rule(n).scratch);
  }
  // Two storages: the first is gone when gradients of operands are made, the second when they are done.
  std::pair<int64_t, int64_t> BackwardScratch(size_t n) const {
    if (KeepsScores(n)) return {ScoreBytes(n), ScoreBytes(n)};
    if (IsFusedLoss(n)) return {0, 0};
    if (IsEager(n, "RMSNorm")) return {WideBytes(n), WideBytes(n)};
    int64_t scratch = BytesOf(n, rule(n).scratch);
    // The gradient of the logarithms, and from it that of the logits (before it is narrowed).
    if (scratch == 0 && IsEager(n, "CrossEntropy")) return {0, OperandBytes(n, 0)};
    return {scratch, scratch};
  }
  bool KeepsScores(size_t n) const { return at_.habits.keeps_scores && node(n).op == "Attention"; }
  bool IsFusedLoss(size_t n) const { return at_.habits.fused_loss && node(n).op == "CrossEntropy"; }
  // A norm of narrow values is computed from, and keeps, an fp32 copy of them.
  bool KeepsWide(size_t n) const {
    return IsEager(n, "RMSNorm") && WideBytes(n) > OperandBytes(n, 0);
  }

  int64_t BytesOf(size_t n, const std::vector<KeepTerm>& terms) const {
    double bytes = 0;
    for (const KeepTerm& term : terms) {
      double points = term.bytes;
      for (int f : term.factors)
        points *= static_cast<double>(blocks_[n][static_cast<size_t>(f)].size());
      bytes += points;
    }
    return std::llround(bytes);
  }

  // Does the node have a gradient that waits for W?
  bool IsLate(size_t n) const {
    const std::vector<OperandRef>& operands = segment_.operands[n];
    return std::any_of(operands.begin(), operands.end(), [&](const OperandRef& ref) {
      return ref.input >= 0 && input(ref.input).late;
    });
  }

  // Does a gradient come back through the node, to operand o?
  bool Wants(size_t n, size_t o) const {
    const std::vector<bool>& needed = at_.program.model.flow.needed;
    const std::vector<int>& differentiable = rule(n).differentiable;
    if (!needed[node(n).operands[o].index()]) return false;
    if (std::find(differentiable.begin(), differentiable.end(), static_cast<int>(o)) ==
        differentiable.end()) {
      return false;
    }
    int i = input(n, o);
    return i < 0 || input(i).gradient >= 0 || input(i).trained;
  }

 private:
  const Rule& rule(NodeId id) const { return at_.program.micro_rules[id.index()]; }
  bool IsEager(size_t n, std::string_view op) const { return at_.habits.eager && node(n).op == op; }
  int64_t WideBytes(size_t n) const {
    int64_t size = SizeOf(at_.graph().value(node(n).operands[0]).type.dtype);
    return OperandBytes(n, 0) / size * std::max(size, SizeOf(DType::kF32));
  }
  int64_t Classes(size_t n) const {
    int factor = FindFactor(rule(n), "c");
    return factor < 0 ? 1 : std::max<int64_t>(1, blocks_[n][static_cast<size_t>(factor)].size());
  }
  // Of all heads: queries by keys. Rule::keep.extra has four bytes for each query.
  int64_t ScoreBytes(size_t n) const {
    int keys = FindFactor(rule(n), "j");
    int64_t seen = keys < 0 ? 1 : blocks_[n][static_cast<size_t>(keys)].size();
    return BytesOf(n, rule(n).keep.extra) / 4 * seen * SizeOf(rule(n).result_dtypes[0]);
  }

  const StageView& at_;
  const Segment& segment_;
  std::vector<std::vector<Block>> blocks_;  // per node
};

// Of what a segment keeps: the first node that does, and whether W needs it.
struct Keeper {
  size_t node = 0;
  bool weight = false;
};

// ---- Forward.

struct Placed {
  StorageRef storage = kNoStorage;
  bool row_major = true;
};

class ForwardTrace {
 public:
  ForwardTrace(const SegmentView& view, bool keeps) : view_(view), keeps_(keeps) {
    for (size_t n = 0; n < view.size(); ++n) {
      for (ValueId id : view.node(n).results) last_[id] = n;
      for (size_t o = 0; o < view.node(n).operands.size(); ++o) {
        if (view.input(n, o) < 0) last_[view.node(n).operands[o]] = n;
      }
    }
  }

  // `keepers`: per entry of what is kept. Says of the outputs whether they are row-major.
  HalfMemory Run(std::vector<Keeper>* keepers, std::vector<bool>* row_major) {
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
      (*row_major)[static_cast<size_t>(output.local)] = made.row_major;
    }
    DropOutputs();
    return recorder_.Finish();
  }

 private:
  Placed PlacedOperand(size_t n, size_t o) const {
    int input = view_.input(n, o);
    if (input < 0) return values_.at(view_.node(n).operands[o]);
    int local = view_.input(input).local;
    return {~input, view_.stage().row_major[static_cast<size_t>(local)]};
  }

  void AddResults(size_t n) {
    const Node& node = view_.node(n);
    bool reshape = node.op == "Reshape";
    Placed source;
    if (view_.rule(n).view) source = PlacedOperand(n, 0);
    // As Storages has it: a reshape of what is not row-major moves it.
    bool looks = view_.rule(n).view && (!reshape || source.row_major);
    for (size_t r = 0; r < node.results.size(); ++r) {
      StorageRef storage = looks ? source.storage : recorder_.Make(view_.ResultBytes(n, r));
      values_[node.results[r]] = {recorder_.Hold(storage), !looks || reshape};
    }
  }

  void Keep(size_t n, std::vector<Keeper>* keepers) {
    const Node& node = view_.node(n);
    NodeKept kept = KeptBy(node, view_.rule(n), view_.stage().program.model.flow);
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
        int input = view_.input(n, o);
        // Weights are there anyway; where ZeRO takes them away it does so though they are kept.
        if (input >= 0 && view_.stage().IsParameter(view_.input(input).local)) continue;
        at = PlacedOperand(n, o);
      }
      if (at.storage < 0 && view_.input(~at.storage).again) continue;
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

  // Values that no node of the segment reads any more; outputs stay.
  void DropAfter(size_t n) {
    auto drop = [&](ValueId id) {
      auto last = last_.find(id);
      if (last == last_.end() || last->second != n || IsOutput(id)) return;
      recorder_.Drop(values_.at(id).storage);
      last_.erase(last);
    };
    for (ValueId id : view_.node(n).results) drop(id);
    for (size_t o = 0; o < view_.node(n).operands.size(); ++o) {
      if (view_.input(n, o) < 0) drop(view_.node(n).operands[o]);
    }
  }

  // What held the outputs as values; as results they are held besides.
  void DropOutputs() {
    for (const SegmentOutput& output : view_.segment().outputs) {
      ValueId id = view_.stage().local(output.local).value;
      if (last_.erase(id) > 0) recorder_.Drop(values_.at(id).storage);
    }
  }

  const SegmentView& view_;
  const bool keeps_;
  std::unordered_map<ValueId, size_t> last_;  // the node that reads it last
  std::unordered_map<ValueId, Placed> values_;
  Recorder recorder_;
};

// ---- Backward.

// Is the gradient of operand o that of the result, as it is?
bool HandsOn(const Node& node, const Rule& rule, size_t o) {
  if (node.op == "Reshape" || node.op == "Transpose" || node.op == "Identity") return true;
  bool sum = node.op == "Add" || (node.op == "Sub" && o == 0);
  return sum && rule.operands[o] == rule.results[0];
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
      if (outputs[o].gradient < 0) continue;
      const Local& gradient = view_.stage().local(outputs[o].gradient);
      bool seed = gradient.source.kind == SourceKind::kSeed;
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
      int input = view_.input(n, o);
      if (half_ == Half::kB && input >= 0 && view_.input(input).late) continue;
      Placed gradient = GradientOf(n, o);
      Placed& sum = input < 0 ? values_[node.operands[o]] : inputs_[static_cast<size_t>(input)];
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
    if (result != values_.end() && HandsOn(node, view_.rule(n), o)) {
      bool reshape = node.op == "Reshape";
      if (!reshape || result->second.row_major) {
        bool turned = node.op == "Transpose";
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
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const SegmentInput& input = view_.segment().inputs[i];
      bool mine = half_ == Half::kBW || !input.late;
      bool written = input.gradient >= 0 && !view_.stage().local(input.gradient).once;
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
    return ElementsOf(LocalShape(at.stage.mesh, gradient.sharding, at.position)) *
           SizeOf(gradient.dtype);
  }

  const SegmentView& view_;
  const std::vector<Keeper>& keepers_;
  const Half half_;
  const bool frees_;
  std::unordered_map<ValueId, Placed> values_;  // gradients at hand
  std::vector<Placed> inputs_;
  Recorder recorder_;
};

// W goes node by node; what it makes is added to the gradients of the weights at once.
HalfMemory WeightTrace(const SegmentView& view) {
  Recorder recorder;
  for (size_t n = 0; n < view.size(); ++n) {
    std::vector<StorageRef> made;
    for (size_t o = 0; o < view.node(n).operands.size(); ++o) {
      int input = view.input(n, o);
      if (input < 0 || !view.input(input).late || !view.Wants(n, o)) continue;
      made.push_back(recorder.Hold(recorder.Make(view.OperandBytes(n, o))));
    }
    for (StorageRef ref : made) recorder.Drop(ref);
  }
  return recorder.Finish();
}

std::vector<std::pair<int, int64_t>> GradientsOf(const SegmentView& view) {
  std::vector<std::pair<int, int64_t>> gradients;
  const StageView& at = view.stage();
  for (const SegmentInput& input : view.segment().inputs) {
    if (!input.trained) continue;
    const Local& local = at.local(input.local);
    int64_t bytes =
        ElementsOf(LocalShape(at.stage.mesh, local.sharding, at.position)) * SizeOf(local.dtype);
    gradients.push_back({local.source.from, bytes});
  }
  return gradients;
}

}  // namespace

std::vector<SegmentMemory> MemoryOfSegments(const Program& program, const StageProgram& stage,
                                            const Position& position, bool split,
                                            const MemoryHabits& habits) {
  StageView at{program, stage, position, habits, std::vector<bool>(stage.locals.size(), true)};
  std::vector<SegmentMemory> all;
  all.reserve(stage.segments.size());
  for (const Segment& segment : stage.segments) {
    SegmentView view(at, segment);
    SegmentMemory memory;
    std::vector<Keeper> keepers;
    memory.forward = ForwardTrace(view, false).Run(&keepers, &at.row_major);
    if (segment.has_backward) {
      memory.keeping = ForwardTrace(view, true).Run(&keepers, &at.row_major);
      memory.backward = BackwardTrace(view, keepers, Half::kBW, false).Run();
      if (split) {
        memory.inputs = BackwardTrace(view, keepers, Half::kB, habits.frees_after_b).Run();
        memory.weights = WeightTrace(view);
      }
      if (habits.eager) memory.gradients = GradientsOf(view);
    }
    all.push_back(std::move(memory));
  }
  return all;
}

}  // namespace heddle
