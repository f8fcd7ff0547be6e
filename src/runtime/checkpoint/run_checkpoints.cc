#include "runtime/checkpoint/run_checkpoints.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/experiment.h"
#include "checkpoint/folder.h"
#include "plan/save_interval.h"

namespace heddle {
namespace {

// The step time is measured after this many steps, when warm-up effects are over.
constexpr int64_t kPaceSteps = 3;

int64_t RandomId() {
  std::random_device device;
  uint64_t bits = (static_cast<uint64_t>(device()) << 32) | device();
  return static_cast<int64_t>(bits >> 1);
}

}  // namespace

void RequireUsable(const CheckpointOptions& options) {
  if (options.folder.empty()) {
    if (options.resume) ThrowInput("--resume: give the folder with --checkpoint");
    return;
  }
  std::vector<int64_t> there = ListCheckpoints(options.folder);
  if (options.resume || there.empty()) return;
  ThrowInput(
      "--checkpoint {}: it holds checkpoints up to step {}: go on from them with --resume, or use "
      "another folder",
      options.folder, there.back());
}

RunCheckpoints::RunCheckpoints(CheckpointOptions options, Json run, Transport& transport)
    : options_(std::move(options)), run_(std::move(run)), transport_(transport) {
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  all_ = transport.AddGroup(ranks);
  if (options_.folder.empty()) return;
  bool first = transport.rank() == 0;
  int64_t step = -1;
  if (first) {
    lock_ = std::make_unique<FolderLock>(options_.folder);
    RemoveLeftovers(options_.folder);
    if (options_.resume) {
      auto passed_over = [](const std::string& why) { LogWarn("{}; an earlier one is used", why); };
      std::optional<FoundCheckpoint> found = LastGoodCheckpoint(options_.folder, passed_over);
      if (found) step = found->step;
    }
  }
  step = Largest(step);
  int64_t id = Largest(first ? RandomId() : 0);
  if (step >= 0) {
    std::string path = CheckpointPath(options_.folder, step);
    reader_ = std::make_unique<CheckpointReader>(path, OpenCheckpoint(path));
    first_step_ = step;
    RequireSameExperiment();
    if (options_.keep_losses) ReadLosses();
  }
  CheckpointWriterOptions writer;
  writer.folder = options_.folder;
  writer.keep = options_.keep;
  writer.rank = transport.rank();
  writer.ranks = transport.size();
  writer.run_id = static_cast<uint64_t>(id);
  writer_ = std::make_unique<CheckpointWriter>(writer);
  every_ = options_.every;
}

RunCheckpoints::~RunCheckpoints() = default;

void RunCheckpoints::RequireSameExperiment() {
  ExperimentChanges found = CompareExperiments(reader_->manifest().run, run_);
  bool speaks = transport_.rank() == 0;
  if (!found.unknown.empty() && speaks) {
    LogWarn("{} does not say its {}: taken to be as now", reader_->path(),
            fmt::join(found.unknown, ", "));
  }
  if (found.empty()) return;
  if (!options_.override_settings) {
    throw CommonInputError(fmt::format(
        "{} is of another experiment: {}; give what it was trained with, another folder, or "
        "--override to go on all the same",
        reader_->path(), found.Describe()));
  }
  if (speaks) LogWarn("--override: goes on from {} though {}", reader_->path(), found.Describe());
}

// Steps whose loss is not in the checkpoint get NaN.
void RunCheckpoints::ReadLosses() {
  const Json saved = reader_->manifest().run.value("losses", Json::array());
  losses_.assign(static_cast<size_t>(first_step_), std::nan(""));
  size_t known = 0;
  for (size_t step = 0; saved.is_array() && step < std::min(saved.size(), losses_.size()); ++step) {
    if (!saved[step].is_number()) continue;
    losses_[step] = saved[step].get<double>();
    ++known;
  }
  if (known == losses_.size()) return;
  LogWarn("{}: the losses of {} of {} steps are not there", reader_->path(), losses_.size() - known,
          losses_.size());
}

int64_t RunCheckpoints::Largest(int64_t mine) {
  at::Tensor largest = at::tensor({mine}, at::kLong);
  Ticket ticket =
      transport_.Start(CollectiveKind::kAllReduce, Reduction::kMax, all_, largest, largest);
  transport_.Wait(ticket);
  return largest[0].item<int64_t>();
}

double RunCheckpoints::Slowest(double seconds) {
  constexpr double kNanos = 1e9;
  return static_cast<double>(Largest(static_cast<int64_t>(seconds * kNanos))) / kNanos;
}

void RunCheckpoints::Save(int64_t step, const TrainState& state, bool last) {
  Json run = run_;
  run["state"] = state.numbers;
  if (options_.keep_losses) run["losses"] = losses_;
  auto fill = [&](std::vector<SavedPart>& saved) { CopyToHost(state.parts, saved); };
  saving_ += writer_->Save(step + 1, fill, run, last);
  ++saves_;
  saved_ = step;
}

void RunCheckpoints::Save(int64_t step, const StateFn& state) {
  if (writer_ && saved_ != step) Save(step, state(), /*last=*/true);
}

// Waits for the first save, to measure what a save costs: the copy, and the processor time that the writing thread
// takes from training.
void RunCheckpoints::SaveFirst(const StepRecord& record, bool last, const TrainState& state) {
  auto start = std::chrono::steady_clock::now();
  writer_->Prepare([&](std::vector<SavedPart>& saved) { CopyToHost(state.parts, saved); });
  Save(record.step, state, last);
  writer_->Finish();
  saving_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cost_ = Slowest(writer_->cost());
  interval_ = YoungInterval(cost_, options_.mtbf);
  double seconds = std::max(Slowest(record.seconds), 1e-9);
  every_ = std::max<int64_t>(1, static_cast<int64_t>(interval_ / seconds));
}

void RunCheckpoints::AfterStep(const StepRecord& record, bool last, const StateFn& state) {
  if (!writer_) return;
  if (options_.keep_losses) losses_.push_back(record.loss);
  int64_t done = record.step + 1;
  if (every_ == 0) {
    if (done - first_step_ == kPaceSteps || last) SaveFirst(record, last, state());
    return;
  }
  if (done % every_ == 0 || last) Save(record.step, state(), last);
}

std::string RunCheckpoints::Finish() {
  if (!writer_) return "";
  writer_->Finish();
  return writer_->failure();
}

}  // namespace heddle
