#include "host/supervisor/supervise.h"

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
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "host/supervisor/child.h"
#include "host/supervisor/launch.h"
#include "host/supervisor/member.h"
#include "host/supervisor/private_folder.h"
#include "host/supervisor/watch.h"
#include "program/text.h"

namespace heddle {
namespace {

constexpr const char* kMpirunRemedy = ": install Open MPI, or use --transport threads";
constexpr const char* kNoPrivateNetwork =
    "no private network is allowed here: mpirun listens on all interfaces";
constexpr const char* kMpiFolder = "mpi";  // for temporary files of Open MPI
constexpr double kStartSeconds = 60;       // without a sign of life, in addition to --timeout
constexpr size_t kMaxStepsBytes = size_t{1} << 32, kMaxResultBytes = kMaxJsonBytes;

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

volatile int interrupted = 0;  // the signal that asked this process to end
void OnInterrupt(int signal) { interrupted = signal; }

// While it exists, signals that would end this process only set `interrupted`, so that ranks are ended first.
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

// Bytes that Open MPI and the supervisor need in the folder of a run: shared memory of every rank (4 MiB), tables of
// PMIx (8 MiB), the plan (twice while it is replaced), losses of steps.
int64_t RoomFor(int64_t ranks, bool mpirun, size_t plan_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return kMiB + 2 * static_cast<int64_t>(plan_bytes) + (mpirun ? 12 * kMiB + ranks * 5 * kMiB : 0);
}

// Runs the command line of this process again: as ranks under mpirun, or as one process that runs all ranks.
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

// Whether every further attempt would fail in the same way.
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
  Supervisor(const SuperviseOptions& options, SupervisedRun run)
      : options_(options), run_(std::move(run)), command_(CommandLine()) {}

  SupervisedEnd Run() {
    while (true) {
      std::optional<RankFailure> failure = Attempt();
      if (interrupted != 0) return {.status = 128 + interrupted};
      if (!failure) return Finished(0);
      run_.on_failure(Describe(*failure, InstructionName()));
      if (IsFinal(*failure)) {
        // Training may be complete although a file that it had to write afterwards is missing.
        bool done =
            failure->error == RankError::kCommon && std::filesystem::exists(folder_ / kResultFile);
        int status = StatusOf(*failure);
        return done ? Finished(status) : SupervisedEnd{.status = status};
      }
      if (restarts_ < options_.restarts) {
        ++restarts_;
      } else if (options_.elastic) {
        Shrink();
      } else {
        if (options_.restarts > 0) LogInfo("all {} restarts are used up", options_.restarts);
        return {.status = 1};
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

  // Runs all ranks until they end or the first one fails.
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
    // Ranks that are threads of one process detect by themselves that one of them hangs.
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
    return fmt::format("restart {} of {}: goes on", restarts_, options_.restarts);
  }

  // Makes a plan for one device less.
  void Shrink() {
    int64_t left = run_.plan.devices - 1;
    try {
      if (left < options_.min_ranks) {
        throw Infeasible(left == 0 ? "nothing to go on with"
                                   : fmt::format("--min-ranks is {}", options_.min_ranks));
      }
      run_.plan = run_.replan(left);
      if (ranks() < options_.min_ranks) {
        throw Infeasible(fmt::format("the plan for them uses {}, --min-ranks is {}", ranks(),
                                     options_.min_ranks));
      }
    } catch (const Infeasible& why) {
      throw Infeasible(
          fmt::format("{} device{} left: {}", left, left == 1 ? " is" : "s are", why.what()));
    }
    shrunk_ = true;
    LogInfo("{} device{} left; new plan: {}", left, left == 1 ? " is" : "s are", run_.plan.words);
  }

  std::vector<DoneStep> StepsIn(const char* file) const {
    std::string path = folder_ / file;
    if (!std::filesystem::exists(path)) return {};
    return ReadDoneSteps(ReadFile(path, kMaxStepsBytes));
  }

  SupervisedEnd Finished(int status) const {
    SupervisedEnd end{.status = status, .finished = true, .attempts = attempts_};
    end.steps = StepsIn(kStepsFile);
    end.evaluations = StepsIn(kEvaluationsFile);
    std::string result = folder_ / kResultFile;
    if (std::filesystem::exists(result)) end.result = ReadFile(result, kMaxResultBytes);
    return end;
  }

  SuperviseOptions options_;
  SupervisedRun run_;
  std::vector<std::string> command_;
  PrivateFolder folder_{FolderWithRoom(RoomFor(ranks(), mpirun(), run_.plan.text.size()))};
  int64_t attempt_ = 0, restarts_ = 0;
  bool shrunk_ = false;
  std::vector<AttemptTimes> attempts_;
};

}  // namespace

SupervisedEnd Supervise(const SuperviseOptions& options, SupervisedRun run) {
  SupervisedEnd end;
  {
    Interrupts interrupts;
    end = Supervisor(options, std::move(run)).Run();
  }
  if (interrupted != 0) raise(interrupted);  // now it ends this process
  return end;
}

int LaunchRanks(int64_t ranks, double timeout_seconds, const FailureListener& on_failure) {
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
  if (interrupted != 0) raise(interrupted);  // now it ends this process
  if (!failure) return 0;
  on_failure(Describe(*failure, [](int, int64_t) { return "?"; }));
  return StatusOf(*failure);
}

}  // namespace heddle
