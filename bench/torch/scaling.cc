// Two data-parallel ranks over one, a thread each: the same batch a step, half of it on each rank. With two cores
// that are free the ratio of speeds should come near 2.
//
//   build/bench/scaling [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/transport/threads.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

// The least seconds of a step, and what it handed to the transport on a rank.
struct Measured {
  double seconds = 0;
  double loss = 0;
};

Measured Measure(const Model& model, int64_t dp, int64_t steps) {
  Program program =
      Lower(model, ExpertPlan(model, LoadCluster(fmt::format("local:{}", dp)), {.dp = dp}));
  WeightSource weights = MakeWeights(model.graph, model.rules, {});
  ConstantSource constants = MakeConstants(model.graph, {});
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  Measured measured;
  RunRanks(static_cast<int>(dp), [&](Transport& transport) {
    at::set_num_threads(1);
    Executor executor(program, transport, {}, weights, constants,
                      [&](int64_t step, Block rows) { return data->Rows(step, rows); });
    double least = 0, loss = 0;
    for (int64_t step = 0; step < steps; ++step) {
      StepRecord record = executor.RunStep(step);
      if (step == 1 || (step > 1 && record.seconds < least)) least = record.seconds;
      loss = record.loss;
    }
    if (transport.rank() == 0) measured = {least, loss};
  });
  return measured;
}

int Main(int64_t steps) {
  Model model = Analyse(LoadModel("gpt:layers=6,hidden=512,heads=8,seq=128,vocab=10000,batch=4"));
  Measured best_one, best_two;
  for (int round = 0; round < 3; ++round) {  // in turn, so that what else runs meets both
    Measured one = Measure(model, 1, steps), two = Measure(model, 2, steps);
    if (round == 0 || one.seconds < best_one.seconds) best_one = one;
    if (round == 0 || two.seconds < best_two.seconds) best_two = two;
  }
  fmt::print(
      "1 rank {:.1f} ms, 2 ranks {:.1f} ms a step of the same batch: {:.2f} times as fast; losses "
      "{:.6f} and {:.6f}\n",
      1e3 * best_one.seconds, 1e3 * best_two.seconds, best_one.seconds / best_two.seconds,
      best_one.loss, best_two.loss);
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Main(argc > 1 ? std::max(2, std::atoi(argv[1])) : 5);
}
