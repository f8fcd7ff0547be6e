#include "cli/torch/supervise.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/torch/private_folder.h"
#include "cli/torch/ranks.h"
#include "program/text.h"
#include "report/goodput.h"
#include "runtime/supervisor/child.h"
#include "runtime/supervisor/member.h"
#include "runtime/supervisor/watch.h"

namespace heddle {
namespace {

constexpr const char* kMpirunRemedy = ": install Open MPI, or use --transport threads";
constexpr const char* kNoPrivateNetwork =
    "no private network is allowed here: mpirun listens on all interfaces";
constexpr const char* kMpiFolder = "mpi";  // what Open MPI leaves behind
constexpr double kStartSeconds = 60;       // without a sign of life, beside --timeout
constexpr size_t kMaxStepsBytes = size_t{1} << 32;

// The command line of this process.
std::vector<std::string> CommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\0', at);
    words.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  if (!words.empty()) words[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

volatile int interrupted = 0;  // the signal that asked us to end
void OnInterrupt(int signal) { interrupted = signal; }

// Signals that end a program end its ranks first.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action {};
    action.sa_handler = &OnInterrupt;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);  // nohup
    }
  }
  ~Interrupts() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_;
};

// What Open MPI and the supervisor put into the folder of a run: shared memory of every rank (4 MiB), tables of PMIx
// (8 MiB), the plan (twice while it is replaced), losses of steps.
int64_t RoomFor(int64_t ranks, bool mpirun, size_t plan_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return kMiB + 2 * static_cast<int64_t>(plan_bytes) + (mpirun ? 12 * kMiB + ranks * 5 * kMiB : 0);
}

// This program's command line again, as ranks or as the one process that has them all.
ChildOptions RankCommand(const std::vector<std::string>& command, int64_t ranks, bool mpirun,
                         const PrivateFolder& folder) {
  ChildOptions child;
  child.command = command;
  child.private_network = mpirun;
  child.remedy = kMpirunRemedy;
  child.leave_out = &IsLaunchVariable;
  if (mpirun) {
    MpirunLaunch launch = MpirunCommand(static_cast<int>(ranks), command,
                                        {.root = geteuid() == 0, .folder = folder / kMpiFolder});
    child.command = std::move(launch.command);
    child.environment = std::move(launch.environment);
  }
  child.environment.push_back(fmt::format("{}={}", kSupervisorVariable, folder.path()));
  return child;
}

// Whether every attempt would end so.
bool IsFinal(const RankFailure& failure) {
  if (failure.kind == RankFailure::Kind::kLauncher) return failure.code >= 0;
  return failure.kind == RankFailure::Kind::kReported && failure.error != RankError::kRun;
}

int StatusOf(const RankFailure& failure) {
  bool input = failure.kind == RankFailure::Kind::kReported && failure.error == RankError::kInput;
  return input ? 2 : 1;
}

class Supervisor {
 public:
  Supervisor(const SuperviseArgs& args, SupervisedRun run)
      : args_(args), run_(std::move(run)), command_(CommandLine()) {}

  int Run() {
    while (true) {
      std::optional<RankFailure> failure = Attempt();
      if (interrupted != 0) return 128 + interrupted;
      if (!failure) return Finish();
      fmt::print(stderr, "heddle: {}\n", Describe(*failure, InstructionName()));
      if (IsFinal(*failure)) {
        // Training may have come to its end and only something that it was to write is missing.
        bool done =
            failure->error == RankError::kCommon && std::filesystem::exists(folder_ / kResultFile);
        if (done) Finish();
        return StatusOf(*failure);
      }
      if (restarts_ < args_.restarts) {
        ++restarts_;
      } else if (args_.elastic) {
        Shrink();
      } else {
        if (args_.restarts > 0) LogInfo("all {} restarts are used up", args_.restarts);
        return 1;
      }
      ++attempt_;
    }
  }

 private:
  int64_t ranks() const { return run_.plan.program->device_count(); }

