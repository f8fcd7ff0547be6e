// What saving costs: steps with checkpoints at the interval that Young advises beside steps without, in turns.
//
//   build/bench/checkpoint [FAMILY] [MTBF in seconds] [rounds]
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/expert.h"
#include "plan/save_interval.h"
#include "program/lower.h"
#include "runtime/train.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

struct Timed {
  double seconds = 0;  // of the steps after the first few
  int64_t steps = 0;
  TrainSummary summary;
};

constexpr int64_t kWarm = 4;

Timed Train(const Program& program, const Model& model, int64_t steps, CheckpointOptions options) {
  auto data = OpenData(model.graph, {});
  WeightSource weights = MakeWeights(model.graph, model.rules, {.seeded = true});
  ConstantSource constants = MakeConstants(model.graph, {});
  Timed timed;
  RunRanks(1, [&](Transport& transport) {
    TrainOptions train;
    train.steps = steps;
    train.checkpoint = std::move(options);
    Clock::time_point start;
    timed.summary = TrainDevice(
        {program, weights, constants, *data}, train, transport, [&](const StepRecord& r) {
          if (r.step + 1 == kWarm) start = Clock::now();
          timed.seconds = std::chrono::duration<double>(Clock::now() - start).count();
          timed.steps = r.step + 1 - kWarm;
        });
  });
  return timed;
}

int Main(const std::string& family, double mtbf, int rounds) {
  Model model = Analyse(BuildModel(family));
  Degrees one;
  Program program = Lower(model, ExpertPlan(model, LoadCluster("local:1"), one));
  std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("heddle-bench-{}", getpid())).string();
  CheckpointOptions options;
  options.folder = folder;
  options.mtbf = mtbf;
  Timed first = Train(program, model, kWarm + 2, options);
  std::filesystem::remove_all(folder);
  int64_t every = first.summary.save_every;
  fmt::print("{}: step {:.3f} s; a save every {:.1f} s ({} steps) for a failure every {:.0f} s\n",
             family, first.seconds / static_cast<double>(first.steps),
             first.summary.advised_interval, every, mtbf);
  options.every = every;
  double with = 0, without = 0, held = 0;
  int64_t saves = 0;
  for (int round = 0; round < rounds; ++round) {
    // One save, and as long after it as before.
    int64_t steps = kWarm + 2 * every - 1;
    Timed plain = Train(program, model, steps, {});
    Timed saving = Train(program, model, steps, options);
    std::filesystem::remove_all(folder);
    without += plain.seconds;
    with += saving.seconds;
    held += saving.summary.save_seconds;
    saves += saving.summary.saves;
    fmt::print("  round {}: {:.3f} s without, {:.3f} s with {} save in {} steps: {:+.2f} %\n",
               round, plain.seconds, saving.seconds, saving.summary.saves - 1, plain.steps,
               100 * (saving.seconds / plain.seconds - 1));
  }
  fmt::print("saving costs {:+.2f} % of step time; a save holds training up for {:.4f} s\n",
             100 * (with / without - 1), held / static_cast<double>(saves));
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  std::string family =
      argc > 1 ? argv[1] : "gpt:layers=4,hidden=256,heads=8,seq=64,vocab=4096,batch=8";
  double mtbf = argc > 2 ? std::stod(argv[2]) : 3600;
  return heddle::Main(family, mtbf, argc > 3 ? std::stoi(argv[3]) : 4);
}
