// Draws constraints around a plan, and lists those that the plan itself satisfies.
//
//   FixedDegrees own = OwnDegrees(model, plan);        // all that options can say of the plan
//   ConstraintDrawer drawer(problem, own, /*seed=*/1);
//   FixedDegrees other = drawer.Draw(/*exclude=*/true);  // the plan does not satisfy it
//   OptionsOf(other) == "--pp 4 --zero 1"
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/divisors.h"
#include "cluster/topology.h"
#include "random_plan.h"
#include "schedule/schedule.h"
#include "search/searcher.h"

namespace heddle {

inline std::string OptionsOf(const FixedDegrees& fixed) {
  std::string text;
  auto say = [&](std::string_view name, const auto& value) {
    if (value) text += fmt::format(" --{} {}", name, *value);
  };
  say("dp", fixed.dp);
  say("tp", fixed.tp);
  say("pp", fixed.pp);
  say("microbatches", fixed.microbatches);
  say("zero", fixed.zero);
  say("schedule", fixed.schedule);
  say("chunks", fixed.chunks);
  if (fixed.recompute) {
    text += fmt::format(" --recompute {}", Name(*fixed.recompute));
  }
  if (fixed.offload) {
    text += fmt::format(" --offload {}", Name(*fixed.offload));
  }
  if (!fixed.layers_per_stage.empty()) {
    text += fmt::format(" --stages {}", fmt::join(fixed.layers_per_stage, ","));
  }
  return text.empty() ? text : text.substr(1);
}

// Everything that options can say of a plan. Degrees are left out if the plan has axes other than
// dp and tp, and the recomputation policy if layers differ in it.
inline FixedDegrees OwnDegrees(const Model& model, const Plan& plan) {
  FixedDegrees own;
  own.dp = own.tp = 1;
  bool sayable = true;
  const Mesh& mesh = plan.stages.front().mesh;
  for (const Stage& stage : plan.stages) sayable = sayable && stage.mesh.axes == mesh.axes;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.name == "dp") {
      own.dp = axis.size;
    } else if (axis.name == "tp") {
      own.tp = axis.size;
    } else {
      sayable = false;
    }
  }
  if (!sayable) own.dp = own.tp = std::nullopt;
  own.pp = static_cast<int64_t>(plan.stages.size()) / plan.chunks;
  own.microbatches = plan.microbatches;
  own.zero = plan.zero.level;
  own.offload = plan.offload;
  own.chunks = plan.chunks;
  if (*own.pp > 1) {
    own.schedule = plan.schedule;
    std::vector<int> ends;
    for (const Stage& stage : plan.stages) ends.push_back(stage.last_block);
    own.layers_per_stage = LayersPerStage(model, ends);
  }
  if (plan.offload == Offload::kAll) return own;  // the recomputation of shards follows from memory
  own.recompute = plan.stages.front().recompute.front();
  for (const Stage& stage : plan.stages) {
    for (RecomputePolicy policy : stage.recompute) {
      if (own.recompute && policy != *own.recompute) own.recompute = std::nullopt;
    }
  }
  return own;
}

// Does a plan with the degrees `own` contradict the constraint? Degrees that are not given are
// unknown and may.
inline bool Excludes(const FixedDegrees& constraint, const FixedDegrees& own) {
  auto other = [](const auto& asked, const auto& has) { return asked && has && *asked != *has; };
  bool stages =
      !constraint.layers_per_stage.empty() && constraint.layers_per_stage != own.layers_per_stage;
  return stages || other(constraint.dp, own.dp) || other(constraint.tp, own.tp) ||
         other(constraint.pp, own.pp) || other(constraint.microbatches, own.microbatches) ||
         other(constraint.zero, own.zero) || other(constraint.chunks, own.chunks) ||
         other(constraint.recompute, own.recompute) || other(constraint.offload, own.offload) ||
         other(constraint.schedule, own.schedule);
}

class ConstraintDrawer {
 public:
  // The problem must outlive it.
  ConstraintDrawer(const SearchProblem& problem, const FixedDegrees& own, uint64_t seed)
      : problem_(problem),
        own_(own),
        rng_(seed),
        devices_(DeviceCount(problem.cluster)),
        node_(NodeOf(problem.cluster, DeviceId{0}).count),
        batch_(std::max<int64_t>(1, BatchSize(problem.model))),
        layers_(LayersOf(problem.model)) {}

