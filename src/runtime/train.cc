#include "runtime/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "host/supervisor/rank_table.h"
#include "runtime/kernel_threads.h"
#include "runtime/measure.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

// Kernels are measured in so many steps at most.
constexpr int64_t kMeasuredSteps = 3;

// Packed gradients are sent without their index: all ranks must keep the same weights.
void RequireOneMask(const Mask& mask, Transport& transport, GroupHandle all) {
  auto own = static_cast<int64_t>(mask.hash() >> 1);
  int64_t largest = Largest(transport, all, own), smallest = -Largest(transport, all, -own);
  if (largest == smallest) return;
  throw CommonInputError(
      fmt::format("{}: ranks have unlike masks: give all of them the same file", mask.path()));
}

std::string DescribeSkip(const StepRecord& record) {
  if (record.loss_scale > 0) {
    return fmt::format(
        "step {} was skipped: f16 gradients overflowed; the "
        "loss scale is now {:g}",
        record.step, record.loss_scale);
  }
  return fmt::format(
      "step {} was skipped: its gradients are not finite (norm "
      "{}), its loss is {:g}",
      record.step, record.grad_norm, record.loss);
}

GroupHandle AddGroupOfAll(Transport& transport) {
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return transport.AddGroup(ranks);
}

// One run on one device.
class TrainLoop {
 public:
  TrainLoop(const TrainInputs& inputs, const TrainOptions& options, Transport& transport,
            const std::function<void(const StepRecord&)>& on_step,
            const std::function<void(const HeldOutLoss&)>& on_evaluation)
      : options_(options),
        transport_(transport),
        on_step_(on_step),
        on_evaluation_(on_evaluation),
        checkpoints_(options.checkpoint, inputs.run, transport),
        saver_(options.checkpoint.folder.empty() ? nullptr : options.slot) {
    WeightSource weights = StartingWeights(inputs, checkpoints_.resumed());
    all_ = AddGroupOfAll(transport);
    if (options.mask != nullptr) RequireOneMask(*options.mask, transport, all_);
    executor_.emplace(
        inputs.program, transport, ToExecutor(options), weights, inputs.constants,
        [&data = inputs.data](int64_t step, Block rows) { return data.Rows(step, rows); });
    if (checkpoints_.resumed() != nullptr) executor_->Restore(*checkpoints_.resumed());
    held_out_.emplace(inputs.forward, inputs.held_out, options.evaluation, options.steps,
                      *executor_);
  }

  TrainSummary Run() {
    Begin();
    for (int64_t step = summary_.first_step; step < options_.steps; ++step) {
      StepRecord record = Step(step);
      Evaluate(step + 1);
      SavingScope saving(saver_);
      checkpoints_.AfterStep(record, step + 1 == options_.steps,
                             [&] { return executor_->State(); });
      if (!IsStopped()) continue;
      checkpoints_.Save(step, [&] { return executor_->State(); });
      break;
    }
    Finish();
    return std::move(summary_);
  }

 private:
  bool is_first() const { return transport_.rank() == 0; }

  void Begin() {
    summary_.first_step = checkpoints_.first_step();
    if (options_.slot != nullptr) {
      options_.slot->first_step.store(summary_.first_step);
      options_.slot->step.store(summary_.first_step);
    }
    if (options_.kernels) {
      int64_t most = std::min(kMeasuredSteps, held_out_->UndisturbedSteps());
      summary_.kernel_steps = std::clamp<int64_t>(options_.steps - summary_.first_step, 0, most);
    }
    if (is_first() && options_.on_start) options_.on_start();
    if (summary_.first_step == 0) Evaluate(0);  // otherwise the run before this one did
  }

  StepRecord Step(int64_t step) {
    if (options_.kernels && step == options_.steps - summary_.kernel_steps) StartKernelTimes();
    StepRecord record = executor_->RunStep(step);
    record.process_bytes = PeakProcessBytes();
    peak_memory_ = std::max(peak_memory_, record.peak_memory_bytes);
    if (record.skipped) ++summary_.skipped_steps;
    if (record.skipped && is_first()) LogInfo("{}", DescribeSkip(record));
    summary_.steps.push_back(record);
    if (is_first()) on_step_(record);
    if (options_.kernels && step + 1 == options_.steps) summary_.kernels = StopKernelTimes();
    return record;
  }

  void Evaluate(int64_t done) {
    if (!held_out_->IsDue(done)) return;
    summary_.evaluations.push_back(held_out_->Measure(done));
    if (is_first()) on_evaluation_(summary_.evaluations.back());
  }

  // All ranks agree on it.
  bool IsStopped() {
    return options_.stop != nullptr &&
           Largest(transport_, all_, options_.stop->load() ? 1 : 0) != 0;
  }

  void Finish() {
    summary_.not_captured = executor_->not_captured();
    SaveSummary& saving = summary_.saving;
    {
      SavingScope scope(saver_);
      saving.not_saved = checkpoints_.Finish();
    }
    saving.saves = checkpoints_.saves();
    saving.every_steps = checkpoints_.every();
    saving.held_up_seconds = checkpoints_.save_seconds();
    saving.cost_seconds = checkpoints_.save_cost();
    saving.advised_interval_seconds = checkpoints_.interval();
    if (options_.slot != nullptr) options_.slot->Enter(RankPhase::kEnding);
    if (summary_.steps.empty()) return;
    ShareMeasurements(*executor_, transport_, all_, options_.device, peak_memory_, options_.trace,
                      summary_);
  }

  const TrainOptions& options_;
  Transport& transport_;
  const std::function<void(const StepRecord&)>& on_step_;
  const std::function<void(const HeldOutLoss&)>& on_evaluation_;
  RunCheckpoints checkpoints_;
  RankSlot* saver_;  // where it says that it saves; null: nowhere
  GroupHandle all_;
  std::optional<Executor> executor_;
  std::optional<HeldOut> held_out_;
  TrainSummary summary_;
  int64_t peak_memory_ = 0;
};

}  // namespace

ExecutorOptions ToExecutor(const TrainOptions& options) {
  ExecutorOptions executor;
  executor.seed = options.seed;
  executor.optimizer = options.optimizer;
  executor.clip_norm = options.clip_norm;
  executor.lr = [lr = options.lr](int64_t step) { return lr.At(step); };
  executor.trace = options.trace;
  executor.slot = options.slot;
  executor.device = options.device;
  executor.capture = options.capture;
  executor.mask = options.mask;
  executor.host = options.host;
  return executor;
}

WeightSource StartingWeights(const TrainInputs& inputs, CheckpointReader* from) {
  if (from == nullptr) return inputs.weights;
  from->RequireModel(inputs.program.model.graph);
  return [from](const std::string& name) {
    return ToTorchTensor(*from->Whole(StateKind::kWeights, name));
  };
}

TrainSummary TrainDevice(const TrainInputs& inputs, const TrainOptions& options,
                         Transport& transport,
                         const std::function<void(const StepRecord&)>& on_step,
                         const std::function<void(const HeldOutLoss&)>& on_evaluation) {
  try {
    SetKernelThreads(options.threads);
    return TrainLoop(inputs, options, transport, on_step, on_evaluation).Run();
  } catch (const c10::Error& error) {
    ThrowRun("libtorch: {}", OneLine(error.what_without_backtrace()));
  }
}

}  // namespace heddle
