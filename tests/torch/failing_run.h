// Runs `heddle train` in the background, with ranks that can be killed and stopped, and an undisturbed run to compare
// with.
//
//   std::vector<double> calm = CalmLosses(train);
//   FailingRun run(train + " --restarts 1 --checkpoint " + folder / "c");
//   ASSERT_TRUE(run.WaitForSteps(10)) << run.err();
//   kill(run.Ranks()[1], SIGKILL);
//   ASSERT_EQ(run.Wait(), 0) << run.err();
//   EXPECT_EQ(LossesOf(run.out()), calm);
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../run_binary.h"
#include "base/json.h"
#include "host/supervisor/child.h"

namespace heddle {

inline const std::string kFailingModel = "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128,batch=12";

inline int64_t Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

inline std::vector<double> LossesOf(const std::string& out) {
  return ParseJson(out, "output")["losses"].get<std::vector<double>>();
}

// The losses of an undisturbed `heddle train` with these arguments and --json. Empty if it fails.
inline std::vector<double> CalmLosses(const std::string& arguments) {
  RunOutput calm = RunHeddle("train " + arguments);
  EXPECT_EQ(calm.status, 0) << calm.err;
  return calm.status == 0 ? LossesOf(calm.out) : std::vector<double>();
}

// A command line for `heddle`. `before` precedes it in the shell ("NAME=VALUE", "ulimit ...;").
inline RunOutput RunAfter(const std::string& before, const std::string& arguments) {
  TempFolder folder;
  std::string command = before + " " HEDDLE_BINARY " " + arguments + " >'" + folder / "out" +
                        "' 2>'" + folder / "err" + "' </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Slurp(folder / "out"),
          Slurp(folder / "err")};
}

class FailingRun {
 public:
  using Clock = std::chrono::steady_clock;

  // `arguments` follow `train` and are parsed by the shell.
  explicit FailingRun(const std::string& arguments) {
    std::string command = "exec " HEDDLE_BINARY " train " + arguments + " --metrics '" +
                          folder_ / "steps" + "' >'" + folder_ / "out" + "' 2>'" + folder_ / "err" +
                          "' </dev/null";
    pid_ = fork();
    if (pid_ == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  ~FailingRun() {
    if (pid_ > 0) kill(pid_, SIGTERM);
    Wait();
  }
  FailingRun(const FailingRun&) = delete;
  FailingRun& operator=(const FailingRun&) = delete;

  pid_t pid() const { return pid_; }
  std::string err() const { return Slurp(folder_ / "err"); }
  std::string out() const { return Slurp(folder_ / "out"); }
  int64_t steps() const {
    return Lines(Slurp(folder_ / "steps"));
  }  // finished steps, including repeated ones

  // The current processes of its ranks, by rank.
  std::map<int, pid_t> Ranks() const {
    std::map<int, pid_t> ranks;
    for (pid_t launcher : ChildrenOf(pid_)) {
      for (pid_t pid : ChildrenOf(launcher)) {
        for (int rank = 0; rank < 8; ++rank) {
          if (HasVariable(pid, "OMPI_COMM_WORLD_RANK=" + std::to_string(rank))) ranks[rank] = pid;
        }
      }
    }
    return ranks;
  }

  template <class Condition>
  bool WaitUntil(const Condition& condition, double seconds = 60) {
    Clock::time_point until = Clock::now() + std::chrono::milliseconds(int(1000 * seconds));
    while (!condition()) {
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  bool WaitForSteps(int64_t count) {
    return WaitUntil([&] { return steps() >= count; });
  }

  bool HasEnded() {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return pid_ < 0;
  }
  // Returns its exit code, or 128 + signal if it was killed.
  int Wait() {
    EXPECT_TRUE(WaitUntil([&] { return HasEnded(); }, 300));
    return status_;
  }

 private:
  TempFolder folder_;
  pid_t pid_ = -1;
  int status_ = -1;
};

inline bool IsGone(pid_t pid) { return ProcessState(pid) == 'X' || ProcessState(pid) == 'Z'; }

}  // namespace heddle
