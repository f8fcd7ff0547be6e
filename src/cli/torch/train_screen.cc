#include "cli/torch/train_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/torch/supervise.h"
#include "host/host_memory.h"
#include "plan/describe.h"
#include "report/chrome_trace.h"
#include "report/curve.h"
#include "report/kernel_table.h"

namespace heddle {
namespace {

constexpr double kGibi = 1024.0 * 1024 * 1024;

StepMetrics MetricsOf(const StepRecord& record, const StepSize& size, double lr) {
  StepMetrics metrics;
  metrics.step = record.step;
  metrics.loss = record.loss;
  metrics.lr = lr;
  metrics.step_seconds = record.seconds;
  metrics.grad_norm = record.grad_norm;
  metrics.tokens_per_second = size.tokens / record.seconds;
  metrics.tflops = size.flops / record.seconds / 1e12;
  if (size.peak_flops > 0 && !size.nominal)
    metrics.mfu = size.flops / record.seconds / size.peak_flops;
  metrics.memory_bytes = record.process_bytes;
  return metrics;
}

void PrintHeader(const Model& model, const Plan& plan, const DataSource& data,
                 const std::string& device, bool reference) {
  double parameters = 0;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter))
    parameters += static_cast<double>(ElementCount(model.graph.value(id).type.shape));
  fmt::print("{}: {} parameters, batch {}\n", model.graph.name, FormatCount(parameters),
             plan.batch);
  fmt::print("plan: {}\n", DescribePlan(plan));
  fmt::print("data: {}\n", data.Describe());
  if (!device.empty()) fmt::print("device: {}\n", device);
  std::string beside = reference ? fmt::format("{:>12} {:>9} ", "reference", "relative") : "";
  fmt::print("{:>6} {:>12} {}{:>10} {:>16} {:>10} {:>9} {:>7} {:>10}\n", "step", "loss", beside,
             "grad_norm", "peak RSS", "tps", "tflops", "mfu", "time");
}

void PrintStep(const StepMetrics& metrics, double beside, bool reference) {
  std::string compared;
  if (reference) {
    double error = std::abs(metrics.loss - beside) / std::max(1e-12, std::abs(beside));
    compared = fmt::format("{:>12.6f} {:>9.1e} ", beside, error);
  }
  double memory = static_cast<double>(*metrics.memory_bytes);
  std::string held =
      fmt::format("{:.2f}GiB({:.1f}%)", memory / kGibi, 100 * memory / HostMemoryBytes());
  std::string mfu = metrics.mfu ? fmt::format("{:.1f}%", 100 * *metrics.mfu) : "-";
  fmt::print("{:>6} {:>12.6f} {}{:>10.4f} {:>16} {:>10.0f} {:>9.4f} {:>7} {:>10}\n", metrics.step,
             metrics.loss, compared, *metrics.grad_norm, held, *metrics.tokens_per_second,
             *metrics.tflops, mfu, FormatSeconds(Seconds{metrics.step_seconds}));
  std::fflush(stdout);
}

Json StateJson(const StateBytes& state) {
  return {{"weights", state.weights},       {"gradients", state.gradients},
          {"master_weights", state.master}, {"moments", state.moments},
          {"index", state.index},           {"total", state.total()}};
}

std::string DescribeState(const StateBytes& state) {
  std::string words;
  auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0)
      words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name, FormatBytes(Bytes{bytes}));
  };
  add("weights", state.weights);
  add("gradients", state.gradients);
  add("master weights", state.master);
  add("moments", state.moments);
  add("index", state.index);
  return fmt::format("model state on the device that held most: {} ({})",
                     FormatBytes(Bytes{state.total()}), words);
}

