#include "plan/expert_strategies.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/integers.h"
#include "plan/axes.h"
#include "plan/sequence.h"
#include "plan/split_mark.h"

namespace heddle {
namespace {

class Propagation {
 public:
  Propagation(const Model& model, const Degrees& degrees, const Mesh& mesh,
              const std::vector<int>& stage_of)
      : model_(model),
        degrees_(degrees),
        mesh_(mesh),
        stage_of_(stage_of),
        cp_(AxisWithRole(mesh, AxisRole::kContext)),
        tp_(AxisWithRole(mesh, AxisRole::kTensor)),
        experts_(ExpertAxisOf(mesh, degrees)),
        strategies_(model.graph.nodes.size(), Strategy(mesh.axes.size(), kReplicate)),
        by_sequence_(model.graph.nodes.size(), false),
        by_expert_(model.graph.nodes.size(), false) {
    for (size_t a = 0; a < mesh.axes.size(); ++a) {
      if (SplitsBatch(FindAxis(mesh.axes[a].name)->role)) batch_axes_.push_back(ToInt(a));
    }
    for (size_t n = 0; n < strategies_.size(); ++n) flops_ += Flops(n);
    if (cp_ >= 0 || degrees.sp) sequence_ = FindSequence(model.graph, model.rules);
  }

  std::vector<Strategy> Run() {
    for (size_t n = 0; n < strategies_.size(); ++n) {
      if (IsOnce(n)) continue;
      SplitExperts(n);
      SplitBatch(n);
      if (cp_ >= 0) SplitSequence(n, cp_, /*aligned=*/false);
      if (tp_ >= 0) SplitTensor(n);
    }
    for (size_t n = strategies_.size(); n-- > 0;) {
      if (IsOnce(n)) FollowReaders(n);
    }
    for (size_t n = 0; n < strategies_.size(); ++n) {
      if (IsOnce(n)) KeepWeightSplits(n);
    }
    RequireSplits();
    return std::move(strategies_);
  }

 private:
  const Rule& rule(size_t n) const { return model_.rules[n]; }
  const Node& node(size_t n) const { return model_.graph.nodes[n]; }
  int64_t Ranks(int axis) const { return mesh_.axes[ToSize(axis)].size; }
  AxisChoice& Choice(size_t n, int axis) { return strategies_[n][ToSize(axis)]; }
  AxisChoice Choice(size_t n, int axis) const { return strategies_[n][ToSize(axis)]; }
  bool IsSide(size_t n) const { return model_.block_of[n] < 0; }
  bool IsOnce(size_t n) const { return IsSide(n) && model_.once[n]; }

  bool IsTaken(size_t n, int factor) const {
    return std::any_of(strategies_[n].begin(), strategies_[n].end(),
                       [&](AxisChoice choice) { return choice.splits(factor); });
  }

  // Is the value a parameter, a constant, or made from these alone?
  bool IsWeight(ValueId id) const {
    const Value& value = model_.graph.value(id);
    if (value.kind == ValueKind::kInput) return false;
    return !value.producer.valid() || IsOnce(value.producer.index());
  }
  bool IsMatrix(ValueId id) const {
    const TensorType& type = model_.graph.value(id).type;
    return IsWeight(id) && IsFloat(type.dtype) &&
           std::count_if(type.shape.begin(), type.shape.end(),
                         [](int64_t size) { return size > 1; }) >= 2;
  }

  // How the producer of a value splits it over an axis. Weights have no such split: they are stored as their reader wants
  // them.
  std::optional<SplitMark> Arrives(ValueId id, int axis) const {
    NodeId producer = model_.graph.value(id).producer;
    if (!producer.valid() || IsOnce(producer.index())) return std::nullopt;
    int factor = Choice(producer.index(), axis).factor();
    if (factor < 0) return std::nullopt;
    return MarkOf(rule(producer.index()), ResultDims(id), factor);
  }
  const Dims& ResultDims(ValueId id) const {
    size_t n = model_.graph.value(id).producer.index();
    const std::vector<ValueId>& results = node(n).results;
    size_t r = static_cast<size_t>(std::find(results.begin(), results.end(), id) - results.begin());
    return rule(n).results[r];
  }

