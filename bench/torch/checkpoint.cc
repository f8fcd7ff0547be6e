// The cost of saving at the interval of Young's formula. Compares steps right after a save, which include its copy and
// all its writing, with as many later steps, alternately. The cost is their difference / the interval.
//
//   build/bench/checkpoint [FAMILY] [MTBF in seconds] [saves]
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <vector>

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

constexpr double kWindow = 2.5;  // at least this many seconds of steps after a save

struct Timed {
  std::vector<double> ends;  // of steps, seconds
  TrainSummary summary;
};

Timed Train(const Program& program, const Model& model, int64_t steps, CheckpointOptions options) {
  auto data = OpenData(model.graph, {});
  WeightSource weights = MakeWeights(model.graph, model.rules, {.seeded = true});
  ConstantSource constants = MakeConstants(model.graph, {});
  Timed timed;
  RunRanks(1, [&](Transport& transport) {
    TrainOptions train;
    train.steps = steps;
    train.checkpoint = std::move(options);
    Clock::time_point start = Clock::now();
    timed.summary =
        TrainDevice({program, weights, constants, *data}, train, transport, [&](const StepRecord&) {
          timed.ends.push_back(std::chrono::duration<double>(Clock::now() - start).count());
        });
  });
  return timed;
}

int Main(const std::string& family, double mtbf, int64_t saves) {
  Model model = Analyse(BuildModel(family));
  Degrees one;
  Program program = Lower(model, ExpertPlan(model, LoadCluster("local:1"), one));
  std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("heddle-bench-{}", getpid())).string();
  CheckpointOptions options;
  options.folder = folder;
  options.mtbf = mtbf;
  TrainSummary first = Train(program, model, 12, options).summary;
  std::filesystem::remove_all(folder);
  double step = first.steps[first.median_step].seconds;
  fmt::print(
      "{}: step {:.4f} s; a save costs {:.3f} s, copy and writing, so one every {:.1f} s ({} "
      "steps) for a failure every {:.0f} s\n",
      family, step, first.save_cost, first.advised_interval, first.save_every, mtbf);

  // A save is made after the last step of every pair of windows.
  // The first save was waited for, so its time is that of a whole save.
  const double seconds = std::max(kWindow, 2 * first.save_seconds);
  const size_t window = static_cast<size_t>(std::ceil(seconds / step));
  options.every = static_cast<int64_t>(2 * window);
  Timed timed = Train(program, model, (saves + 1) * options.every, options);
  std::filesystem::remove_all(folder);
  double sum = 0, squares = 0;
  for (size_t at = 2 * window - 1; at + 2 * window < timed.ends.size(); at += 2 * window) {
    double with = timed.ends[at + window] - timed.ends[at];
    double without = timed.ends[at + 2 * window] - timed.ends[at + window];
    fmt::print("  {} steps: {:.3f} s after a save, {:.3f} s without: {:+.3f} s\n", window, with,
               without, with - without);
    sum += with - without;
    squares += (with - without) * (with - without);
  }
  double n = static_cast<double>(saves), mean = sum / n;
  double error = std::sqrt(std::max(0.0, squares / n - mean * mean) / n);
  fmt::print(
      "a save takes {:.3f} s from training (standard error {:.3f} s), {:.4f} s of it the copy\n",
      mean, error,
      timed.summary.saving.held_up_seconds / static_cast<double>(timed.summary.saving.saves));
  fmt::print("saving costs {:+.2f} % of step time (standard error {:.2f} %)\n",
             100 * mean / first.advised_interval, 100 * error / first.advised_interval);
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  std::string family =
      argc > 1 ? argv[1] : "gpt:layers=4,hidden=256,heads=8,seq=64,vocab=4096,batch=8";
  double mtbf = argc > 2 ? std::stod(argv[2]) : 3600;
  return heddle::Main(family, mtbf, argc > 3 ? std::stoi(argv[3]) : 12);
}