  InstructionNamer InstructionName() const {
    return [program = run_.plan.program](int rank, int64_t instruction) {
      const std::vector<Instruction>& list = program->RunOf(rank).instructions;
      std::string name =
          instruction >= 0 && instruction < std::ssize(list)
              ? heddle::InstructionName(*program, list[static_cast<size_t>(instruction)])
              : "?";
      return fmt::format("{} of {} ({})", instruction, list.size(), name);
    };
  }

  bool mpirun() const { return ModeOf({}, ranks(), run_.transport) == RankMode::kLaunch; }

  // All ranks, from their start to the end or to the first failure.
  std::optional<RankFailure> Attempt() {
    WriteFileAtomically(folder_ / kPlanFile, run_.plan.text);
    for (const char* file : {kTableFile, kResultFile}) std::filesystem::remove(folder_ / file);
    std::filesystem::remove_all(folder_ / kMpiFolder);
    std::filesystem::create_directory(folder_ / kMpiFolder);
    const bool mpirun = this->mpirun();
    RankTable table = RankTable::Create(folder_ / kTableFile,
                                        {.ranks = mpirun ? ranks() : 1, .attempt = attempt_});
    Child child(RankCommand(command_, ranks(), mpirun, folder_));
    if (mpirun && !child.has_private_network() && attempt_ == 0) LogWarn("{}", kNoPrivateNetwork);
    AttemptTimes times;
    WatchOptions watch;
    watch.mpirun = mpirun;
    // Ranks that are threads find out by themselves that one of them hangs.
    watch.timeout_seconds = run_.timeout_seconds + (!mpirun && ranks() > 1 ? 2 : 0);
    watch.start_seconds = kStartSeconds + 4 * run_.prepare_seconds;
    watch.interrupt = &interrupted;
    watch.on_training = [&](int64_t step) {
      times.training = SteadySeconds();
      if (attempts_.empty()) return;
      LogInfo("{} from step {}, {:.1f} s after the failure", Again(), step,
              times.training - attempts_.back().failed);
    };
    std::optional<RankFailure> failure = Watch(child, table, watch);
    times.saving_seconds = 1e-9 * static_cast<double>(table.slot(0).saving_nanoseconds.load());
    if (failure) {
      times.detected = SteadySeconds();
      times.failed = times.detected - failure->silent_seconds;
    }
    attempts_.push_back(times);
    return failure;
  }

  std::string Again() const {
    if (shrunk_) return fmt::format("goes on with {} ranks", ranks());
    return fmt::format("restart {} of {}: goes on", restarts_, args_.restarts);
  }

  // One device is gone for good.
  void Shrink() {
    int64_t left = run_.plan.devices - 1;
    try {
      if (left < args_.min_ranks) {
        throw Infeasible(left == 0 ? "nothing to go on with"
                                   : fmt::format("--min-ranks is {}", args_.min_ranks));
      }
      run_.plan = run_.replan(left);
      if (ranks() < args_.min_ranks) {
        throw Infeasible(
            fmt::format("the plan for them uses {}, --min-ranks is {}", ranks(), args_.min_ranks));
      }
    } catch (const Infeasible& why) {
      throw Infeasible(
          fmt::format("{} device{} left: {}", left, left == 1 ? " is" : "s are", why.what()));
    }
    shrunk_ = true;
    LogInfo("{} device{} left; new plan: {}", left, left == 1 ? " is" : "s are", run_.plan.words);
  }