  // Does the value arrive as a partial sum, and is this node its only reader? Another reader would need the whole sum.
  bool ArrivesPartial(size_t n, ValueId id, int axis) const {
    NodeId producer = model_.graph.value(id).producer;
    if (model_.readers[id.index()].size() > 1) return false;
    if (!producer.valid() || stage_of_[producer.index()] != stage_of_[n]) return false;
    AxisChoice choice = Choice(producer.index(), axis);
    if (choice.is_partial()) return true;
    return choice.is_split() && !Has(ResultDims(id), choice.factor()) &&
           rule(producer.index()).factors[choice.factor_index()].kind == FactorKind::kSummed;
  }

  bool CarriesBatch(size_t n, int factor) const {
    return model_.batch && factor >= 0 && std::cmp_less(factor, model_.batch->factors[n].size()) &&
           model_.batch->factors[n][ToSize(factor)];
  }
  bool CarriesSequence(size_t n, int factor) const {
    return !sequence_.factors.empty() && sequence_.factors[n][ToSize(factor)];
  }

  void SplitExperts(size_t n) {
    if (experts_ < 0 || IsSide(n)) return;
    int factor = ExpertFactor(n);
    if (factor < 0) return;
    Choice(n, experts_) = Split(factor);
    by_expert_[n] = true;
  }

  // The factor that a weight, another operand and the result of a matrix product have in common; in nodes between such
  // products, the factor by which an operand arrives split over experts. -1: none.
  int ExpertFactor(size_t n) const {
    const Rule& r = rule(n);
    const std::vector<ValueId>& operands = node(n).operands;
    auto fits = [&](int f) {
      const Factor& factor = r.factors[ToSize(f)];
      return factor.kind == FactorKind::kParallel && factor.size >= Ranks(experts_) &&
             Has(r.results[0], f) && !CarriesBatch(n, f);
    };
    for (int f = 0; HasContraction(r) && f < std::ssize(r.factors); ++f) {
      bool weight = false, other = false;
      for (size_t o = 0; o < operands.size(); ++o) {
        if (!Has(r.operands[o], f)) continue;
        weight |= IsMatrix(operands[o]) && HasSummed(r, o);
        other |= !IsWeight(operands[o]);
      }
      if (weight && other && fits(f)) return f;
    }
    for (size_t o = 0; o < operands.size(); ++o) {
      NodeId producer = model_.graph.value(operands[o]).producer;
      if (!producer.valid() || !by_expert_[producer.index()]) continue;
      std::optional<SplitMark> mark = Arrives(operands[o], experts_);
      int f = mark ? FollowSplit(r, o, *mark, Ranks(experts_)) : -1;
      if (f >= 0 && fits(f)) return f;
    }
    return -1;
  }

  void SplitBatch(size_t n) {
    if (!model_.batch) return;
    for (size_t f = 0; f < model_.batch->factors[n].size(); ++f) {
      const std::optional<BatchPart>& part = model_.batch->factors[n][f];
      if (!part || part->outer != 1 || rule(n).factors[f].kind == FactorKind::kWhole) continue;
      for (int axis : batch_axes_) {
        if (Choice(n, axis) == kReplicate) Choice(n, axis) = Split(ToInt(f));
      }
    }
  }

  // Are blocks of the factor pieces of the sequence, given how the batch outside of it is split?
  bool IsAligned(size_t n, int factor) const {
    int64_t pieces = degrees_.microbatches;
    for (int axis : batch_axes_) {
      if (Choice(n, axis).splits(factor)) pieces *= Ranks(axis);
    }
    int64_t outer = sequence_.factors[n][ToSize(factor)]->outer;
    return outer == 1 || outer == pieces;
  }

  bool SplitSequence(size_t n, int axis, bool aligned) {
    int best = -1;
    for (int f = 0; f < std::ssize(rule(n).factors); ++f) {
      if (!CarriesSequence(n, f)) continue;
      FactorKind kind = rule(n).factors[ToSize(f)].kind;
      if (kind != FactorKind::kParallel && kind != FactorKind::kSummed) continue;
      if (aligned && !IsAligned(n, f)) continue;
      bool better = best < 0 || (kind == FactorKind::kParallel &&
                                 rule(n).factors[ToSize(best)].kind == FactorKind::kSummed);
      if (better) best = f;
    }
    if (best >= 0) Choice(n, axis) = Split(best);
    return best >= 0;
  }

  void SplitTensor(size_t n) {
    if (IsSide(n)) return;
    AxisChoice choice = FollowTensor(n);
    if (choice == kReplicate) choice = PassSum(n);
    if (choice == kReplicate) choice = StartTensor(n);
    if (choice != kReplicate) {
      Choice(n, tp_) = choice;
    } else if (degrees_.sp) {
      by_sequence_[n] = SplitSequence(n, tp_, /*aligned=*/true);
    }
  }

