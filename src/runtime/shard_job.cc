#include "runtime/shard_job.h"

#include <atomic>

#include "base/check.h"
#include "base/error.h"
#include "runtime/kernel_threads.h"
#include "runtime/tensor.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

class ShardJob : public ShardRunner {
 public:
  ShardJob(const TrainInputs& inputs, const TrainOptions& options, std::vector<Seat>& seats)
      : inputs_(inputs),
        options_(options),
        seats_(seats),
        transport_(std::move(MakeThreadTransports(1)[0])),
        checkpoints_(options.checkpoint, inputs.run, *transport_) {
    CheckpointReader* from = checkpoints_.resumed();
    if (from != nullptr) from->RequireModel(inputs.program.model.graph);
    WeightSource weights = inputs.weights;
    if (from != nullptr) {
      weights = [from](const std::string& name) {
        return ToTorchTensor(*from->Whole(StateKind::kWeights, name));
      };
    }
    ExecutorOptions executor = ToExecutor(options);
    executor.device = seats.front().device;
    executor.compute = seats.front().compute;
    executor.fetches = seats.front().fetches;
    executor.evictions = seats.front().evictions;
    executor_ = std::make_unique<Executor>(
        inputs.program, *transport_, executor, weights, inputs.constants,
        [this](int64_t step, Block rows) { return inputs_.data.Rows(step, rows); });
    if (from != nullptr) executor_->Restore(*from);
    executor_->Roam();
  }

  int visits() const override { return static_cast<int>(inputs_.program.RunOf(0).visits.size()); }
  int64_t first_step() const override { return checkpoints_.first_step(); }
  // Of the steps that the checkpoint has.
  const std::vector<double>& losses() const { return checkpoints_.losses(); }

  void Prefetch(int visit, int device) override {
    Translated([&] { executor_->Prefetch(VisitId{visit}, seat(device).meter); });
  }

  std::optional<StepRecord> Run(int64_t step, int visit, int device) override {
    std::optional<StepRecord> record;
    Translated([&] {
      SetKernelThreads(options_.threads);
      if (visit == 0) executor_->BeginStep(step);
      executor_->RunVisit(VisitId{visit}, seat(device).meter);
      if (visit + 1 < visits()) return;
      record = executor_->EndStep();
      checkpoints_.AfterStep(*record, step + 1 == options_.steps,
                             [&] { return executor_->State(); });
      last_step_ = step;
    });
    return record;
  }

  void Leave() override {
    if (failed_) return executor_.reset();  // wherever it stood
    Translated([&] { executor_->Vacate(); });
  }

  void Finish() override {
    Translated([&] {
      if (last_step_ >= 0) checkpoints_.Save(last_step_, [&] { return executor_->State(); });
      if (std::string failure = checkpoints_.Finish(); !failure.empty()) ThrowRun("{}", failure);
    });
  }

 private:
  Seat& seat(int device) { return seats_[static_cast<size_t>(device)]; }

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
  std::vector<Seat>& seats_;
  std::unique_ptr<Transport> transport_;
  RunCheckpoints checkpoints_;
  std::unique_ptr<Executor> executor_;
  int64_t last_step_ = -1;  // that was run
  std::atomic<bool> failed_ = false;
};

}  // namespace

Seat MakeSeat(at::Device device) {
  Seat seat;
  seat.device = device;
  seat.compute = NewStream(device);
  seat.fetches = NewStream(device);
  seat.evictions = NewStream(device);
  return seat;
}

std::unique_ptr<ShardRunner> MakeShardJob(const TrainInputs& inputs, const TrainOptions& options,
                                          std::vector<Seat>& seats,
                                          std::vector<double>* earlier_losses) {
  HEDDLE_CHECK(!seats.empty(), "a job without seats");
  auto job = std::make_unique<ShardJob>(inputs, options, seats);
  if (earlier_losses != nullptr) *earlier_losses = job->losses();
  return job;
}

}  // namespace heddle
