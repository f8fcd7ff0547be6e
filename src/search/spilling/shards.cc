#include "search/spilling/shards.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/check.h"
#include "program/text.h"
#include "sim/memory.h"

namespace heddle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The most bytes of values, buffers and gradients in the backward of a growing run of units.
class BackwardMost {
 public:
  // `most`: of the unit; `added`: gradients that it adds; `segment`: gradients of the units before
  // it in its segment.
  void Add(int64_t most, int64_t added, int64_t segment, bool begins_segment) {
    if (begins_segment) {
      before_ = std::max(before_, inside_);
      inside_ = 0;
    }
    before_ += added;
    inside_ += 2 * added;
    inside_ = std::max(inside_, most + added + segment);
  }
  int64_t most() const { return std::max(before_, inside_); }

 private:
  int64_t before_ = 0, inside_ = 0;  // of units of earlier segments, and of the last one
};

// Units [first, end), where `end` grows unit by unit.
class GrowingShard {
 public:
  GrowingShard(const ModelCosts& costs, const std::vector<std::vector<size_t>>& read_by, int first)
      : costs_(costs), read_by_(read_by), first_(first) {}

  void Add() {
    auto b = static_cast<size_t>(end_++ + first_);
    const ListCosts& again = costs_.recomputed;
    const ListCosts& whole = costs_.whole;
    int64_t gradients_before = sums_.gradients;
    for (size_t p : read_by_[b]) {
      const ParameterCost& parameter = costs_.parameters[p];
      // A parameter that another unit of the shard has read is there already.
      auto at = std::lower_bound(parameter.units.begin(), parameter.units.end(), first_);
      if (*at != static_cast<int>(b)) continue;
      sums_.weights += parameter.weights;
      sums_.copied += parameter.copied;
      sums_.gradients += parameter.gradients;
      sums_.state += parameter.state;
      update_seconds_ += parameter.update_seconds;
    }
    // Backward starts with the last unit, so the gradients of units before b do not exist yet,
    // except in its own segment. What autograd made for later units of the segment exists as well.
    int64_t added = sums_.gradients - gradients_before;
    if (!costs_.joined[b]) segment_ = 0;
    again_.Add(again.most_backward[b], added, segment_, !costs_.joined[b]);
    whole_.Add(whole.most_backward[b], added, segment_, !costs_.joined[b]);
    segment_ += added;
    again_forward_ = std::max(again_forward_, again.most_forward[b]);
    whole_forward_ = std::max(whole_forward_, whole.most_forward[b]);
    again_seconds_ += again.again[b] + again.backward[b];
    forward_seconds_ += again.forward[b];
    whole_seconds_ += whole.forward[b] + whole.backward[b];
  }

  int end() const { return first_ + end_; }

  // A lower bound on the bytes of all longer ranges: parameters alone.
  int64_t least() const { return sums_.weights + sums_.gradients + sums_.state; }

  ShardCost Cost() const {
    auto a = static_cast<size_t>(first_), e = static_cast<size_t>(end());
    bool last = end() == costs_.units;
    const ListCosts& list = last ? costs_.whole : costs_.recomputed;
    ShardCost out = sums_;
    double run = costs_.run_seconds;
    int64_t held = out.weights + out.state;
    int64_t most = last ? std::max(whole_.most(), whole_forward_) : again_.most();
    int64_t updating = out.gradients + costs_.cut_gradients[a] + costs_.update_bytes;
    out.backward_peak = held + std::max(most - list.kept[a], updating);
    out.backward_fetch = out.copied + out.state;
    if (last) {
      out.backward = run + whole_seconds_ + update_seconds_;
      out.backward_fetch += costs_.cut[a];
      return out;
    }
    out.forward = run + forward_seconds_;
    out.backward = run + again_seconds_ + update_seconds_;
    out.kept = list.kept[e] - list.kept[a];
    out.forward_peak = out.weights + again_forward_ - list.kept[a];
    out.forward_fetch = out.copied + costs_.cut[a];
    out.backward_fetch += out.kept + costs_.cut_gradients[e];
    return out;
  }

 private:
  const ModelCosts& costs_;
  const std::vector<std::vector<size_t>>& read_by_;
  int first_ = 0, end_ = 0;
  ShardCost sums_;
  BackwardMost again_, whole_;
  int64_t segment_ = 0;  // gradients of the segment of b
  int64_t again_forward_ = 0, whole_forward_ = 0;
  double again_seconds_ = 0, forward_seconds_ = 0, whole_seconds_ = 0, update_seconds_ = 0;
};

// Per unit the parameters that it reads.
std::vector<std::vector<size_t>> ReadBy(const ModelCosts& costs) {
  std::vector<std::vector<size_t>> read_by(static_cast<size_t>(costs.units));
  for (size_t p = 0; p < costs.parameters.size(); ++p) {
    for (int b : costs.parameters[p].units) read_by[static_cast<size_t>(b)].push_back(p);
  }
  return read_by;
}