  // A constraint that was not drawn before; empty where none was found. `exclude`: the plan does
  // not satisfy it.
  FixedDegrees Draw(bool exclude) {
    for (int tries = 0; tries < 400; ++tries) {
      FixedDegrees fixed;
      int64_t options = 1 + Below(rng_, 2);
      for (int64_t i = 0; i < options; ++i) Fix(fixed);
      if (!IsPossible(fixed) || Excludes(fixed, own_) != exclude) continue;
      if (drawn_.insert(OptionsOf(fixed)).second) return fixed;
    }
    return {};
  }

  // At most so many parts of the plan's own degrees: all together, then each alone and some pairs,
  // in random order.
  std::vector<FixedDegrees> OwnConstraints(size_t most) {
    constexpr int kPairs = 3;
    std::vector<FixedDegrees> parts;
    for (int option = 0; option < kOptions; ++option) TakeOwn(option, parts.emplace_back());
    for (int i = 0; i < kPairs; ++i) {
      FixedDegrees& pair = parts.emplace_back();
      TakeOwn(static_cast<int>(Below(rng_, kOptions)), pair);
      TakeOwn(static_cast<int>(Below(rng_, kOptions)), pair);
    }
    for (size_t i = parts.size() - 1; i > 0; --i) {
      std::swap(parts[i], parts[static_cast<size_t>(Below(rng_, i + 1))]);
    }
    FixedDegrees whole;
    for (int option = 0; option < kOptions; ++option) TakeOwn(option, whole);
    parts.insert(parts.begin(), whole);
    std::set<std::string> seen = {""};
    std::erase_if(parts,
                  [&](const FixedDegrees& at) { return !seen.insert(OptionsOf(at)).second; });
    if (parts.size() > most) parts.resize(most);
    return parts;
  }

 private:
  enum Option {
    kDp,
    kTp,
    kPp,
    kMicrobatches,
    kZero,
    kRecompute,
    kSchedule,
    kChunks,
    kOffload,
    kStages,
    kOptions
  };

  // A value of a sorted list, half of the time one of the four nearest to `own`.
  int64_t Choose(const std::vector<int64_t>& values, const std::optional<int64_t>& own) {
    auto size = static_cast<int64_t>(values.size());
    if (!own || Below(rng_, 2) == 0) return values[static_cast<size_t>(Below(rng_, values.size()))];
    int64_t at = std::lower_bound(values.begin(), values.end(), *own) - values.begin();
    int64_t place = at + Below(rng_, 5) - 2;
    return values[static_cast<size_t>(std::clamp<int64_t>(place, 0, size - 1))];
  }

  // Powers of two and all divisors of a machine's devices.
  std::vector<int64_t> TensorDegrees() const {
    std::set<int64_t> sizes;
    for (int64_t n : Divisors(node_)) sizes.insert(n);
    for (int64_t n = 1; n <= std::min(devices_, 2 * node_); n *= 2) sizes.insert(n);
    return {sizes.begin(), sizes.end()};
  }

  std::vector<int64_t> StageCounts() const {
    int64_t units = layers_ > 0 ? layers_ : static_cast<int64_t>(problem_.model.blocks.size());
    int64_t most = std::min(devices_, layers_ > 0 ? units : std::min<int64_t>(units, 8));
    std::vector<int64_t> counts = Divisors(devices_);
    for (int64_t n = 3; n < 8 && devices_ <= 16; ++n) counts.push_back(n);
    std::sort(counts.begin(), counts.end());
    std::erase_if(counts, [&](int64_t n) { return n > most; });
    return counts;
  }

  std::vector<int64_t> Parts() const {
    std::vector<int64_t> parts = Divisors(batch_);
    std::erase_if(parts, [&](int64_t n) { return n > (1 << 16); });
    return parts;
  }

