#include "cli/torch/whole_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/torch/prediction.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/calibrate/sample.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

constexpr int kSteps = 8;

// The shortest step, by the clock of this thread where all is done by it.
double TimeOfStep(const Model& model, const Program& program, int threads) {
  WeightOptions start{.seed = 0, .seeded = true, .fill_constants = true};
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  TrainInputs inputs{program, MakeWeights(model.graph, model.rules, start),
                     MakeConstants(model.graph, start), *data};
  TrainOptions options;
  options.steps = kSteps;
  options.threads = threads;
  Clock clock = threads == 1 ? Clock::kThread : Clock::kWall;
  std::vector<std::unique_ptr<Transport>> alone = MakeThreadTransports(1);
  double best = std::numeric_limits<double>::infinity(), last = 0;
  TrainDevice(inputs, options, *alone[0], [&](const StepRecord& record) {
    double now = SecondsNow(clock);
    if (record.step > 0) best = std::min(best, now - last);
    last = SecondsNow(clock);
  });
  return best;
}

}  // namespace

double StepOverKernels(const Profile& profile, const Cluster& cluster, int threads) {
  SimOptions options;
  AddProfile(options, profile);
  double logarithm = 0;
  const char* models[] = {"gpt:layers=3,hidden=192,heads=4,seq=64,vocab=2000,batch=8",
                          "llama:layers=3,hidden=192,heads=4,ffn=512,seq=64,vocab=2000,batch=8"};
  for (const char* name : models) {
    Model model = Analyse(LoadModel(name));
    Plan plan = ExpertPlan(model, cluster, Degrees{});
    Program program = Lower(model, plan);
    double predicted = Predict(program, plan, options).step_seconds;
    logarithm += std::log(TimeOfStep(model, program, threads) / predicted);
  }
  return std::exp(logarithm / static_cast<double>(std::size(models)));
}

void SlowDown(LoadTimes& load, double factor) {
  auto slow = [&](TimeCurve& curve) {
    for (TimePoint& point : curve.points) point.seconds *= factor;
  };
  load.launch *= factor;
  load.backward *= factor;
  slow(load.copy);
  slow(load.update);
  for (auto& [dtype, kernels] : load.kernels) {
    for (RateTable& table : kernels.tables) {
      for (double& rate : table.rates) rate /= factor;
    }
    for (auto& [op, times] : kernels.ops) {
      slow(times.forward);
      slow(times.backward);
    }
  }
}

}  // namespace heddle
