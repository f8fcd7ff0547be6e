// Steps on an accelerator: nothing in a step waits for the device, which is read once at its end; a steady step is
// captured and then repeated as one graph.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/log.h"
#include "ops/traits.h"
#include "runtime/executor_internal.h"

namespace heddle {
namespace {

// Libraries choose kernels, make handles and take workspaces in the first steps.
constexpr int64_t kEagerSteps = 3;

}  // namespace

std::string Executor::WhyNotCaptured() const {
  if (!stream_) return "steps on the CPU are not captured";
  if (!options_.capture) return "not wanted";
  if (program_.device_count() > 1) return "ranks meet on the host during a step";
  if (options_.trace || options_.keep_gradients) return "instructions are looked at one by one";
  for (const Instruction& i : run_.instructions) {
    if (i.op == Opcode::kFetch) return "state comes from the host";
  }
  for (const Node& node : program_.model.graph.nodes) {
    if (TraitsOf(node.op).randomness != Randomness::kNone)
      return "'" + node.op + "' draws other numbers in every step";
  }
  return "";
}

void Executor::RunOrReplay() {
  if (!graph_ && not_captured_.empty() && eager_steps_ >= kEagerSteps) {
    auto graph = std::make_unique<StepGraph>();
    std::optional<std::string> wrong = graph->Capture([this] { RunInstructions(); });
    if (wrong) {
      not_captured_ = *wrong;
      DropAll();
      LogInfo("steps run instruction by instruction: {}", not_captured_);
    } else {
      graph_ = std::move(graph);
    }
  }
  if (graph_) {
    graph_->Replay();
    Charge(Opcode::kRun);
  } else {
    RunInstructions();
    ++eager_steps_;
  }
  // While the device computes.
  if (inputs_) inputs_->Ahead(step_ + 1);
}

// After a capture that failed: what was made in it holds nothing.
void Executor::DropAll() {
  for (size_t b = 0; b < buffers_.size(); ++b) {
    BufferId id = BufferId::FromIndex(b);
    if (std::find(run_.persistent.begin(), run_.persistent.end(), id) == run_.persistent.end())
      buffers_[b].reset();
  }
  for (at::Tensor& value : scratch_) value.reset();
  saved_.clear();
  pending_.clear();
  std::fill(pending_by_buffer_.begin(), pending_by_buffer_.end(), static_cast<size_t>(-1));
  for (auto& [key, held] : stores_) held->DropGradients();
}

StepRecord Executor::ReadReport() {
  HEDDLE_CHECK(report_.defined(), "a program without a report");
  at::Tensor read = report_.cpu();  // waits for the step
  Charge(Opcode::kReport);
  StepRecord record;
  record.loss = loss_ = read[0].item<double>();
  record.grad_norm = read[1].item<double>();
  record.skipped = read[2].item<double>() != 0;
  if (loss_scale_) record.loss_scale = loss_scale_->state().scale;
  if (std::isfinite(loss_) || forward_only_) return record;
  if (spills_) StopNotFinite();  // what was spilled has been updated
  // The weights are as they were: the same step again, to look for what is not finite.
  look_closer_ = true;
  if (inputs_) inputs_->Begin(step_);
  RunInstructions();
  ThrowRun(
      "the loss was not finite at step {}, and is finite when the step is run again: its kernels "
      "do "
      "not give the same numbers twice; use --deterministic",
      step_);
}

// The host only starts what the device does: how long that took, and when, is the device's to say. What is left of the
// step was spent on bringing inputs, starting the work and reading the report.
void Executor::ReadClock() {
  std::vector<double> marks = clock_->Seconds();
  double all = charged_until_ - step_start_;
  kind_seconds_.fill(0);
  for (size_t i = 0; i < run_.instructions.size(); ++i) {
    kind_seconds_[static_cast<size_t>(run_.instructions[i].op)] += marks[i + 1] - marks[i];
    if (!options_.trace) continue;
    TraceEvent& event = trace_.events[first_event_ + i];
    event.start = step_start_ - origin_ + marks[i];
    event.end = step_start_ - origin_ + marks[i + 1];
  }
  host_seconds_ = std::max(0.0, all - marks.back());
  kind_seconds_[static_cast<size_t>(Opcode::kReport)] += host_seconds_;
}

}  // namespace heddle
