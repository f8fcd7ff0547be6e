// The speedup of two data-parallel ranks over one, with a thread each: the same batch per step, half of it on each
// rank. The upper limit of the machine is measured by two independent models with half the batch each (two threads on
// one core share its units and reach less than 2).
//
//   build/bench/scaling [steps]
#include <fmt/format.h>

#include <algorithm>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/threads.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

// The shortest time of a step, and the last loss.
struct Measured {
  double seconds = 0;
  double loss = 0;
};

// Trains one rank of a program for `steps` steps.
Measured Train(const Program& program, const Model& model, Transport& transport, int64_t steps) {
  SetKernelThreads(1);
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  Executor executor(program, transport, {}, MakeWeights(model.graph, model.rules, {}),
                    MakeConstants(model.graph, {}),
                    [&](int64_t step, Block rows) { return data->Rows(step, rows); });
  Measured measured;
  for (int64_t step = 0; step < steps; ++step) {
    StepRecord record = executor.RunStep(step);
    if (step == 1 || (step > 1 && record.seconds < measured.seconds))
      measured.seconds = record.seconds;
    measured.loss = record.loss;
  }
  return measured;
}

Program Lowered(const Model& model, int64_t dp) {
  return Lower(model, ExpertPlan(model, LoadCluster(fmt::format("local:{}", dp)), {.dp = dp}));
}

Measured Together(const Model& model, int64_t dp, int64_t steps) {
  Program program = Lowered(model, dp);
  Measured measured;
  RunRanks(static_cast<int>(dp), [&](Transport& transport) {
    Measured mine = Train(program, model, transport, steps);
    if (transport.rank() == 0) measured = mine;
  });
  return measured;
}

// Two devices that do not communicate.
Measured Apart(const Model& half, int64_t steps) {
  Program program = Lowered(half, 1);
  Measured measured;
  RunRanks(2, [&](Transport& transport) {
    auto alone = MakeThreadTransports(1);
    Measured mine = Train(program, half, *alone[0], steps);
    if (transport.rank() == 0) measured = mine;
  });
  return measured;
}

void Keep(Measured& best, const Measured& measured) {
  if (best.seconds == 0 || measured.seconds < best.seconds) best = measured;
}

int Main(int64_t steps) {
  std::string gpt = "gpt:layers=6,hidden=512,heads=8,seq=128,vocab=10000,batch=";
  Model whole = Analyse(LoadModel(gpt + "4")), half = Analyse(LoadModel(gpt + "2"));
  Measured one, two, apart;
  for (int round = 0; round < 3; ++round) {  // alternately, so that other processes affect all
    Keep(one, Together(whole, 1, steps));
    Keep(two, Together(whole, 2, steps));
    Keep(apart, Apart(half, steps));
  }
  fmt::print("1 rank {:.1f} ms, 2 ranks {:.1f} ms a step of the same batch: {:.2f} times as fast\n",
             1e3 * one.seconds, 1e3 * two.seconds, one.seconds / two.seconds);
  fmt::print(
      "2 models apart, half the batch each: {:.1f} ms, {:.2f} times as fast; losses {:.6f} and "
      "{:.6f}\n",
      1e3 * apart.seconds, one.seconds / apart.seconds, one.loss, two.loss);
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Main(argc > 1 ? std::max(2, std::atoi(argv[1])) : 5);
}
