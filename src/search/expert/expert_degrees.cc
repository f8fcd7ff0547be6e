// Enumerates the points of the expert's grid.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/divisors.h"
#include "base/error.h"
#include "cluster/topology.h"
#include "plan/expert_strategies.h"
#include "plan/sequence.h"
#include "schedule/schedule.h"
#include "search/expert/expert_grid.h"
#include "search/interface/search_problem.h"

namespace heddle {
namespace {

constexpr int64_t kMostContext = 64, kMostSamples = 16, kMostStagesOfNodes = 8;
constexpr int64_t kMostRounds = 1 << 16;  // micro-batches
constexpr int kMostStagesADevice = 16;

class DegreeEnumerator {
 public:
  DegreeEnumerator(const SearchTask& task, const ExpertChoices& choices)
      : task_(task),
        fixed_(task.fixed),
        choices_(choices),
        devices_(DeviceCount(task.cluster)),
        node_(NodeOf(task.cluster, DeviceId{0}).count),
        batch_(std::max<int64_t>(1, BatchSize(task.model))),
        layers_(LayersOf(task.model)),
        sequence_(FindSequence(task.model.graph, task.model.rules).found) {
    try {
      FindMicrobatchSums(task.model, task.local_batch_statistics);
      splits_ = BatchSize(task.model) > 0;
    } catch (const InputError&) {
      splits_ = false;
    }
  }

  std::vector<Degrees> Run() {
    for (int64_t tp : Tensor()) {
      for (int64_t cp : Context(tp)) {
        for (int64_t pp : Stages(tp * cp)) {
          Degrees at = Start();
          at.tp = tp;
          at.cp = cp;
          at.pp = pp;
          at.sp = tp > 1 && sequence_;
          AddData(at);
          if (task_.effort.Over() && !all_.empty()) return std::move(all_);
        }
      }
    }
    return std::move(all_);
  }

 private:
  Degrees Start() const {
    Degrees degrees;
    degrees.precision = task_.precision;
    degrees.gradients = task_.gradients;
    degrees.products = task_.products;
    degrees.local_batch_statistics = task_.local_batch_statistics;
    degrees.recompute = fixed_.recompute.value_or(RecomputePolicy::kNone);
    degrees.offload = fixed_.offload.value_or(Offload::kNone);
    degrees.layers_per_stage = fixed_.layers_per_stage;
    return degrees;
  }

  std::vector<int64_t> Tensor() const {
    if (fixed_.tp) return {*fixed_.tp};
    if (!choices_.tp.empty()) return choices_.tp;
    std::vector<int64_t> sizes;
    for (int64_t tp = 1; tp <= std::min(node_, devices_); tp *= 2) sizes.push_back(tp);
    if ((node_ & (node_ - 1)) != 0) sizes.push_back(node_);
    return sizes;
  }

  std::vector<int64_t> Context(int64_t tp) const {
    if (!choices_.cp.empty()) return choices_.cp;
    if (AreDegreesFixed(fixed_)) return {1};
    std::vector<int64_t> sizes = {1};
    if (!sequence_) return sizes;
    int64_t most =
        std::min(kMostContext, devices_ / (tp * fixed_.pp.value_or(1) * fixed_.dp.value_or(1)));
    for (int64_t cp = 2; cp <= most; cp *= 2) sizes.push_back(cp);
    return sizes;
  }

  std::vector<int64_t> Stages(int64_t inner) const {
    if (fixed_.pp) return {*fixed_.pp};
    if (!choices_.pp.empty()) return choices_.pp;
    int64_t room = devices_ / (inner * fixed_.dp.value_or(1));
    if (room < 1) return {};
    auto blocks = static_cast<int64_t>(task_.model.blocks.size());
    int64_t most = layers_ > 0 ? layers_ : std::min(blocks, kMostStagesOfNodes);
    std::vector<int64_t> stages = Divisors(room);
    std::erase_if(stages, [&](int64_t pp) { return pp > most; });
    return stages;
  }

  // The most data ranks that the devices allow, among those that divide the batch.
  void AddData(Degrees at) {
    int64_t most = devices_ / (at.tp * at.cp * at.pp);
    int64_t parts = fixed_.microbatches.value_or(1);
    if (most < 1 || fixed_.dp.value_or(1) > most || batch_ % parts != 0) return;
    if (parts > 1 && !splits_) return;
    at.dp = fixed_.dp ? *fixed_.dp : LargestDivisorUpTo(batch_ / parts, most);
    if (BatchSize(task_.model) == 0 && at.dp > 1) return;
    if (batch_ / parts % at.dp != 0) return;
    for (int64_t ep : Experts(at)) {
      at.ep = ep;
      if (ExpertMesh(at).axes.size() > kMaxSearchedAxes) continue;
      for (int64_t samples : Samples(batch_ / at.dp, at.pp)) {
        at.microbatches = batch_ / at.dp / samples;
        AddSchedules(at);
      }
    }
  }

