#include "host/supervisor/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "host/supervisor/mpirun_words.h"

namespace heddle {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kTickMilliseconds = 20;
// In seconds. Where the supervisor itself did not run for longer (a suspended machine), ranks may not have run either:
// that time does not count as silence.
constexpr double kLongestTick = 0.25;
constexpr double kSaveSeconds = 600;  // to write a checkpoint
constexpr double kEndSeconds =
    10;  // from the last sign of life of a rank to the end of its process

class Watcher {
 public:
  Watcher(Child& child, const RankTable& table, const WatchOptions& options)
      : child_(child),
        table_(table),
        options_(options),
        seen_(static_cast<size_t>(table.ranks())) {}

  std::optional<RankFailure> Run() {
    while (true) {
      ForwardErrors(kTickMilliseconds);
      Look();
      if (options_.interrupt != nullptr && *options_.interrupt != 0) break;
      if (child_.HasEnded() || AllDone()) break;
      if (std::optional<RankFailure> failure = Reported(kEndSeconds)) return End(failure);
      if (std::optional<RankFailure> failure = Hung()) return End(failure);
      if (std::optional<RankFailure> failure = LeftBehind()) return End(failure);
    }
    if (!child_.HasEnded()) return End(std::nullopt);
    ForwardErrors(0);
    return End(Ended());
  }

 private:
  struct Seen {
    int64_t beats = 0;
    double silent = 0;  // seconds since they last changed
  };

  std::optional<RankFailure> End(std::optional<RankFailure> failure) {
    child_.Kill();
    ForwardErrors(0);
    Show(words_.TakeRest());
    if (failure) {
      failure->cause = words_.Cause();
    } else if (options_.interrupt == nullptr || *options_.interrupt == 0) {
      Show(words_.own());
    }
    return failure;
  }

