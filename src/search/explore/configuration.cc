#include "search/explore/configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/checked_math.h"
#include "base/divisors.h"
#include "base/error.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "plan/units.h"
#include "schedule/schedule.h"

namespace heddle {
namespace {

class ConfigurationEnumerator {
 public:
  ConfigurationEnumerator(const SearchTask& task, bool wide)
      : task_(task),
        fixed_(task.fixed),
        wide_(wide),
        devices_(DeviceCount(task.cluster)),
        node_(NodeOf(task.cluster, DeviceId{0}).count),
        batch_(std::max<int64_t>(1, BatchSize(task.model))),
        units_(UnitsOf(task.model)) {}

  std::vector<Configuration> Run() {
    Check();
    for (const std::vector<int64_t>& axes : Axes()) {
      int64_t inner = 1;
      for (int64_t size : axes) inner *= size;
      for (int64_t pp : Stages(inner)) AddData(axes, inner, pp);
    }
    return std::move(all_);
  }

 private:
  // Throws InputError where the fixed degrees contradict each other.
  void Check() const {
    auto positive = [](std::string_view name, const std::optional<int64_t>& value) {
      if (value && *value < 1) ThrowInput("{} {}: a degree is at least 1", name, *value);
    };
    for (const ParallelAxis& axis : AllAxes()) {
      if (axis.is_degree() && axis.searched) positive(axis.name, FixedDegree(fixed_, axis.role));
    }
    positive("microbatches", fixed_.microbatches);
    RequireHost(task_.cluster, fixed_.offload.value_or(Offload::kNone));
    CheckDevices();
    CheckStages();
    CheckBatch();
    if (!fixed_.layers_per_stage.empty() && !fixed_.pp) {
      ThrowInput("layers per stage are given for {} stages, and --pp is not: use --pp {}",
                 fixed_.layers_per_stage.size(), fixed_.layers_per_stage.size());
    }
  }

  void CheckDevices() const {
    int64_t dp = fixed_.dp.value_or(1), tp = fixed_.tp.value_or(1), pp = fixed_.pp.value_or(1);
    Degrees degrees;
    degrees.dp = dp;
    degrees.tp = tp;
    degrees.pp = pp;
    degrees.microbatches = fixed_.microbatches.value_or(1);
    if (int64_t used = DevicesOf(degrees); used > devices_) {
      std::vector<std::string> fewer;
      for (const ParallelAxis& axis : AllAxes()) {
        if (!axis.is_degree() || !axis.searched) continue;
        int64_t value = degrees.*axis.degree, others = used / value;
        if (value > 1 && others <= devices_) {
          fewer.push_back(fmt::format("{} {}", axis.name, devices_ / others));
        }
      }
      if (fewer.empty()) fewer.push_back("two of them left out");
      ThrowInput("dp {} x tp {} x pp {} = {} devices, more than the {} of the cluster: try {}", dp,
                 tp, pp, used, devices_, fmt::join(fewer, " or "));
    }
  }

  void CheckStages() const {
    int64_t dp = fixed_.dp.value_or(1), tp = fixed_.tp.value_or(1), pp = fixed_.pp.value_or(1);
    int64_t chunks = fixed_.chunks.value_or(1);
    int64_t most_pp = fixed_.pp.value_or(devices_ / (dp * tp));
    if (chunks > 1 && most_pp == 1) {
      ThrowInput("{} chunks with dp {} x tp {} x pp 1: chunks need a pipeline: give --pp 2 or more",
                 chunks, dp, tp);
    }
    int64_t stages = CheckedMul(pp, chunks, "the number of stages");
    // The expert's plans may have stages of blocks that are no layer.
    if (auto most = static_cast<int64_t>(task_.model.blocks.size()); stages > most) {
      std::string parts = fmt::format("{} blocks", most);
      if (layered_) {
        parts = fmt::format("{} repeated layers{}{}, {} blocks in all", units_.layers(),
                            units_.embedding ? ", an embedding" : "", units_.head ? ", a head" : "",
                            most);
      }
      ThrowInput("pp {} x {} chunks = {} stages, and the model has {}: use at most {} stages", pp,
                 chunks, stages, parts, most);
    }
  }

  void CheckBatch() const {
    int64_t dp = fixed_.dp.value_or(1);
    if (BatchSize(task_.model) == 0 && std::max(dp, fixed_.microbatches.value_or(1)) > 1) {
      ThrowInput("dp {} with {} micro-batches: {}", dp, fixed_.microbatches.value_or(1),
                 task_.model.no_batch);
    }
    int64_t parts = CheckedMul(dp, fixed_.microbatches.value_or(1), "parts of the batch");
    if (batch_ % parts != 0) {
      int64_t below = LargestDivisorUpTo(batch_, parts);
      int64_t above = parts < batch_ ? SmallestDivisorFrom(batch_, parts) : parts;
      ThrowInput(
          "a batch of {} is not divisible into dp {} x {} micro-batches = {} parts: try {}{}, or "
          "another batch",
          batch_, dp, fixed_.microbatches.value_or(1), parts, below,
          above <= batch_ ? fmt::format(" or {}", above) : "");
    }
  }