  std::vector<int64_t> Experts(const Degrees& at) const {
    if (!choices_.ep.empty()) return choices_.ep;
    std::vector<int64_t> sizes = Divisors(at.dp);
    std::erase_if(sizes, [&](int64_t ep) { return (ep & (ep - 1)) != 0 && ep != at.dp; });
    return sizes;
  }

  // Sizes of a micro-batch on a data rank.
  std::vector<int64_t> Samples(int64_t samples, int64_t pp) const {
    if (fixed_.microbatches) return {samples / *fixed_.microbatches};
    if (!splits_) return {samples};
    std::vector<int64_t> sizes = Divisors(samples);
    std::erase_if(sizes, [&](int64_t size) {
      bool few = size <= kMostSamples || (pp == 1 && samples / size <= kMostSamples);
      return !few || samples / size > kMostRounds;
    });
    return sizes;
  }

  void AddSchedules(Degrees at) {
    if (at.pp == 1) {
      if (fixed_.chunks.value_or(1) > 1) return;  // chunks need a pipeline
      at.schedule = fixed_.schedule.value_or("1f1b");
      AddZero(at);
      return;
    }
    for (const ScheduleDef& def : AllSchedules()) {
      // Megatron has these two schedules. The exact search covers the others, where it has the
      // mesh.
      bool habit = def.name == "1f1b" || def.name == "interleaved" || at.cp * at.ep > 1;
      if (fixed_.schedule ? def.name != *fixed_.schedule : !habit) continue;
      if (def.full_rounds && at.microbatches % at.pp != 0) continue;
      at.schedule = def.name;
      for (int chunks : Chunks(def, at.pp)) {
        at.chunks = chunks;
        AddZero(at);
      }
    }
  }

  // Only chunks whose stages have similar numbers of layers: all devices wait for one that has an
  // extra layer.
  std::vector<int> Chunks(const ScheduleDef& def, int64_t pp) const {
    if (!def.takes_chunks)
      return fixed_.chunks.value_or(1) == 1 ? std::vector<int>{1} : std::vector<int>{};
    if (fixed_.chunks) return {*fixed_.chunks};
    constexpr double kUneven = 1.2;
    std::vector<int> all;
    for (int chunks = 2; chunks <= kMostStagesADevice; ++chunks) {
      // A few stages may have blocks before, between or after the layers in place of layers.
      int64_t stages = pp * chunks, most = (layers_ + stages - 1) / stages;
      bool even = static_cast<double>(most * stages) <= kUneven * static_cast<double>(layers_);
      if (even) all.push_back(chunks);
    }
    return all;
  }

  // ZeRO 1 is as fast as ZeRO 0 and needs less memory; ZeRO 2 and 3 communicate in every
  // micro-batch.
  void AddZero(Degrees at) {
    auto stages = static_cast<size_t>(at.pp * at.chunks);
    if (!fixed_.layers_per_stage.empty() && fixed_.layers_per_stage.size() != stages) return;
    std::vector<int> levels = {1, 3};
    if (at.pp > 1) levels = {1};
    if (at.pp == 1 && at.microbatches == 1) levels = {0, 1, 2, 3};
    if (at.dp * at.cp == 1) levels = {0};
    if (!choices_.zero.empty() && at.dp * at.cp > 1) levels = choices_.zero;
    if (fixed_.zero) levels = {*fixed_.zero};
    for (int zero : levels) {
      at.zero = zero;
      all_.push_back(at);
    }
  }

  const SearchTask& task_;
  const FixedDegrees& fixed_;
  const ExpertChoices& choices_;
  int64_t devices_, node_, batch_, layers_;
  bool sequence_, splits_ = true;
  std::vector<Degrees> all_;
};

}  // namespace

std::vector<Degrees> ExpertDegrees(const SearchTask& task, const ExpertChoices& choices) {
  return DegreeEnumerator(task, choices).Run();
}

std::string NameOfExpert(const Degrees& d) {
  std::string text = fmt::format("expert at dp {}", d.dp);
  if (d.ep > 1) text += fmt::format(" (ep {})", d.ep);
  if (d.cp > 1) text += fmt::format(" x cp {}", d.cp);
  if (d.tp > 1) text += fmt::format(" x tp {}", d.tp);
  text += fmt::format(" x pp {}, {} micro-batch{}", d.pp, d.microbatches,
                      d.microbatches == 1 ? "" : "es");
  if (d.pp > 1) text += ", " + d.schedule;
  if (d.chunks > 1) text += fmt::format(" of {} chunks", d.chunks);
  text += fmt::format(", ZeRO {}", d.zero);
  if (d.offload != Offload::kNone) text += fmt::format(", {}", DefOf(d.offload).in_words);
  return text;
}

}  // namespace heddle
