// The speed of the simulator: GPT-3 by the expert's rules on 1,024 and 16,384 GPUs, and its growth with micro-batches,
// stages and layers. Lowering is not included and has its own column. Times are CPU seconds, the best of three. Events
// are ends of tasks and messages on one device of each class; they are given per second of the engine and per second of
// the whole simulation (`prepare`: device classes and prices; `rest`: all else, such as the summary and memory).
//
//   build/bench/sim
#include <fmt/format.h>

#include <algorithm>

#include "cluster/load.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "sim/simulate.h"
#include "timing.h"

namespace heddle {
namespace {

struct Case {
  std::string model = "gpt3-175b";
  int64_t dp = 8, pp = 16, microbatches = 192;
};

struct Took {
  double prepare = 0, engine = 0, memory = 0;
  double all() const { return prepare + engine + memory; }
};

Took Measure(const Program& program, const Cluster& cluster, int64_t& classes, int64_t& events) {
  double begin = CpuSeconds();
  Prepared prepared = Prepare(program, cluster, {});
  double ready = CpuSeconds();
  Timeline timeline = Execute(prepared);
  double ran = CpuSeconds();
  classes = static_cast<int64_t>(prepared.classes.devices.size());
  events = timeline.events;
  SimResult result = Simulate(program, cluster, {});
  double whole = CpuSeconds() - ran;
  return {ready - begin, ran - ready, std::max(0.0, whole - (ran - begin))};
}

void Report(std::string_view what, const Case& at) {
  Model model = Analyse(Rebatch(LoadModel(at.model), at.dp * at.microbatches));
  Cluster cluster = LoadCluster(fmt::format("dgx-h100:{}", at.dp * at.pp));
  Plan plan = ExpertPlan(model, cluster,
                         {.dp = at.dp,
                          .tp = 8,
                          .pp = at.pp,
                          .sp = true,
                          .microbatches = at.microbatches,
                          .precision = DType::kBF16});
  double begin = CpuSeconds();
  Program program = Lower(model, plan);
  double lowering = CpuSeconds() - begin;
  Took best;
  int64_t classes = 0, events = 0;
  for (int round = 0; round < 3; ++round) {
    Took took = Measure(program, cluster, classes, events);
    if (round == 0 || took.all() < best.all()) best = took;
  }
  double count = static_cast<double>(events);
  fmt::print(
      "{:<24} {:>8} {:>7} {:>9} {:>9.2f} {:>9.2f} {:>8.2f} {:>8.2f} {:>10.2f} {:>10.2f} {:>9.2f}\n",
      what, at.dp * 8 * at.pp, classes, events, lowering, best.prepare, best.engine, best.memory,
      best.all(), 1e-6 * count / best.engine, 1e-6 * count / best.all());
}

}  // namespace
}  // namespace heddle

int main() {
  fmt::print("{:<24} {:>8} {:>7} {:>9} {:>9} {:>9} {:>8} {:>8} {:>10} {:>10} {:>9}\n", "",
             "devices", "classes", "events", "lowering", "prepare", "engine", "rest", "simulate s",
             "M/s engine", "M/s all");
  heddle::Report("gpt3-175b", {});
  heddle::Report("16 times the data ranks", {.dp = 128});
  heddle::Report("half the micro-batches", {.microbatches = 96});
  heddle::Report("a quarter of them", {.microbatches = 48});
  heddle::Report("half the stages", {.pp = 8});
  heddle::Report("a quarter of them", {.pp = 4});
  heddle::Report("half the layers", {.model = "gpt3-175b:layers=48"});
  return 0;
}
