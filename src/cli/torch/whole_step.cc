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

constexpr int kSteps = 12;

// Sizes that are a step of some ten milliseconds.
std::vector<std::string> Models(at::Device device) {
  if (device.is_cuda()) {
    return {"gpt:layers=4,hidden=1024,heads=8,seq=512,vocab=20000,batch=16",
            "llama:layers=4,hidden=1024,heads=8,ffn=2816,seq=512,vocab=20000,batch=16"};
  }
  return {"gpt:layers=3,hidden=192,heads=4,seq=64,vocab=2000,batch=8",
          "llama:layers=3,hidden=192,heads=4,ffn=512,seq=64,vocab=2000,batch=8"};
}

// The shortest step, by the clock of this thread where all is done by it.
double TimeOfStep(const Model& model, const Program& program, const CalibrateOptions& calibrate) {
  WeightOptions start{.seed = 0, .seeded = true, .fill_constants = true};
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  TrainInputs inputs{program, MakeWeights(model.graph, model.rules, start),
                     MakeConstants(model.graph, start), *data};
  TrainOptions options;
  options.steps = kSteps;
  options.threads = calibrate.threads;
  options.device = calibrate.device;
  bool alone = calibrate.threads == 1 && calibrate.device.is_cpu();
  Clock clock = alone ? Clock::kThread : Clock::kWall;
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(1);
  double best = std::numeric_limits<double>::infinity(), last = 0;
  TrainDevice(inputs, options, *transports[0], [&](const StepRecord& record) {
    double now = SecondsNow(clock);
    if (record.step > 0) best = std::min(best, now - last);
    last = SecondsNow(clock);
  });
  return best;
}

}  // namespace

StepFactors StepsOverKernels(const Profile& profile, const Cluster& cluster,
                             const CalibrateOptions& calibrate) {
  SimOptions options;
  AddProfile(options, profile);
  StepFactors factors;
  std::vector<std::string> models = Models(calibrate.device);
  for (DType dtype : calibrate.dtypes) {
    double logarithm = 0;
    for (const std::string& name : models) {
      Model model = Analyse(LoadModel(name));
      Degrees degrees;
      degrees.precision = dtype;
      Plan plan = ExpertPlan(model, cluster, degrees);
      Program program = Lower(model, plan);
      double predicted = Predict(program, plan, options).step_seconds;
      logarithm += std::log(TimeOfStep(model, program, calibrate) / predicted);
    }
    factors[std::string(Name(dtype))] = std::exp(logarithm / static_cast<double>(models.size()));
  }
  return factors;
}

void SlowDown(LoadTimes& load, const StepFactors& factors) {
  auto slow = [](TimeCurve& curve, double factor) {
    for (TimePoint& point : curve.points) point.seconds *= factor;
  };
  double mean = 1;
  for (const auto& [dtype, factor] : factors)
    mean *= std::pow(factor, 1 / static_cast<double>(factors.size()));
  load.launch *= mean;
  load.view *= mean;
  load.backward *= mean;
  slow(load.copy, mean);
  slow(load.update, mean);
  for (auto& [dtype, kernels] : load.kernels) {
    auto found = factors.find(dtype);
    double factor = found == factors.end() ? mean : found->second;
    for (RateTable& table : kernels.tables) {
      for (double& rate : table.rates) rate /= factor;
    }
    for (auto& [op, times] : kernels.ops) {
      slow(times.forward, factor);
      slow(times.backward, factor);
    }
  }
}

}  // namespace heddle
