#include "validate/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "program/lower.h"
#include "sim/simulate.h"
#include "validate/configure.h"

namespace heddle {
namespace {

void Run(const PublishedRun& run, Prediction& out) {
  RunSetup setup = Configure(run);
  out.stack = setup.stack;
  out.remarks = setup.remarks;
  out.reason = setup.reason;
  if (!out.reason.empty()) return;
  out.device = setup.plan.cluster.device_types.front().name;
  SimOptions options;
  options.stack = FindStackCosts(setup.stack);
  Program program = Lower(setup.model, setup.plan);
  SimResult result = Simulate(program, setup.plan.cluster, options);
  out.predicted = result.step_seconds;
  out.critical = result.critical;
  out.bubble = result.bubble;
  out.exposed = result.exposed_communication;
  if (run.measured.memory_gib) {
    out.measured_memory = *run.measured.memory_gib * 0x1p30;
    out.predicted_memory = static_cast<double>(result.reserved_memory_bytes);
  }
  if (!out.measured) out.reason = "no step time was published";
}

}  // namespace

Prediction Predict(const PublishedRun& run) {
  Prediction out;
  out.id = run.id;
  out.source = run.source_id;
  out.measured = MeasuredSeconds(run);
  std::vector<std::string> missing = MissingFields(run);
  out.complete = missing.empty();
  if (!missing.empty()) {
    out.reason = fmt::format("not published: {}", fmt::join(missing, ", "));
    return out;
  }
  try {
    Run(run, out);
  } catch (const InputError& error) {
    out.reason = error.what();
  }
  return out;
}

std::vector<Prediction> PredictAll(const std::vector<PublishedRun>& runs, int threads,
                                   const std::function<void(size_t)>& done) {
  std::vector<Prediction> out(runs.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t finished = 0;
  auto work = [&] {
    for (size_t i = next++; i < runs.size(); i = next++) {
      out[i] = Predict(runs[i]);
      std::lock_guard lock(mutex);
      ++finished;
      if (done) done(finished);
    }
  };
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  return out;
}

}  // namespace heddle