  // Splits the factor by which most operands arrive split; in a tie, that of the first operand.
  AxisChoice FollowTensor(size_t n) const {
    std::vector<int> votes(rule(n).factors.size(), 0);
    int best = -1;
    for (size_t o = 0; o < node(n).operands.size(); ++o) {
      ValueId id = node(n).operands[o];
      NodeId producer = model_.graph.value(id).producer;
      if (!producer.valid() || by_sequence_[producer.index()]) continue;
      std::optional<SplitMark> mark = Arrives(id, tp_);
      int f = mark ? FollowSplit(rule(n), o, *mark, Ranks(tp_)) : -1;
      if (f < 0 || IsTaken(n, f)) continue;
      ++votes[ToSize(f)];
      if (best < 0 || votes[ToSize(f)] > votes[ToSize(best)]) best = f;
    }
    return SplitIfAny(best);
  }

  // Views and additions pass partial sums on; the reduction is left to later nodes.
  AxisChoice PassSum(size_t n) const {
    const Rule& r = rule(n);
    if (HasContraction(r)) return kReplicate;
    for (size_t k = 0; k < r.linear.size(); ++k) {
      const std::vector<int>& set = r.linear[k];
      bool partial = !set.empty() && std::all_of(set.begin(), set.end(), [&](int o) {
        return ArrivesPartial(n, node(n).operands[ToSize(o)], tp_);
      });
      if (partial && (r.view || set.size() > 1)) return PassPartial(ToInt(k));
    }
    return kReplicate;
  }

  // Begins tensor parallelism: by the columns of a matrix, or by the rows of a table of embeddings.
  AxisChoice StartTensor(size_t n) const {
    const Rule& r = rule(n);
    bool contraction = HasContraction(r);
    for (size_t o = 0; o < node(n).operands.size(); ++o) {
      if (!IsMatrix(node(n).operands[o])) continue;
      int best = -1;
      for (int f = 0; f < std::ssize(r.factors); ++f) {
        const Factor& factor = r.factors[ToSize(f)];
        bool wanted = contraction ? factor.kind == FactorKind::kParallel && Has(r.results[0], f)
                                  : factor.kind == FactorKind::kSummed;
        if (!wanted || !Has(r.operands[o], f) || factor.size < Ranks(tp_)) continue;
        if (CarriesBatch(n, f) || CarriesSequence(n, f) || IsTaken(n, f)) continue;
        if (best < 0 || factor.size > r.factors[ToSize(best)].size) best = f;
      }
      if (best >= 0 && (!contraction || Pays(n, o, best))) return Split(best);
    }
    return kReplicate;
  }

  // A matrix is split if later nodes can use the split result, or if it has at least as many columns as rows (a router's
  // has not) and its product is a relevant part of the work.
  bool Pays(size_t n, size_t operand, int factor) const {
    constexpr double kCounts = 0.02;
    if (IsUsed(n, factor)) return true;
    int64_t columns = rule(n).factors[ToSize(factor)].size;
    int64_t elements = ElementCount(model_.graph.value(node(n).operands[operand]).type.shape);
    return columns >= elements / columns && Flops(n) >= kCounts * flops_;
  }
  double Flops(size_t n) const { return ForwardWork(rule(n), WholeBlocks(rule(n))).flops; }

  // Does a split by the factor reach a matrix product or a sum, through nodes that can follow it?
  bool IsUsed(size_t from, int factor) const {
    constexpr int kMaxVisits = 256;
    std::deque<std::pair<size_t, int>> queue = {{from, factor}};
    for (int visits = 0; !queue.empty() && visits < kMaxVisits; ++visits) {
      auto [n, f] = queue.front();
      queue.pop_front();
      for (size_t r = 0; r < node(n).results.size(); ++r) {
        std::optional<SplitMark> mark = MarkOf(rule(n), rule(n).results[r], f);
        if (!mark) continue;
        for (NodeId reader : model_.readers[node(n).results[r].index()]) {
          size_t at = reader.index();
          const std::vector<ValueId>& operands = node(at).operands;
          auto o = static_cast<size_t>(
              std::find(operands.begin(), operands.end(), node(n).results[r]) - operands.begin());
          int next = FollowSplit(rule(at), o, *mark, Ranks(tp_));
          if (next < 0) continue;
          if (HasContraction(rule(at)) || !Has(rule(at).results[0], next)) return true;
          queue.emplace_back(at, next);
        }
      }
    }
    return false;
  }