struct ShardEdge {
  int end = 0;
  double seconds = 0;
  int64_t bytes = 0;  // that pass its end
};

bool Fits(const ShardCost& shard, bool one_unit, const ShardLimits& limits) {
  return shard.peak() <= limits.memory &&
         (shard.fetch() <= limits.buffer || (one_unit && limits.any_unit));
}

// Per first unit, the shards that fit.
std::vector<std::vector<ShardEdge>> FittingShards(const ModelCosts& costs,
                                                  const ShardLimits& limits) {
  std::vector<std::vector<size_t>> read_by = ReadBy(costs);
  std::vector<std::vector<ShardEdge>> fitting(static_cast<size_t>(costs.units));
  for (int a = 0; a < costs.units; ++a) {
    GrowingShard shard(costs, read_by, a);
    while (shard.end() < costs.units) {
      shard.Add();
      if (shard.least() > limits.memory) break;
      ShardCost cost = shard.Cost();
      if (!Fits(cost, shard.end() == a + 1, limits)) continue;
      auto e = static_cast<size_t>(shard.end());
      fitting[static_cast<size_t>(a)].push_back(
          {shard.end(), cost.seconds(), costs.cut[e] + costs.cut_gradients[e]});
    }
  }
  return fitting;
}

// The fewest shards from each cut to the end; -1: impossible.
std::vector<int> FewestFrom(const std::vector<std::vector<ShardEdge>>& fitting) {
  std::vector<int> fewest(fitting.size() + 1, -1);
  fewest.back() = 0;
  for (size_t a = fitting.size(); a-- > 0;) {
    for (const ShardEdge& edge : fitting[a]) {
      int rest = fewest[static_cast<size_t>(edge.end)];
      if (rest >= 0 && (fewest[a] < 0 || rest + 1 < fewest[a])) fewest[a] = rest + 1;
    }
  }
  return fewest;
}

// best[k][a]: for k shards from cut a to the end, combining an edge and the rest by `join`.
template <class Join>
std::vector<std::vector<double>> BestFrom(const std::vector<std::vector<ShardEdge>>& fitting,
                                          int shards, Join join) {
  size_t n = fitting.size();
  std::vector<std::vector<double>> best(static_cast<size_t>(shards) + 1,
                                        std::vector<double>(n + 1, kNever));
  best[0][n] = 0;
  for (size_t k = 1; k < best.size(); ++k) {
    for (size_t a = 0; a < n; ++a) {
      for (const ShardEdge& edge : fitting[a]) {
        best[k][a] = std::min(best[k][a], join(edge, best[k - 1][static_cast<size_t>(edge.end)]));
      }
    }
  }
  return best;
}

}  // namespace

ShardCost CostOfShard(const ModelCosts& costs, int first, int end) {
  HEDDLE_CHECK(0 <= first && first < end && end <= costs.units);
  std::vector<std::vector<size_t>> read_by = ReadBy(costs);
  GrowingShard shard(costs, read_by, first);
  while (shard.end() < end) shard.Add();
  return shard.Cost();
}

std::optional<std::vector<int>> CutIntoShards(const ModelCosts& costs, const ShardLimits& limits) {
  std::vector<std::vector<ShardEdge>> fitting = FittingShards(costs, limits);
  int shards = FewestFrom(fitting)[0];
  if (shards < 0) return std::nullopt;
  auto k = static_cast<size_t>(shards);
  double longest = BestFrom(fitting, shards, [](const ShardEdge& edge, double rest) {
    return std::max(edge.seconds, rest);
  })[k][0];
  double allowed = longest * (1 + limits.balance);
  auto bytes = [&](const ShardEdge& edge, double rest) {
    return edge.seconds <= allowed ? static_cast<double>(edge.bytes) + rest : kNever;
  };
  std::vector<std::vector<double>> best = BestFrom(fitting, shards, bytes);
  std::vector<int> ends;
  for (size_t a = 0; k > 0; --k) {
    for (const ShardEdge& edge : fitting[a]) {
      auto e = static_cast<size_t>(edge.end);
      if (best[k - 1][e] == kNever || bytes(edge, best[k - 1][e]) != best[k][a]) continue;
      ends.push_back(edge.end);
      a = e;
      break;
    }
  }
  return ends;
}