  static void Show(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

  // Waits that long for output of the child and passes it on.
  void ForwardErrors(int milliseconds) {
    if (errors_open_) {
      pollfd wait{child_.errors(), POLLIN, 0};
      poll(&wait, 1, milliseconds);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    char bytes[16384];
    ssize_t count = 0;
    while (errors_open_ && (count = read(child_.errors(), bytes, sizeof(bytes))) > 0)
      Show(words_.Take({bytes, static_cast<size_t>(count)}));
    if (count == 0 && errors_open_) errors_open_ = false;
  }

  RankSlot& slot(size_t rank) const { return table_.slot(static_cast<int>(rank)); }

  void Look() {
    SteadyClock::time_point now = SteadyClock::now();
    double passed = std::min(kLongestTick, std::chrono::duration<double>(now - looked_).count());
    looked_ = now;
    for (size_t rank = 0; rank < seen_.size(); ++rank) {
      int64_t beats = slot(rank).beats.load(std::memory_order_relaxed);
      seen_[rank].silent = beats == seen_[rank].beats ? seen_[rank].silent + passed : 0;
      seen_[rank].beats = beats;
    }
    if (!training_ && slot(0).phase.load() >= RankPhase::kTraining) {
      training_ = true;
      if (options_.on_training) options_.on_training(slot(0).first_step.load());
    }
  }

  // All ranks have finished their work, but their processes do not end.
  bool AllDone() const {
    for (size_t rank = 0; rank < seen_.size(); ++rank) {
      if (slot(rank).phase.load() != RankPhase::kDone || seen_[rank].silent < kEndSeconds)
        return false;
    }
    return true;
  }

  // The longest time between two signs of life. A rank that starts or saves gives few of them.
  double DeadlineOf(size_t rank) const {
    bool starting = slot(rank).phase.load() <= RankPhase::kStarting;
    bool saving = slot(rank).phase.load() == RankPhase::kSaving;
    if ((starting || saving) && StateOf(rank) != 'T')
      return options_.timeout_seconds + (starting ? options_.start_seconds : kSaveSeconds);
    return options_.timeout_seconds;
  }

  RankFailure FailureOf(RankFailure::Kind kind, size_t rank) const {
    RankFailure failure;
    failure.kind = kind;
    failure.rank = static_cast<int>(rank);
    failure.silent_seconds = seen_[rank].silent;
    failure.phase = slot(rank).phase.load();
    failure.step = slot(rank).step.load();
    failure.instruction = slot(rank).instruction.load();
    return failure;
  }

  // The rank that has been silent for too long. A rank may be silent because it waits, inside a call of MPI, for
  // another rank whose process is stopped: then that other rank is the one.
  std::optional<RankFailure> Hung() const {
    std::optional<size_t> hung;
    bool stopped = false;
    auto is_working = [&](size_t rank) {
      return slot(rank).phase.load() != RankPhase::kDone && !slot(rank).HasFailed();
    };
    for (size_t rank = 0; rank < seen_.size(); ++rank) {
      if (!is_working(rank) || seen_[rank].silent < options_.timeout_seconds) continue;
      if (seen_[rank].silent < DeadlineOf(rank)) continue;
      if (!hung || seen_[rank].silent > seen_[*hung].silent) hung = rank;
    }
    if (!hung) return std::nullopt;
    for (size_t rank = 0; rank < seen_.size(); ++rank) {
      if (!is_working(rank) || StateOf(rank) != 'T') continue;
      if (!stopped || seen_[rank].silent > seen_[*hung].silent) hung = rank;
      stopped = true;
    }
    RankFailure failure = FailureOf(RankFailure::Kind::kHung, *hung);
    failure.state = StateOf(*hung);
    return failure;
  }

  char StateOf(size_t rank) const {
    if (int64_t pid = slot(rank).pid.load(); pid != 0) return ProcessState(static_cast<pid_t>(pid));
    if (!options_.mpirun) return ProcessState(child_.pid());
    // The rank has not written its slot yet: its process is found by the variable that mpirun gave it.
    std::string name = fmt::format("OMPI_COMM_WORLD_RANK={}", rank);
    for (pid_t pid : ChildrenOf(child_.pid())) {
      if (HasVariable(pid, name)) return ProcessState(pid);
    }
    return 'X';
  }

  // The first rank that reported a failure and has been silent for `silent` seconds since.
  std::optional<RankFailure> Reported(double silent) const {
    std::optional<size_t> first;
    for (size_t rank = 0; rank < seen_.size(); ++rank) {
      if (!slot(rank).HasFailed() || seen_[rank].silent < silent) continue;
      if (!first || slot(rank).failed_at.load() < slot(*first).failed_at.load()) first = rank;
    }
    if (!first) return std::nullopt;
    RankFailure failure = FailureOf(RankFailure::Kind::kReported, *first);
    failure.error = slot(*first).error.load();
    failure.text = slot(*first).ErrorText();
    return failure;
  }

  // mpirun said that a rank has ended, but does not end itself.
  std::optional<RankFailure> LeftBehind() {
    if (!EndOfRank()) return std::nullopt;
    SteadyClock::time_point now = SteadyClock::now();
    if (!rank_ended_) rank_ended_ = now;
    if (std::chrono::duration<double>(now - *rank_ended_).count() < kEndSeconds)
      return std::nullopt;
    return FailureOf(*EndOfRank());
  }

  std::optional<RankEnd> EndOfRank() const {
    bool known = words_.end() && words_.end()->rank >= 0 && words_.end()->rank < table_.ranks();
    return options_.mpirun && known ? words_.end() : std::nullopt;
  }

  RankFailure FailureOf(const RankEnd& end) const {
    RankFailure failure =
        FailureOf(end.signal != 0 ? RankFailure::Kind::kKilled : RankFailure::Kind::kExited,
                  static_cast<size_t>(end.rank));
    failure.code = end.signal != 0 ? end.signal : end.exit_code;
    return failure;
  }

  // How the child has ended. An exit code of 0 means nothing while ranks have not finished their work.
  std::optional<RankFailure> Ended() const {
    if (std::optional<RankFailure> failure = Reported(0)) return failure;
    std::optional<int> unfinished;
    bool absent = true;
    for (int rank = table_.ranks() - 1; rank >= 0; --rank) {
      RankPhase phase = table_.slot(rank).phase.load();
      if (phase != RankPhase::kDone) unfinished = rank;
      absent = absent && phase == RankPhase::kAbsent;
    }
    if (!unfinished) return std::nullopt;  // how the processes ended does not matter any more
    int status = child_.status();
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (!options_.mpirun) return FailureOf(RankEnd{.signal = signal, .exit_code = code});
    if (std::optional<RankEnd> end = EndOfRank()) return FailureOf(*end);
    if (!absent && signal == 0 && code == 0) return FailureOf(RankEnd{.rank = *unfinished});
    RankFailure launcher;
    launcher.code = signal != 0 ? -signal : code;
    return launcher;
  }

  Child& child_;
  const RankTable& table_;
  const WatchOptions& options_;
  std::vector<Seen> seen_;
  SteadyClock::time_point looked_ = SteadyClock::now();
  MpirunWords words_;
  std::optional<SteadyClock::time_point> rank_ended_;  // when mpirun said that a rank has ended
  bool errors_open_ = true;
  bool training_ = false;
};

std::string StateWords(char state) {
  switch (state) {
    case 'T':
      return "its process is stopped";
    case 't':
      return "its process is held by a debugger";
    case 'D':
      return "its process waits for a disk or a network";
    case 'Z':
    case 'X':
      return "its process is gone";
    case 'R':
      return "its process is running";
    default:
      return "its process is asleep";
  }
}

}  // namespace

std::optional<RankFailure> Watch(Child& child, const RankTable& table,
                                 const WatchOptions& options) {
  return Watcher(child, table, options).Run();
}

std::string Describe(const RankFailure& failure, const InstructionNamer& instruction) {
  std::string cause = failure.cause.empty() ? "" : ": " + failure.cause;
  if (failure.kind == RankFailure::Kind::kLauncher) {
    if (failure.code < 0) {
      return fmt::format("mpirun was killed by signal {} ({})", -failure.code,
                         strsignal(-failure.code));
    }
    if (failure.code > 0)
      return fmt::format("mpirun ended with exit code {}{}", failure.code, cause);
    return "mpirun ended without running the ranks; see which mpirun is the first in PATH, or use "
           "--transport threads";
  }
  if (failure.kind == RankFailure::Kind::kReported && failure.error != RankError::kRun)
    return failure.text;
  // A rank that has started reports its own errors, so that the cause Open MPI gives is redundant.
  if (failure.phase > RankPhase::kStarting) cause.clear();
  std::string where = "while starting";
  if (failure.phase == RankPhase::kSaving) {
    where = fmt::format("while saving, after step {}", failure.step);
  } else if (failure.phase == RankPhase::kEnding || failure.phase == RankPhase::kDone) {
    where = "while ending";
  } else if (failure.phase == RankPhase::kWorking) {
    where = "at work";
  } else if (failure.phase == RankPhase::kTraining) {
    where = fmt::format("in step {}, at instruction {}", failure.step,
                        instruction(failure.rank, failure.instruction));
  }
  switch (failure.kind) {
    case RankFailure::Kind::kKilled:
      return fmt::format("rank {} was killed by signal {} ({}) {}{}", failure.rank, failure.code,
                         strsignal(failure.code), where, cause);
    case RankFailure::Kind::kExited:
      return fmt::format("rank {} ended with exit code {} {}{}", failure.rank, failure.code, where,
                         cause);
    case RankFailure::Kind::kHung:
      return fmt::format("rank {} has not moved for {:.1f} s {}: {}", failure.rank,
                         failure.silent_seconds, where, StateWords(failure.state));
    default:
      return fmt::format("rank {} failed {}: {}", failure.rank, where, failure.text);
  }
}

}  // namespace heddle
