// What gathering the factors of gradients saves where samples are few and layers wide: an MLP, data parallel, trained by
// the same ranks with reduced gradients, with a server and with factors. Steps alternate, so that what else runs on the
// machine meets all three; a step lasts until its slowest rank is done. Losses are compared on the way.
//
//   mpirun -np 2 build/bench/factors [batch] [width] [layers] [rounds]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "cluster/load.h"
#include "ops/op.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/text.h"
#include "runtime/data/batch.h"
#include "runtime/executor.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/mpi.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Model Mlp(int64_t batch, int64_t width, int64_t layers) {
  Graph graph;
  graph.name = "mlp";
  ValueId x = graph.AddValue("x", {DType::kF32, {batch, width}}, ValueKind::kInput);
  ValueId labels = graph.AddValue("labels", {DType::kI64, {batch}}, ValueKind::kInput);
  for (int64_t l = 0; l < layers; ++l) {
    ValueId w =
        graph.AddValue(fmt::format("w{}", l), {DType::kF32, {width, width}}, ValueKind::kParameter);
    ValueId b =
        graph.AddValue(fmt::format("b{}", l), {DType::kF32, {width}}, ValueKind::kParameter);
    x = AddOp(graph, "Linear", {}, {x, w, b}, fmt::format("m{}", l))[0];
    if (l + 1 < layers) x = AddOp(graph, "Relu", {}, {x}, fmt::format("h{}", l))[0];
  }
  ValueId count = AddOp(graph, "LabelCount", {}, {labels}, "count")[0];
  graph.outputs = AddOp(graph, "CrossEntropy", {}, {x, labels, count}, "loss");
  return Analyse(std::move(graph));
}

struct Run {
  GradientSync sync;
  Program program;
  std::unique_ptr<Executor> executor;
  int64_t predicted = 0, handed = 0;  // bytes a step
  std::vector<double> seconds;
  double loss = 0;
};

int64_t HandedOver(const Transport& transport) {
  int64_t bytes = 0;
  for (const auto& group : transport.traffic().groups) {
    for (const TrafficCount::Count& count : group) bytes += count.bytes;
  }
  return bytes;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double Largest(Transport& transport, GroupHandle all, double value) {
  at::Tensor most = at::full({1}, value, at::kDouble);
  Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kMax, all, most, most);
  transport.Wait(ticket);
  return most.item<double>();
}

void Measure(Transport& transport, int64_t batch, int64_t width, int64_t layers, int rounds) {
  Model model = Mlp(batch, width, layers);
  Cluster cluster = LoadCluster(fmt::format("local:{}", transport.size()));
  Batch samples = SyntheticBatch(model.graph, 1);
  auto data = [&](int64_t, Block rows) { return RowsOf(samples, rows); };
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  for (int r = 0; r < transport.size(); ++r) ranks[static_cast<size_t>(r)] = r;
  GroupHandle all = transport.AddGroup(ranks);
  ExecutorOptions options;
  options.optimizer.lr = 1e-5;  // slowly, so that losses can be compared
  std::vector<Run> runs;
  runs.reserve(kGradientSyncNames.size());
  for (GradientSync sync : {GradientSync::kReduce, GradientSync::kServer, GradientSync::kFactors}) {
    Plan plan = ExpertPlan(model, cluster, {.dp = transport.size(), .sync = sync});
    RequireSound(plan, model, "the plan");
    Run& run = runs.emplace_back(Run{sync, Lower(model, plan), {}, 0, 0, {}, 0});
    for (const Instruction& at : run.program.RunOf(transport.rank()).instructions)
      run.predicted += PayloadBytes(run.program, at, transport.rank());
    run.executor = std::make_unique<Executor>(run.program, transport, options,
                                              MakeWeights(model.graph, model.rules, {}),
                                              MakeConstants(model.graph, {}), data);
  }
  constexpr int kWarm = 3;
  for (int round = 0; round < rounds + kWarm; ++round) {
    for (Run& run : runs) {
      transport.Barrier();
      int64_t before = HandedOver(transport);
      double begin = Now();
      run.loss = run.executor->RunStep(round).loss;
      double took = Now() - begin;
      run.handed = HandedOver(transport) - before;
      took = Largest(transport, all, took);
      if (round >= kWarm) run.seconds.push_back(took);
      if (run.handed != run.predicted)
        ThrowRun("{} bytes were handed over, {} predicted", run.handed, run.predicted);
      if (std::abs(run.loss - runs[0].loss) > 1e-6 * std::abs(runs[0].loss))
        ThrowRun("the losses differ: {} and {}", run.loss, runs[0].loss);
    }
  }
  if (transport.rank() != 0) return;
  fmt::print("batch {}, {} layers of {} x {}, {} ranks, {} rounds; final loss {:.6f}\n", batch,
             layers, width, width, transport.size(), rounds, runs[0].loss);
  for (const Run& run : runs) {
    std::vector<double> ratios;
    for (size_t i = 0; i < run.seconds.size(); ++i)
      ratios.push_back(runs[0].seconds[i] / run.seconds[i]);
    std::sort(ratios.begin(), ratios.end());
    size_t quarter = ratios.size() / 4;
    fmt::print(
        "{:<8} {:>10} a step by rank 0, as predicted   {:>9} median step   {:.2f} x as fast "
        "as reduce (quartiles {:.2f} to {:.2f})\n",
        kGradientSyncNames[static_cast<size_t>(run.sync)], FormatBytes(Bytes{run.handed}),
        FormatSeconds(Seconds{Median(run.seconds)}), Median(ratios), ratios[quarter],
        ratios[ratios.size() - 1 - quarter]);
  }
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  return RunMpi([&](Transport& transport) {
    SetKernelThreads(1);
    auto argument = [&](int i, int64_t otherwise) {
      return i < argc ? std::max<int64_t>(1, std::atoll(argv[i])) : otherwise;
    };
    Measure(transport, argument(1, 8), argument(2, 2048), argument(3, 4),
            static_cast<int>(argument(4, 20)));
  });
}