  std::vector<std::vector<int64_t>> Axes() const {
    std::vector<int64_t> sizes;
    // Axes span machines only on few machines: the links between machines are slow, and many axes
    // would share them.
    int64_t beyond = devices_ <= kFewNodes * node_ ? devices_ : node_;
    int64_t most = wide_ ? std::min<int64_t>(devices_, 8 * node_) : beyond;
    if (fixed_.tp) {
      sizes = {*fixed_.tp};
    } else {
      for (int64_t size = 1; size <= most; size *= 2) sizes.push_back(size);
      if ((node_ & (node_ - 1)) != 0) sizes.push_back(node_);
    }
    std::vector<std::vector<int64_t>> axes;
    for (int64_t size : sizes) {
      axes.push_back(size == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{size});
    }
    if (!wide_ || fixed_.tp) return axes;
    for (int64_t inner : sizes) {
      if (inner == 1 || inner > node_) continue;
      for (int64_t outer = 2; outer * inner <= most; outer *= 2) axes.push_back({outer, inner});
    }
    return axes;
  }

  std::vector<int64_t> Stages(int64_t inner) const {
    if (fixed_.pp) return {*fixed_.pp};
    int64_t room = std::max<int64_t>(1, devices_ / inner);
    int64_t most = std::min<int64_t>(room, units_.count());
    // A model without recognised layers is cut between nodes, into few stages.
    if (!layered_) most = std::min<int64_t>(most, 8);
    std::vector<int64_t> stages;
    for (int64_t pp : room <= kFewDevices ? UpTo(most) : Divisors(room)) {
      if (pp <= most) stages.push_back(pp);
    }
    return stages;
  }

  static std::vector<int64_t> UpTo(int64_t n) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 1);
    return all;
  }

  // The most data ranks that the devices allow, among those that divide the batch, and as many as a
  // machine has, which may wait less for communication.
  void AddData(const std::vector<int64_t>& axes, int64_t inner, int64_t pp) {
    int64_t most = devices_ / (inner * pp);
    if (most < 1 || fixed_.dp.value_or(1) > most) return;
    if (!all_.empty() && task_.effort.Over()) return;
    int64_t parts = fixed_.microbatches.value_or(1);
    if (batch_ % parts != 0) return;
    std::vector<int64_t> ranks = Divisors(batch_ / parts);
    std::set<int64_t> chosen;
    for (int64_t limit : {fixed_.dp.value_or(most), std::max<int64_t>(1, node_ / (inner * pp))}) {
      auto after = std::upper_bound(ranks.begin(), ranks.end(), std::min(limit, most));
      if (after != ranks.begin()) chosen.insert(*std::prev(after));
      if (fixed_.dp) break;
    }
    // On few devices any number of data ranks: fewer ranks may wait less for communication.
    if (!fixed_.dp && devices_ <= kFewDevices) {
      for (int64_t dp : ranks) {
        if (dp <= most) chosen.insert(dp);
      }
    }
    if (BatchSize(task_.model) == 0) chosen = {1};
    for (int64_t dp : chosen) {
      int64_t samples = batch_ / dp;
      for (int64_t size : Sizes(samples)) AddSchedules({dp, axes, pp, samples / size});
    }
  }

  // Samples of a micro-batch, the largest number first.
  std::vector<int64_t> Sizes(int64_t samples) const {
    if (fixed_.microbatches) return {samples / *fixed_.microbatches};
    std::vector<int64_t> sizes = Divisors(samples);
    std::reverse(sizes.begin(), sizes.end());
    std::erase_if(sizes, [&](int64_t size) { return samples / size > kMostMicrobatches; });
    return sizes;
  }

  void AddSchedules(Configuration at) {
    if (at.microbatches > 1 && !CanSplit()) return;
    for (const auto& [schedule, chunks] : Schedules(at)) {
      at.schedule = schedule;
      at.chunks = chunks;
      size_t layered = fixed_.layers_per_stage.size();
      if (layered > 0 && static_cast<size_t>(at.stages()) != layered) continue;
      if (at.stages() > units_.count()) continue;
      for (int zero : Zeros(at)) {
        at.zero = zero;
        at.offload = fixed_.offload.value_or(Offload::kNone);
        all_.push_back(at);
      }
    }
  }