void PrintSummary(const TrainSummary& summary, const StepSize& size) {
  std::vector<double> losses;
  for (const StepRecord& step : summary.steps) losses.push_back(step.loss);
  if (losses.size() >= 20) fmt::print("\n{}", LossCurve(losses, 72, 14));
  double seconds = summary.steps[summary.median_step].seconds;
  fmt::print("\nloss {:.4f} -> {:.4f} in {} step{} of {} (median): {} {}/s on {} device{}\n",
             losses.front(), losses.back(), losses.size(), losses.size() == 1 ? "" : "s",
             FormatSeconds(Seconds{seconds}), FormatCount(size.tokens / seconds),
             size.is_tokens ? "tokens" : "samples", size.devices, size.devices == 1 ? "" : "s");
  if (!summary.evaluations.empty()) {
    const HeldOutLoss &first = summary.evaluations.front(), &last = summary.evaluations.back();
    fmt::print("held-out loss {:.4f} after {} steps -> {:.4f} after {}\n", first.loss, first.step,
               last.loss, last.step);
  }
  if (summary.skipped_steps > 0) {
    fmt::print("{} of {} steps were skipped: their gradients were not finite\n",
               summary.skipped_steps, summary.steps.size());
  }
  if (summary.saving.saves == 0) return;
  fmt::print("{} checkpoint{}, one every {} step{}", summary.saving.saves,
             summary.saving.saves == 1 ? "" : "s", summary.saving.every_steps,
             summary.saving.every_steps == 1 ? "" : "s");
  if (summary.saving.advised_interval_seconds > 0) {
    fmt::print(" ({}, by Young's formula for a cost of {})",
               FormatSeconds(Seconds{summary.saving.advised_interval_seconds}),
               FormatSeconds(Seconds{summary.saving.cost_seconds}));
  }
  fmt::print(": training paused for {}\n", FormatSeconds(Seconds{summary.saving.held_up_seconds}));
}

Json ToJson(const std::vector<HeldOutLoss>& evaluations) {
  Json list = Json::array();
  for (const HeldOutLoss& at : evaluations) list.push_back({{"step", at.step}, {"loss", at.loss}});
  return list;
}

}  // namespace

TrainScreen::TrainScreen(const ScreenOptions& options)
    : options_(options),
      size_(SizeOfStep(options.model, options.plan)),
      prediction_(Predict(options.program, options.plan, options.prediction)),
      writer_(options.metrics) {
  if (options.member != nullptr) steps_file_.emplace(*options.member / kStepsFile);
  if (options.member != nullptr) evaluations_file_.emplace(*options.member / kEvaluationsFile);
}

void TrainScreen::Begin() {
  if (options_.json) return;
  PrintHeader(options_.model, options_.plan, options_.data, options_.device,
              !options_.reference.empty());
  std::fflush(stdout);
}

void TrainScreen::Step(const StepRecord& record) {
  StepMetrics metrics = MetricsOf(record, size_, options_.train.lr.At(record.step));
  Log([&] { writer_.Write(metrics); });
  Count({record.step, record.loss, record.seconds, SteadySeconds()});
  size_t at = static_cast<size_t>(record.step);
  double beside = at < options_.reference.size() ? options_.reference[at] : std::nan("");
  if (at < options_.reference.size()) {
    worst_ = std::max(worst_, std::abs(record.loss - beside) / std::max(1e-12, std::abs(beside)));
  }
  bool last = record.step + 1 == options_.train.steps;
  // Without --log-every, up to 40 steps are all shown, and of more steps about twenty.
  int64_t steps = options_.train.steps;
  int64_t every = options_.log_every > 0 ? options_.log_every : steps <= 40 ? 1 : steps / 20;
  if (options_.json || (record.step % every != 0 && !last)) {
    if (!progress_) progress_.emplace("training", steps);
    progress_->Update(record.step + 1, fmt::format("loss {:.4f}", record.loss));
    return;
  }
  progress_.reset();  // clears the progress line before the next line of the table
  PrintStep(metrics, beside, !options_.reference.empty());
}

void TrainScreen::Evaluated(const HeldOutLoss& evaluation) {
  Log([&] { writer_.WriteEvaluation(evaluation.step, evaluation.loss); });
  if (evaluations_file_) {
    evaluations_file_->Write(
        ToLine({evaluation.step, evaluation.loss, evaluation.seconds, SteadySeconds()}));
  }
  if (options_.json) return;
  progress_.reset();
  fmt::print("held-out loss {:.6f} after {} step{} ({})\n", evaluation.loss, evaluation.step,
             evaluation.step == 1 ? "" : "s", FormatSeconds(Seconds{evaluation.seconds}));
  std::fflush(stdout);
}

// Training continues if a line of metrics cannot be written.
void TrainScreen::Log(const std::function<void()>& write) {
  try {
    write();
  } catch (const RunError& error) {
    if (unwritten_lines_++ == 0) LogWarn("{}; training goes on", error.what());
    unwritten_why_ = error.what();
  }
}

