#include "runtime/shard_job.h"

#include <atomic>

#include "base/check.h"
#include "base/error.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

class ShardJob : public ShardRunner {
 public:
  ShardJob(const TrainInputs& inputs, const TrainOptions& options,
           std::vector<FleetDevice>& fleet_devices)
      : inputs_(inputs),
        options_(options),
        fleet_devices_(fleet_devices),
        transport_(std::move(MakeThreadTransports(1)[0])),
        checkpoints_(options.checkpoint, inputs.run, *transport_) {
    CheckpointReader* from = checkpoints_.resumed();
    WeightSource weights = StartingWeights(inputs, from);
    ExecutorOptions executor = ToExecutor(options);
    executor.device = fleet_devices.front().device;
    executor.compute = fleet_devices.front().compute;
    executor.fetches = fleet_devices.front().fetches;
    executor.evictions = fleet_devices.front().evictions;
    executor_ = std::make_unique<Executor>(
        inputs.program, *transport_, executor, weights, inputs.constants,
        [this](int64_t step, Block rows) { return inputs_.data.Rows(step, rows); });
    if (from != nullptr) executor_->Restore(*from);
    executor_->ShareDevice();
  }

  int visits() const override { return static_cast<int>(inputs_.program.RunOf(0).visits.size()); }
  int64_t first_step() const override { return checkpoints_.first_step(); }
  // Of the steps before the checkpoint that it resumes from.
  const std::vector<double>& losses() const { return checkpoints_.losses(); }

  void Prefetch(int visit, int device) override {
    Translated([&] { executor_->Prefetch(VisitId{visit}, fleet_device(device).meter); });
  }

  std::optional<StepRecord> Run(int64_t step, int visit, int device) override {
    std::optional<StepRecord> record;
    Translated([&] {
      SetKernelThreads(options_.threads);
      if (visit == 0) executor_->BeginStep(step);
      executor_->RunVisit(VisitId{visit}, fleet_device(device).meter);
      if (visit + 1 < visits()) return;
      record = executor_->EndStep();
      checkpoints_.AfterStep(*record, step + 1 == options_.steps,
                             [&] { return executor_->State(); });
      last_step_ = step;
    });
    return record;
  }

  void Leave() override {
    if (failed_) return executor_.reset();  // its state is unknown
    Translated([&] { executor_->LeaveDevice(); });
  }

  void Finish() override {
    Translated([&] {
      if (last_step_ >= 0) checkpoints_.Save(last_step_, [&] { return executor_->State(); });
      if (std::string failure = checkpoints_.Finish(); !failure.empty()) ThrowRun("{}", failure);
    });
  }

 private:
  FleetDevice& fleet_device(int device) { return fleet_devices_[static_cast<size_t>(device)]; }

  template <typename Body>
  void Translated(const Body& body) {
    try {
      body();
    } catch (const c10::Error& error) {
      failed_ = true;
      ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  TrainInputs inputs_;
  TrainOptions options_;
  std::vector<FleetDevice>& fleet_devices_;
  std::unique_ptr<Transport> transport_;
  RunCheckpoints checkpoints_;
  std::unique_ptr<Executor> executor_;
  int64_t last_step_ = -1;  // the last one that was run
  std::atomic<bool> failed_ = false;
};

}  // namespace

FleetDevice MakeFleetDevice(at::Device device) {
  FleetDevice fleet_device;
  fleet_device.device = device;
  fleet_device.compute = NewStream(device);
  fleet_device.fetches = NewStream(device);
  fleet_device.evictions = NewStream(device);
  return fleet_device;
}

std::unique_ptr<ShardRunner> MakeShardJob(const TrainInputs& inputs, const TrainOptions& options,
                                          std::vector<FleetDevice>& fleet_devices,
                                          std::vector<double>* earlier_losses) {
  HEDDLE_CHECK(!fleet_devices.empty(), "a job without devices");
  auto job = std::make_unique<ShardJob>(inputs, options, fleet_devices);
  if (earlier_losses != nullptr) *earlier_losses = job->losses();
  return job;
}

}  // namespace heddle
