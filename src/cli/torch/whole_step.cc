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
    return {"gpt:layers=6,hidden=1280,heads=10,seq=1024,vocab=20000,batch=8",
            "llama:layers=6,hidden=1280,heads=10,ffn=3456,seq=1024,vocab=20000,batch=8"};
  }
  return {"gpt:layers=3,hidden=192,heads=4,seq=64,vocab=2000,batch=8",
          "llama:layers=3,hidden=192,heads=4,ffn=512,seq=64,vocab=2000,batch=8"};
}

struct StepTime {
  double seconds = std::numeric_limits<double>::infinity();  // of its instructions
  double host = 0;                                           // besides
};

// Of the shortest step, by the clock of this thread where all is done by it.
StepTime TimeOfStep(const Model& model, const Program& program, const CalibrateOptions& calibrate) {
  WeightOptions start{.seed = 0, .seeded = true, .fill_constants = true};
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  TrainInputs inputs{program, MakeWeights(model.graph, model.rules, start),
                     MakeConstants(model.graph, start), *data};
  TrainOptions options;
  options.steps = kSteps;
  options.threads = calibrate.threads;
  options.device = calibrate.device;
  bool alone = calibrate.threads == 1 && calibrate.device.is_cpu();
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(1);
  StepTime best;
  double last = 0;
  TrainDevice(inputs, options, *transports[0], [&](const StepRecord& record) {
    double took =
        (alone ? SecondsNow(Clock::kThread) - last : record.seconds) - record.host_seconds;
    if (record.step > 0 && took < best.seconds) best = {took, record.host_seconds};
    last = SecondsNow(Clock::kThread);
  });
  return best;
}

}  // namespace

WholeSteps MeasureSteps(const Profile& profile, const Cluster& cluster,
                        const CalibrateOptions& calibrate) {
  SimOptions options;
  AddProfile(options, profile);
  WholeSteps steps;
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
      StepTime step = TimeOfStep(model, program, calibrate);
      logarithm += std::log(step.seconds / predicted);
      steps.host += step.host / static_cast<double>(models.size() * calibrate.dtypes.size());
    }
    steps.factors[std::string(Name(dtype))] =
        std::exp(logarithm / static_cast<double>(models.size()));
  }
  return steps;
}

void Correct(LoadTimes& load, const WholeSteps& steps) {
  const std::map<std::string, double, std::less<>>& factors = steps.factors;
  if (load.captured) load.host = steps.host;
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
