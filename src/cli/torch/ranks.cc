#include "cli/torch/ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

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
  std::vector<char> self(4096);
  ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length > 0 && !words.empty())
    words[0] = std::string(self.data(), static_cast<size_t>(length));
  return words;
}

}  // namespace

RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport) {
  if (launch.launcher.empty() || (launch.size == 1 && ranks == 1)) {
    return ranks == 1 || transport == "threads" ? RankMode::kHere : RankMode::kLaunch;
  }
  if (launch.launcher == "torchrun") {
    ThrowInput(
        "started by torchrun, which brings no MPI: start {} ranks with mpirun or srun, or give "
        "--np {}",
        ranks, ranks);
  }
  if (launch.size != ranks) {
    ThrowInput("the plan is for {} ranks, but {} started {}: give that many, or another plan",
               ranks, launch.launcher, launch.size);
  }
  if (transport == "threads") {
    ThrowInput("--transport threads under {}: leave one of them out", launch.launcher);
  }
  return RankMode::kLaunched;
}

int LaunchRanks(int64_t ranks) {
  std::vector<std::string> command = MpirunCommand(static_cast<int>(ranks), CommandLine());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    execvp(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) ThrowRun("mpirun could not be started");
  if (WIFSIGNALED(status)) ThrowRun("mpirun was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == 127)
    ThrowInput("mpirun is not installed: install Open MPI, or use --transport threads");
  return WEXITSTATUS(status);
}

int RunRanksHere(RankMode mode, int64_t ranks, const RankOptions& options,
                 const std::function<void(Transport&)>& body) {
  TransportOptions transport{.deadline_seconds = options.deadline_seconds};
  if (mode == RankMode::kHere) {
    RunRanks(static_cast<int>(ranks), body, transport);
    return 0;
  }
  int status = 0;
  int session = RunMpi(
      [&](Transport& rank) {
        try {
          body(rank);
        } catch (const CommonRunError& error) {
          if (rank.rank() == 0) std::fprintf(stderr, "heddle: %s\n", error.what());
          status = 1;
        }
      },
      transport);
  return session != 0 ? session : status;
}

}  // namespace heddle