  // Some models do not allow micro-batches.
  bool CanSplit() {
    if (!can_split_) {
      try {
        FindMicrobatchSums(task_.model, task_.local_batch_statistics);
        can_split_ = true;
      } catch (const InputError&) {
        if (fixed_.microbatches) throw;
        can_split_ = false;
      }
    }
    return *can_split_;
  }

  std::vector<std::pair<std::string, int>> Schedules(const Configuration& at) const {
    std::vector<std::pair<std::string, int>> schedules;
    // Chunks reduce the bubble of a pipeline; a single device has none.
    if (at.pp == 1 && fixed_.chunks.value_or(1) > 1) return {};
    if (at.pp == 1) return {{fixed_.schedule.value_or("1f1b"), 1}};
    for (const ScheduleDef& def : AllSchedules()) {
      if (fixed_.schedule && def.name != *fixed_.schedule) continue;
      if (def.full_rounds && at.microbatches % at.pp != 0) continue;
      if (!def.takes_chunks) {
        if (fixed_.chunks.value_or(1) == 1) schedules.push_back({std::string(def.name), 1});
        continue;
      }
      if (fixed_.chunks) {
        schedules.push_back({std::string(def.name), *fixed_.chunks});
        continue;
      }
      for (int chunks = 2; chunks <= kMostChunks && layered_ && at.pp * chunks <= units_.count();
           ++chunks) {
        schedules.push_back({std::string(def.name), chunks});
      }
    }
    return schedules;
  }

  std::vector<int> Zeros(const Configuration& at) const {
    if (fixed_.zero) return {*fixed_.zero};
    if (at.dp == 1) return {0};
    return {0, 1, 2, 3};
  }

  static constexpr int64_t kFewDevices = 16;  // any number of stages and data ranks is tried
  static constexpr int64_t kFewNodes = 4;     // an axis may span all of them
  static constexpr int kMostChunks = 16;
  static constexpr int64_t kMostMicrobatches = 1 << 16;
  const SearchTask& task_;
  const FixedDegrees& fixed_;
  bool wide_;
  int64_t devices_, node_, batch_;
  ModelUnits units_;
  bool layered_ = LayersOf(task_.model) > 0;
  std::optional<bool> can_split_;
  std::vector<Configuration> all_;
};

}  // namespace

int64_t Configuration::inner() const {
  int64_t devices = 1;
  for (int64_t size : axes) devices *= size;
  return devices;
}

int64_t DegreeOf(const Configuration& configuration, AxisRole role) {
  switch (role) {
    case AxisRole::kReplicatedData:
      return configuration.dp;
    case AxisRole::kTensor:
      return configuration.inner();
    case AxisRole::kPipeline:
      return configuration.pp;
    default:
      return 1;
  }
}

std::string ToString(const Configuration& c) {
  std::string text = fmt::format("dp {}", c.dp);
  for (size_t a = 0; a < c.axes.size(); ++a) {
    text += fmt::format(" x {} {}", FreeAxisName(a, c.axes.size()), c.axes[a]);
  }
  text += fmt::format(" x pp {}, {} micro-batch{}", c.pp, c.microbatches,
                      c.microbatches == 1 ? "" : "es");
  if (c.pp > 1) text += ", " + c.schedule;
  if (c.chunks > 1) text += fmt::format(" of {} chunks", c.chunks);
  text += fmt::format(", ZeRO {}", c.zero);
  if (c.offload != Offload::kNone) text += fmt::format(", {}", DefOf(c.offload).in_words);
  return text;
}

std::optional<Configuration> Offloaded(const SearchTask& task, const Configuration& c) {
  bool free = !task.fixed.offload && CanOffload(task.cluster) && HostLimit(task) != 0;
  if (!free || c.offload != Offload::kNone) return std::nullopt;
  Configuration offloaded = c;
  offloaded.offload = Offload::kOptimizer;
  return offloaded;
}

std::vector<Configuration> Enumerate(const SearchTask& task, bool wide) {
  return ConfigurationEnumerator(task, wide).Run();
}

std::string SpaceInWords(bool wide) {
  return fmt::format(
      "a data axis that splits the batch, {} on which every node splits what it likes, stages of "
      "the embedding, whole layers and the head in this order (of interleaved schedules as many "
      "layers in each, or one less, where the embedding and the head count as layers or not), any "
      "divisor of a data rank's samples as "
      "micro-batches, schedules gpipe, 1f1b, interleaved and zero-bubble, ZeRO 0 to 3, "
      "recomputation by layer, "
      "optimizer state on devices or hosts, all gradients reduced",
      wide ? "one or two axes, beyond a node too,"
           : "an axis inside a node, or over all nodes of a cluster of at most four,");
}

}  // namespace heddle