  int Finish() {
    std::string steps_file = folder_ / kStepsFile;
    std::vector<DoneStep> steps;
    if (std::filesystem::exists(steps_file))
      steps = ReadDoneSteps(ReadFile(steps_file, kMaxStepsBytes));
    Goodput goodput = GoodputOf(run_.began, SteadySeconds(), attempts_, steps);
    if (!run_.json) {
      fmt::print("{}\n", heddle::Describe(goodput));
      return 0;
    }
    std::string result = folder_ / kResultFile;
    Json json = ParseJson(ReadFile(result, kMaxJsonBytes), result);
    if (!steps.empty()) {
      std::map<int64_t, double> losses;  // of all attempts; what was done again last
      for (const DoneStep& step : steps) losses[step.step] = step.loss;
      json["first_step"] = losses.begin()->first;
      json["losses"] = Json::array();
      for (const auto& [step, loss] : losses) json["losses"].push_back(loss);
    }
    std::string evaluations = folder_ / kEvaluationsFile;
    if (std::filesystem::exists(evaluations)) {
      std::map<int64_t, double> held_out;
      for (const DoneStep& at : ReadDoneSteps(ReadFile(evaluations, kMaxStepsBytes)))
        held_out[at.step] = at.loss;
      Json list = Json::array();
      for (const auto& [step, loss] : held_out) list.push_back({{"step", step}, {"loss", loss}});
      if (!list.empty()) json["eval"] = std::move(list);
    }
    AddGoodput(json, goodput);
    PrintJson(json);
    return 0;
  }

  SuperviseArgs args_;
  SupervisedRun run_;
  std::vector<std::string> command_;
  PrivateFolder folder_{FolderWithRoom(RoomFor(ranks(), mpirun(), run_.plan.text.size()))};
  int64_t attempt_ = 0, restarts_ = 0;
  bool shrunk_ = false;
  std::vector<AttemptTimes> attempts_;
};

}  // namespace

void SuperviseArgs::Add(CLI::App& command) {
  command
      .add_option("--restarts", restarts,
                  "times to go on from the last checkpoint after a rank has died or hung")
      ->transform(IntegerIn(0, 1 << 20))
      ->capture_default_str();
  command.add_flag("--elastic", elastic,
                   "after a failure (with --restarts: when they are used up) plan again with one "
                   "device less and go on from the last checkpoint");
  min_ranks_option_ =
      command
          .add_option("--min-ranks", min_ranks, "with --elastic: fewer than these are not enough")
          ->transform(IntegerIn(1, 1 << 20))
          ->capture_default_str();
}

void SuperviseArgs::Check(bool has_checkpoints) const {
  if (Given() && !has_checkpoints) {
    ThrowInput("{}: runs go on from checkpoints: give their folder with --checkpoint",
               elastic ? "--elastic" : "--restarts");
  }
  if (min_ranks_option_->count() > 0 && !elastic)
    ThrowInput("--min-ranks {}: only with --elastic", min_ranks);
}

int Supervise(const SuperviseArgs& args, SupervisedRun run) {
  int status = 0;
  {
    Interrupts interrupts;
    status = Supervisor(args, std::move(run)).Run();
  }
  if (interrupted != 0) raise(interrupted);  // as it would have ended us
  return status;
}

int LaunchRanks(int64_t ranks, double timeout_seconds) {
  std::optional<RankFailure> failure;
  {
    Interrupts interrupts;
    PrivateFolder folder(FolderWithRoom(RoomFor(ranks, /*mpirun=*/true, /*plan_bytes=*/0)));
    std::filesystem::create_directory(folder / kMpiFolder);
    RankTable table = RankTable::Create(folder / kTableFile, {.ranks = ranks});
    Child child(RankCommand(CommandLine(), ranks, /*mpirun=*/true, folder));
    if (!child.has_private_network()) LogWarn("{}", kNoPrivateNetwork);
    failure = Watch(child, table,
                    {.mpirun = true,
                     .timeout_seconds = timeout_seconds,
                     .start_seconds = kStartSeconds,
                     .interrupt = &interrupted});
  }
  if (interrupted != 0) raise(interrupted);  // as it would have ended us
  if (!failure) return 0;
  fmt::print(stderr, "heddle: {}\n", Describe(*failure, [](int, int64_t) { return "?"; }));
  return StatusOf(*failure);
}

}  // namespace heddle