std::string TrainScreen::missing() const {
  std::string text;
  if (unwritten_lines_ > 0) {
    text = fmt::format("{} line{} of metrics {} not written: {}", unwritten_lines_,
                       unwritten_lines_ == 1 ? "" : "s", unwritten_lines_ == 1 ? "was" : "were",
                       unwritten_why_);
  }
  if (!unwritten_trace_.empty()) text += (text.empty() ? "" : "; ") + unwritten_trace_;
  return text;
}

void TrainScreen::Finish(const TrainSummary& summary) {
  progress_.reset();
  if (summary.steps.empty()) {
    LogInfo("the checkpoint in {} has step {} of {}: training is complete",
            options_.train.checkpoint.folder, summary.first_step, options_.train.steps);
    if (options_.json)
      Give({{"losses", Json::array()}, {"first_step", summary.first_step}}, summary);
    return;
  }
  if (!options_.trace.empty()) {
    try {
      WriteChromeTrace(summary.trace, options_.trace);
    } catch (const RunError& error) {
      unwritten_trace_ = error.what();
    }
  }
  if (!options_.json) {
    PrintSummary(summary, size_);
    if (!options_.reference.empty()) fmt::print("largest relative difference {:.1e}\n", worst_);
    fmt::print("{}", BesideMeasured(prediction_, summary));
    fmt::print("{}\n", DescribeState(summary.state));
    if (options_.member == nullptr) fmt::print("{}\n", Describe(GoodputSoFar(summary)));
    if (options_.train.kernels) {
      fmt::print("{}", KernelTable(summary.kernels, summary.kernel_steps,
                                   summary.steps[summary.median_step].seconds));
    }
    return;
  }
  double seconds = summary.steps[summary.median_step].seconds;
  Json json;
  json["losses"] = Json::array();
  for (const StepRecord& step : summary.steps) json["losses"].push_back(step.loss);
  json["step_seconds"] = seconds;
  json["peak_memory_bytes"] = summary.peak_memory_bytes;
  if (summary.reserved_bytes > 0) json["reserved_memory_bytes"] = summary.reserved_bytes;
  json["state_bytes"] = StateJson(summary.state);
  json["peak_rss_bytes"] = summary.peak_process_bytes;
  AddPrediction(json, prediction_, summary);
  if (options_.plan.offload != Offload::kNone) {
    json["fetched_bytes"] = summary.fetched_bytes;
    json["evicted_bytes"] = summary.evicted_bytes;
  }
  json["tokens_per_second"] = size_.tokens / seconds;
  json["devices"] = size_.devices;
  json["first_step"] = summary.first_step;
  json["skipped_steps"] = summary.skipped_steps;
  if (summary.saving.saves > 0) {
    json["checkpoint"] = {{"saves", summary.saving.saves},
                          {"every_steps", summary.saving.every_steps},
                          {"advised_interval_seconds", summary.saving.advised_interval_seconds},
                          {"cost_seconds", summary.saving.cost_seconds},
                          {"held_up_seconds", summary.saving.held_up_seconds}};
  }
  json["captured"] = summary.not_captured.empty();
  if (options_.train.kernels) {
    json["kernels"] = KernelJson(summary.kernels, summary.kernel_steps);
  }
  if (!summary.evaluations.empty()) json["eval"] = ToJson(summary.evaluations);
  if (!options_.reference.empty()) json["max_relative_difference"] = worst_;
  Give(std::move(json), summary);
}

// With a supervisor, steps go to its file, because it reports all attempts together.
void TrainScreen::Count(const DoneStep& step) {
  if (steps_file_) {
    steps_file_->Write(ToLine(step));
  } else {
    steps_.push_back(step);
  }
}

Goodput TrainScreen::GoodputSoFar(const TrainSummary& summary) const {
  AttemptTimes times;
  if (!steps_.empty()) times.training = steps_.front().end - steps_.front().seconds;
  times.saving_seconds = summary.saving.held_up_seconds;
  return GoodputOf(options_.began, SteadySeconds(), {times}, steps_);
}

void TrainScreen::Give(Json json, const TrainSummary& summary) const {
  if (options_.member != nullptr) {
    WriteFileAtomically(*options_.member / kResultFile, json.dump());
    return;
  }
  AddGoodput(json, GoodputSoFar(summary));
  PrintJson(json);
}

}  // namespace heddle
