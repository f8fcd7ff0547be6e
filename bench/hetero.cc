// Compares plans for clusters of unlike devices with data parallelism, on TAG's test bed and random topologies, for its
// models and batch sizes, with local batch statistics. All figures are simulated.
//
//   data            all-reduce over as many devices as divide the batch, with equal shares
//   proportional    all devices, with shares in proportion to speed
//   heddle          the plan of `auto`
//
//   build/bench/hetero [random topologies] [playouts]      (default 20, 800)
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "cluster/random_topology.h"
#include "cluster/topology.h"
#include "frontend/families/built_in.h"
#include "plan/precision.h"
#include "search/judge/judge.h"
#include "search/placement/placement_game.h"
#include "search/searcher.h"
#include "search/searchers.h"
#include "timing.h"

namespace heddle {
namespace {

struct BenchModel {
  const char* name;
  const char* expression;
};
// Batches: 120 for convolution networks, 600 and 32 for the others.
constexpr BenchModel kModels[] = {
    {"InceptionV3", "inception:batch=120"},
    {"ResNet101", "resnet101:batch=120"},
    {"VGG19", "vgg19:batch=120"},
    {"Transformer", "gpt:layers=6,hidden=512,heads=8,seq=10,vocab=32000,batch=600"},
    {"BERT-small", "bert:layers=4,hidden=1024,heads=16,seq=128,vocab=305000,batch=32"},
    {"BERT-large", "bert:layers=24,hidden=2048,heads=16,seq=128,batch=32"},
};

struct Means {
  double log_data = 0, log_proportional = 0, best = 0, worst = INFINITY;
  int count = 0;
};

std::string Seconds(const JudgedPlan* plan) {
  return plan == nullptr ? "does not fit"
                         : fmt::format("{:.1f} ms", 1e3 * plan->result.step_seconds);
}

const JudgedPlan* Fitting(const JudgedPlan& plan) { return plan.fits ? &plan : nullptr; }

void Measure(const std::string& name, const BenchModel& bench, const Model& model,
             const Cluster& cluster, int64_t playouts, Means& means) {
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.precision = DType::kF32;
  problem.local_batch_statistics = true;
  SearchTask task(problem);
  task.effort.playouts = playouts;
  Model computed = WithComputeType(model, problem.precision);
  Placements space(problem, computed);
  std::optional<Plan> shares = space.ToPlan(space.Everywhere(), {});
  JudgedPlan data = Judge(problem, DataSearcher().propose(problem).plans.at(0));
  JudgedPlan proportional = Judge(problem, {*shares, "", 0, 0, 0});
  double begin = CpuSeconds();
  SearchResult found = Search(AutoSearcher(), task);
  double took = CpuSeconds() - begin;
  if (!found.feasible()) {
    fmt::print("{:<12} {:<12} {:>3} devices: nothing fits\n", name, bench.name,
               DeviceCount(cluster));
    return;
  }
  double step = found.judged.front().result.step_seconds;
  auto ratio = [&](const JudgedPlan& plan) {
    return plan.fits ? fmt::format("{:.2f}x", plan.result.step_seconds / step) : "-";
  };
  fmt::print("{:<12} {:<12} {:>3} devices {:>12} {:>12} {:>10.1f} ms {:>8} {:>8}  {:.0f} s  {}\n",
             name, bench.name, DeviceCount(cluster), Seconds(Fitting(data)),
             Seconds(Fitting(proportional)), 1e3 * step, ratio(data), ratio(proportional), took,
             found.judged.front().from);
  std::fflush(stdout);
  if (!data.fits || !proportional.fits) return;
  double gain = data.result.step_seconds / step;
  means.log_data += std::log(gain);
  means.log_proportional += std::log(proportional.result.step_seconds / step);
  means.best = std::max(means.best, gain);
  means.worst = std::min(means.worst, gain);
  ++means.count;
}

int Main(int64_t topologies, int64_t playouts) {
  fmt::print(
      "simulated step times; x: how many times as long as heddle's\n"
      "{:<12} {:<12} {:>11} {:>12} {:>12} {:>13} {:>8} {:>8}\n",
      "cluster", "model", "", "data", "proportional", "heddle", "data", "prop.");
  Means means;
  for (const BenchModel& bench : kModels) {
    Model model = Analyse(BuildModel(bench.expression));
    double bytes = 0;
    for (const Value& value : model.graph.values) {
      if (value.kind != ValueKind::kParameter) continue;
      double elements = 4;
      for (int64_t size : value.type.shape) elements *= static_cast<double>(size);
      bytes += elements;
    }
    Measure("test bed", bench, model, TagTestbed(), playouts, means);
    for (int64_t seed = 0; seed < topologies; ++seed) {
      Measure(fmt::format("random {}", seed), bench, model,
              RandomTopology(static_cast<uint64_t>(seed), bytes), playouts, means);
    }
  }
  double n = std::max(1, means.count);
  fmt::print(
      "{} cases in which data parallelism fits (simulated): over data parallelism {:.2f}x in the "
      "geometric mean, best {:.2f}x, least {:.2f}x; over proportional shares {:.2f}x\n",
      means.count, std::exp(means.log_data / n), means.best, means.worst,
      std::exp(means.log_proportional / n));
  return means.worst >= 1 ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) {
  int64_t topologies = count > 1 ? std::atoll(arguments[1]) : 20;
  int64_t playouts = count > 2 ? std::atoll(arguments[2]) : 800;
  return heddle::Main(topologies, playouts);
}