  void Fix(FixedDegrees& fixed) {
    switch (Below(rng_, kOptions)) {
      case kDp: {
        std::vector<int64_t> ranks = Parts();
        std::erase_if(ranks, [&](int64_t n) { return n > devices_; });
        fixed.dp = Choose(ranks, own_.dp);
        return;
      }
      case kTp:
        fixed.tp = Choose(TensorDegrees(), own_.tp);
        return;
      case kPp:
        fixed.pp = Choose(StageCounts(), own_.pp);
        return;
      case kMicrobatches:
        fixed.microbatches = Choose(Parts(), own_.microbatches);
        return;
      case kZero:
        fixed.zero = static_cast<int>(Below(rng_, 4));
        return;
      case kRecompute:
        fixed.recompute = static_cast<RecomputePolicy>(Below(rng_, kRecomputePolicies.size()));
        return;
      case kSchedule:
        fixed.schedule =
            AllSchedules()[static_cast<size_t>(Below(rng_, AllSchedules().size()))].name;
        return;
      case kChunks:
        fixed.schedule = "interleaved";
        fixed.chunks = static_cast<int>(2 + Below(rng_, 7));
        return;
      case kOffload:
        fixed.offload = static_cast<Offload>(Below(rng_, 3));
        return;
      default:
        FixStages(fixed);
    }
  }

  // The plan's own stages with one layer moved, or stages of about equal size.
  void FixStages(FixedDegrees& fixed) {
    if (layers_ < 2) return;
    std::vector<int64_t> layers = own_.layers_per_stage;
    if (layers.size() > 1 && Below(rng_, 2) == 0) {
      fixed.schedule = own_.schedule;
      fixed.chunks = own_.chunks;
    } else {
      int64_t pp = Choose(StageCounts(), own_.pp);
      if (pp < 2) return;
      layers.assign(static_cast<size_t>(pp), layers_ / pp);
      for (int64_t s = 0; s < layers_ % pp; ++s) ++layers[static_cast<size_t>(s)];
    }
    auto from = static_cast<size_t>(Below(rng_, layers.size()));
    auto to = static_cast<size_t>(Below(rng_, layers.size()));
    if (layers[from] > 1) {
      --layers[from];
      ++layers[to];
    }
    fixed.pp = static_cast<int64_t>(layers.size()) / fixed.chunks.value_or(1);
    fixed.layers_per_stage = layers;
  }

  bool IsPossible(const FixedDegrees& fixed) const {
    int64_t dp = fixed.dp.value_or(1), tp = fixed.tp.value_or(1), pp = fixed.pp.value_or(1);
    int64_t stages = pp * fixed.chunks.value_or(1), parts = dp * fixed.microbatches.value_or(1);
    bool chunked = !fixed.chunks || *fixed.chunks == 1 || fixed.schedule == "interleaved";
    // Only data parallelism supports weights on the host.
    bool spills = fixed.offload == Offload::kAll;
    bool spillable = tp * stages == 1 && fixed.zero.value_or(0) == 0 && !fixed.schedule;
    bool offloads = fixed.offload.value_or(Offload::kNone) != Offload::kNone;
    bool staged = fixed.layers_per_stage.empty() ||
                  (fixed.pp && stages == static_cast<int64_t>(fixed.layers_per_stage.size()));
    return !OptionsOf(fixed).empty() && dp * tp * pp <= devices_ && batch_ % parts == 0 &&
           chunked && staged && (!spills || spillable) &&
           (!offloads || CanOffload(problem_.cluster));
  }

  void TakeOwn(int option, FixedDegrees& fixed) const {
    if (option == kDp) fixed.dp = own_.dp;
    if (option == kTp) fixed.tp = own_.tp;
    if (option == kPp || option == kStages) fixed.pp = own_.pp;
    if (option == kMicrobatches) fixed.microbatches = own_.microbatches;
    if (option == kZero) fixed.zero = own_.zero;
    if (option == kRecompute) fixed.recompute = own_.recompute;
    if (option == kSchedule || option == kChunks || option == kStages)
      fixed.schedule = own_.schedule;
    if (option == kChunks || option == kStages) fixed.chunks = own_.chunks;
    if (option == kOffload) fixed.offload = own_.offload;
    if (option == kStages) fixed.layers_per_stage = own_.layers_per_stage;
  }

  const SearchProblem& problem_;
  const FixedDegrees own_;
  Random rng_;
  const int64_t devices_, node_, batch_, layers_;
  std::set<std::string> drawn_;
};

}  // namespace heddle
