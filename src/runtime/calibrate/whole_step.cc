#include "runtime/calibrate/whole_step.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "cluster/select.h"
#include "cluster/topology.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/calibrate/sample.h"
#include "runtime/calibrate/together.h"
#include "runtime/data/data_source.h"
#include "runtime/train.h"
#include "runtime/transport/threads.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

constexpr double kSeconds = 1.5;  // of training a model
constexpr double kFewest = 12, kMost = 1000;

struct StepTime {
  double seconds = 0;  // of its instructions
  double host = 0;     // besides
};

// Of the median step; where all is done by this thread by its clock, of which it gets `share`.
StepTime TimeOfStep(const Model& model, const Program& program, const CalibrateOptions& calibrate,
                    int64_t steps, double share) {
  WeightOptions start{.seed = 0, .seeded = true, .fill_constants = true};
  std::unique_ptr<DataSource> data = OpenData(model.graph, {});
  TrainInputs inputs{program, MakeWeights(model.graph, model.rules, start),
                     MakeConstants(model.graph, start), *data};
  TrainOptions options;
  options.steps = steps;
  options.threads = calibrate.threads;
  options.device = calibrate.device;
  const bool by_thread = ClockOf(calibrate.device, calibrate.threads) == Clock::kThread;
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(1);
  std::vector<StepTime> times;
  double last = 0;
  TrainDevice(inputs, options, *transports[0], [&](const StepRecord& record) {
    double took = by_thread ? (SecondsNow(Clock::kThread) - last) / share : record.seconds;
    if (record.step > 0) times.push_back({took - record.host_seconds, record.host_seconds});
    last = SecondsNow(Clock::kThread);
  });
  auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end(),
                   [](const StepTime& a, const StepTime& b) { return a.seconds < b.seconds; });
  return *middle;
}

// What this rank measures, at the same time as others; the profile has one load.
WholeSteps MeasureHere(const Profile& profile, const Cluster& cluster,
                       const CalibrateOptions& calibrate, const std::vector<Model>& models,
                       const StepPredictor& predict) {
  WholeSteps steps;
  for (DType dtype : calibrate.dtypes) {
    double logarithm = 0;
    for (const Model& model : models) {
      Degrees degrees;
      degrees.precision = dtype;
      Plan plan = ExpertPlan(model, cluster, degrees);
      Program program = Lower(model, plan);
      double predicted = predict(program, plan, profile);
      auto count = static_cast<int64_t>(std::clamp(kSeconds / predicted, kFewest, kMost));
      StepTime step = TimeOfStep(model, program, calibrate, count, profile.loads.front().share);
      logarithm += std::log(step.seconds / predicted);
      steps.host += step.host / static_cast<double>(models.size() * calibrate.dtypes.size());
    }
    steps.factors[std::string(Name(dtype))] =
        std::exp(logarithm / static_cast<double>(models.size()));
  }
  return steps;
}

// Makes kernels take as many times as long; what has no type as long as those of the types take in the mean.
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

// The first device of a kind, as a cluster.
Cluster OneOf(const Cluster& cluster, size_t kind) {
  for (const DeviceRun& run : EqualRuns(cluster)) {
    if (run.type.index() == kind) return Select(cluster, {run.first.value});
  }
  HEDDLE_CHECK(false, "a cluster without devices of kind {}", kind);
}

// The mean over those ranks that have something: `count` of them.
WholeSteps MeanOf(const WholeSteps* mine, double count, const CalibrateOptions& options,
                  Together& together) {
  auto types = static_cast<int64_t>(options.dtypes.size());
  at::Tensor numbers = at::zeros({types + 1}, at::kDouble);
  for (int64_t t = 0; mine != nullptr && t < types; ++t) {
    std::string name(Name(options.dtypes[static_cast<size_t>(t)]));
    numbers[t] = std::log(mine->factors.at(name)) / count;
  }
  if (mine != nullptr) numbers[types] = mine->host / count;
  together.Sum(numbers);
  WholeSteps mean;
  for (int64_t t = 0; t < types; ++t) {
    std::string name(Name(options.dtypes[static_cast<size_t>(t)]));
    mean.factors[name] = std::exp(numbers[t].item<double>());
  }
  mean.host = numbers[types].item<double>();
  return mean;
}

}  // namespace

std::vector<std::vector<WholeSteps>> CorrectBySteps(
    std::vector<Profile>& profiles, const Cluster& cluster, const CalibrateOptions& options,
    const std::vector<Model>& models, const StepPredictor& predict, Transport& transport) {
  Together together(transport);
  std::vector<std::vector<WholeSteps>> all(profiles.size());
  const size_t own = options.kinds[static_cast<size_t>(transport.rank())];
  for (const Shift& shift : ShiftsOf(options.kinds)) {
    transport.Barrier();
    std::optional<WholeSteps> mine;
    if (std::count(shift.begin(), shift.end(), transport.rank()) > 0) {
      Profile profile = profiles[own];
      profile.loads = {profile.loads[all[own].size()]};
      mine = MeasureHere(profile, OneOf(cluster, own), options, models, predict);
    }
    for (size_t kind = 0; kind < profiles.size(); ++kind) {
      auto count = std::count_if(shift.begin(), shift.end(), [&](int rank) {
        return options.kinds[static_cast<size_t>(rank)] == kind;
      });
      if (count == 0) continue;
      WholeSteps mean = MeanOf(mine && own == kind ? &*mine : nullptr, static_cast<double>(count),
                               options, together);
      Correct(profiles[kind].loads[all[kind].size()], mean);
      all[kind].push_back(std::move(mean));
    }
  }
  return all;
}

}  // namespace heddle