  // A node that is computed once per step is split as all of its readers want it.
  void FollowReaders(size_t n) {
    if (node(n).results.size() != 1) return;
    ValueId result = node(n).results[0];
    for (int axis = 0; axis < std::ssize(mesh_.axes); ++axis) {
      std::optional<SplitMark> wanted = WantedBy(model_.readers[result.index()], result, axis);
      if (!wanted) continue;
      for (int f = 0; f < std::ssize(rule(n).factors); ++f) {
        std::optional<SplitMark> mark = MarkOf(rule(n), rule(n).results[0], f);
        if (!mark || !SameSplit(*mark, *wanted, Ranks(axis)) || IsTaken(n, f)) continue;
        if (rule(n).factors[ToSize(f)].kind == FactorKind::kParallel) Choice(n, axis) = Split(f);
      }
    }
  }

  // Replicates again what splits no parameter.
  void KeepWeightSplits(size_t n) {
    for (int axis = 0; axis < std::ssize(mesh_.axes); ++axis) {
      int factor = Choice(n, axis).factor();
      bool splits = false;
      for (size_t o = 0; factor >= 0 && o < node(n).operands.size(); ++o) {
        const Value& value = model_.graph.value(node(n).operands[o]);
        bool split = value.kind == ValueKind::kParameter ||
                     (value.producer.valid() && Choice(value.producer.index(), axis).is_split());
        splits |= split && Has(rule(n).operands[o], factor);
      }
      if (!splits) Choice(n, axis) = kReplicate;
    }
  }

  std::optional<SplitMark> WantedBy(const std::vector<NodeId>& readers, ValueId value,
                                    int axis) const {
    std::optional<SplitMark> wanted;
    for (NodeId reader : readers) {
      size_t n = reader.index();
      for (size_t o = 0; o < node(n).operands.size(); ++o) {
        if (node(n).operands[o] != value) continue;
        AxisChoice choice = Choice(n, axis);
        std::optional<SplitMark> mark;
        if (choice.is_split()) mark = MarkOf(rule(n), rule(n).operands[o], choice.factor());
        if (!mark || (wanted && *wanted != *mark)) return std::nullopt;
        wanted = mark;
      }
    }
    return wanted;
  }

  void RequireSplits() const {
    bool any = std::find(by_expert_.begin(), by_expert_.end(), true) != by_expert_.end();
    if (experts_ >= 0 && !any) {
      ThrowInput("ep {}: the model has no experts to spread over {} devices; use ep 1", degrees_.ep,
                 degrees_.ep);
    }
    if ((cp_ >= 0 || degrees_.sp) && !sequence_.found) {
      ThrowInput(
          "{}: the model has no input of tokens [batch, sequence] whose sequence could be split; "
          "use cp 1 and no sp",
          cp_ >= 0 ? fmt::format("cp {}", degrees_.cp) : "sp");
    }
  }

  const Model& model_;
  const Degrees& degrees_;
  const Mesh& mesh_;
  const std::vector<int>& stage_of_;
  int cp_, tp_;
  int experts_;  // the axis that experts are spread over; -1: none
  std::vector<int> batch_axes_;
  SequenceInfo sequence_;
  double flops_ = 0;  // of the whole forward pass
  std::vector<Strategy> strategies_;
  std::vector<bool> by_sequence_;  // per node: tp splits its sequence
  std::vector<bool> by_expert_;
};

}  // namespace

Mesh ExpertMesh(const Degrees& degrees) {
  Mesh mesh;
  for (const ParallelAxis* axis : ExpertMeshAxes()) {
    int64_t size = axis->expert_size(degrees);
    if (size == 1) continue;
    mesh.axes.push_back({std::string(axis->name), size});
    if (axis->role == AxisRole::kReplicatedData) mesh.axes.back().shares = degrees.shares;
  }
  HEDDLE_CHECK(mesh.axes.size() <= kMaxAxes, "{} axes within a stage", mesh.axes.size());
  return mesh;
}

std::vector<Strategy> ExpertStrategies(const Model& model, const Degrees& degrees, const Mesh& mesh,
                                       const std::vector<int>& stage_of) {
  return Propagation(model, degrees, mesh, stage_of).Run();
}

}  // namespace heddle
