// What the files of kept.h share: a half being written down, and a segment's nodes as a device has them.
#pragma once

#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/analysis.h"
#include "ops/spec.h"
#include "ops/traits.h"
#include "sim/kept.h"

namespace heddle::kept {

inline constexpr StorageRef kNoStorage = INT32_MIN;

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
  IdVector<LocalId, bool> row_major;  // as far as segments have made them
  GradientFlow flow;                  // inside segments

  const Graph& graph() const { return program.model.graph; }
  const Local& local(LocalId id) const { return stage.locals[id]; }
  bool IsParameter(LocalId id) const { return local(id).Is<FromParameter>(); }
};

// A segment's nodes on the device: blocks, and the bytes of operands and results.
class SegmentView {
 public:
  SegmentView(const StageView& at, const Segment& segment) : at_(at), segment_(segment) {
    for (NodeId id : segment.nodes) {
      blocks_.push_back(
          LocalBlocks(at.stage.mesh, rule(id), at.stage.strategies[id.index()], at.position));
      traits_.push_back(&TraitsOf(at.graph().node(id).op));
    }
  }

  const StageView& stage() const { return at_; }
  const Segment& segment() const { return segment_; }
  size_t size() const { return segment_.nodes.size(); }
  const Node& node(size_t n) const { return at_.graph().node(segment_.nodes[n]); }
  const Rule& rule(size_t n) const { return rule(segment_.nodes[n]); }
  const OpTraits& traits(size_t n) const { return *traits_[n]; }
  SegmentInputId input(size_t n, size_t o) const { return segment_.operands[n][o].input; }
  const SegmentInput& input(SegmentInputId id) const { return segment_.inputs[id]; }

  int64_t OperandBytes(size_t n, size_t o) const {
    return LocalElements(rule(n), rule(n).operands[o], blocks_[n]) *
           SizeOf(at_.graph().value(node(n).operands[o]).type.dtype);
  }
  int64_t ResultBytes(size_t n, size_t r) const {
    return LocalElements(rule(n), rule(n).results[r], blocks_[n]) *
           SizeOf(rule(n).result_dtypes[r]);
  }
  // Kept by the node in no value, and needed by each half while it runs.
  int64_t ExtraBytes(size_t n) const {
    int64_t bytes = BytesOf(n, rule(n).keep.extra);
    if (IsFusedLoss(n)) return bytes / Classes(n);  // of every row the logarithm of a sum
    if (KeepsScores(n)) bytes += ScoreBytes(n);
    if (IsEagerNorm(n)) bytes += OperandBytes(n, 0);  // before it is scaled
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
    if (IsEagerNorm(n)) return {WideBytes(n), WideBytes(n)};
    int64_t scratch = BytesOf(n, rule(n).scratch);
    // The gradient of the logarithms, and from it that of the logits (before it is narrowed).
    if (scratch == 0 && IsEager(n) && IsCrossEntropy(n)) return {0, OperandBytes(n, 0)};
    return {scratch, scratch};
  }
  bool KeepsScores(size_t n) const {
    return at_.habits.keeps_scores && traits(n).kind == OpKind::kAttention;
  }
  bool IsFusedLoss(size_t n) const { return at_.habits.fused_loss && IsCrossEntropy(n); }
  // A norm of narrow values is computed from, and keeps, an fp32 copy of them.
  bool KeepsWide(size_t n) const { return IsEagerNorm(n) && WideBytes(n) > OperandBytes(n, 0); }

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
      return ref.input.valid() && input(ref.input).late;
    });
  }

  // Does a gradient come back through the node, to operand o?
  bool Wants(size_t n, size_t o) const {
    const std::vector<bool>& needed = at_.flow.needed;
    const std::vector<int>& differentiable = rule(n).differentiable;
    if (!needed[node(n).operands[o].index()]) return false;
    if (std::find(differentiable.begin(), differentiable.end(), static_cast<int>(o)) ==
        differentiable.end()) {
      return false;
    }
    SegmentInputId i = input(n, o);
    return !i.valid() || input(i).gradient.valid() || input(i).trained;
  }

 private:
  const Rule& rule(NodeId id) const { return at_.program.micro_rules[id.index()]; }
  bool IsEager(size_t n) const { return at_.habits.eager && traits(n).composite; }
  bool IsEagerNorm(size_t n) const {
    return IsEager(n) && traits(n).statistics != NormStatistics::kNone;
  }
  bool IsCrossEntropy(size_t n) const {
    return traits(n).cross_entropy == CrossEntropyPart::kWhole;
  }
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
  std::vector<const OpTraits*> traits_;     // per node
};

// Of what a segment keeps: the first node that does, and whether W needs it.
struct Keeper {
  size_t node = 0;
  bool weight = false;
};

struct Placed {
  StorageRef storage = kNoStorage;
  bool row_major = true;
};

// F of a segment. `keepers`: per entry of what is kept. Says of the outputs whether they are row-major.
HalfMemory TraceForward(const SegmentView& view, bool keeps, std::vector<Keeper>* keepers,
                        IdVector<LocalId, bool>* row_major);
// BW, or B; `keepers` as TraceForward gives them. `frees`: B lets go of what W does not need.
HalfMemory TraceBackward(const SegmentView& view, const std::vector<Keeper>& keepers, Half half,
                         bool frees);
// W.
HalfMemory TraceWeights(const SegmentView& view);

}  // namespace heddle::kept