FleetShards CutFleet(const std::vector<const ModelCosts*>& models, int64_t memory) {
  FleetShards best;
  size_t fewest = std::numeric_limits<size_t>::max();
  constexpr int kParts = 32;
  for (int part = 1; part < kParts; ++part) {
    int64_t buffer = memory / kParts * part;
    FleetShards at{.buffer = buffer, .ends = {}, .feasible = true};
    size_t shards = 0;
    for (const ModelCosts* model : models) {
      auto ends = CutIntoShards(*model, {.memory = memory - buffer, .buffer = buffer});
      if (!ends) {
        at.feasible = false;
        break;
      }
      shards += ends->size();
      at.ends.push_back(std::move(*ends));
    }
    if (!at.feasible || shards >= fewest) continue;
    fewest = shards;
    best = std::move(at);
  }
  if (best.feasible) return best;
  for (size_t m = 0; m < models.size(); ++m) {
    for (int b = 0; b < models[m]->units; ++b) {
      ShardCost block = CostOfShard(*models[m], b, b + 1);
      int64_t needed = block.peak() + block.fetch();
      if (needed <= best.needed) continue;
      best.needed = needed;
      best.worst = static_cast<int>(m);
    }
  }
  return best;
}

namespace {

// Per visit: bytes that the instruction list keeps on the device throughout, whereas a job with
// only the touched values on the device does not.
class AwayBytes {
 public:
  explicit AwayBytes(const MemoryModel& memory)
      : program_(memory.program()), run_(program_.RunOf(0)), touched_(run_.buffers.size()) {
    bytes_.assign(run_.visits.size(), 0);
    for (const Instruction& at : run_.instructions) {
      for (const auto* list : {&at.reads, &at.adds, &at.writes}) {
        for (BufferId id : *list) {
          if (id.valid()) touched_[id].insert(at.visit);
        }
      }
    }
    for (BufferId b : run_.buffers.ids()) {
      if (!IsMoved(b)) continue;
      for (VisitId v = Next(*touched_[b].begin()); v < *touched_[b].rbegin(); v = Next(v)) {
        if (touched_[b].count(v) == 0) bytes_[v] += BytesOf(b);
      }
    }
    std::map<StageId, StageMemory> stages;
    for (const Instruction& at : run_.instructions) {
      if (at.op != Opcode::kRun || at.writes.empty()) continue;
      if (run_.buffers[at.writes.back()].kind != BufferKind::kSaved) continue;
      auto [found, fresh] = stages.try_emplace(at.stage);
      if (fresh) found->second = memory.Of(at.stage, 0);
      Saved(at, found->second.segments[at.segment()].keeping);
    }
  }

  int64_t In(VisitId visit) const { return bytes_[visit]; }

 private:
  static VisitId Next(VisitId visit) { return VisitId{visit.value + 1}; }
  int64_t BytesOf(BufferId b) const { return BufferBytes(program_, run_.buffers[b], 0); }
  bool IsMoved(BufferId b) const {
    const Buffer& buffer = run_.buffers[b];
    return buffer.kind == BufferKind::kLocal && buffer.microbatch >= 0 && !touched_[b].empty();
  }

  // What a segment keeps, from the visit after its forward to the one before its backward. A
  // storage that a buffer shares stays as long as the buffer.
  void Saved(const Instruction& at, const HalfMemory& half) {
    if (at.microbatch < 0) return;
    VisitId last = *touched_[at.writes.back()].rbegin();
    for (StorageRef ref : std::set<StorageRef>(half.kept.begin(), half.kept.end())) {
      BufferId shared;
      for (size_t r = 0; r < half.results.size(); ++r) {
        if (half.results[r] == ref) shared = at.writes[r];
      }
      if (ref < 0) shared = at.reads[static_cast<size_t>(~ref)];
      if (shared.valid() && !IsMoved(shared)) continue;
      int64_t bytes = ref < 0 ? BytesOf(shared) : half.made[static_cast<size_t>(ref)].bytes;
      VisitId from = shared.valid() ? *touched_[shared].rbegin() : at.visit;
      for (VisitId v = Next(std::max(from, at.visit)); v < last; v = Next(v)) bytes_[v] += bytes;
    }
  }

  const Program& program_;
  const DeviceProgram& run_;
  IdVector<BufferId, std::set<VisitId>> touched_;
  IdVector<VisitId, int64_t> bytes_;
};

}  // namespace

std::vector<int64_t> ShardPeaks(const Program& program, const MemoryHabits& habits) {
  const DeviceProgram& run = program.RunOf(0);
  MemoryModel memory(program, habits);
  AwayBytes away(memory);
  MemoryTimeline timeline = Replay(memory, 0);
  std::vector<int64_t> peaks;
  for (size_t i = 0; i < run.instructions.size(); ++i) {
    VisitId visit = run.instructions[i].visit;
    auto shard = static_cast<size_t>(run.visits[visit].shard);
    if (shard >= peaks.size()) peaks.resize(shard + 1, 0);
    peaks[shard] = std::max(peaks[shard], timeline.during[i] - away.In(visit));
  }
  return peaks;
}

}  // namespace heddle
