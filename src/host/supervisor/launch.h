// Who launched this process, and the command with which heddle launches ranks itself. Works on environment variables
// and command lines only; needs neither MPI nor libtorch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;    // among the ranks of this machine; -1 where the launcher does not say
  std::string launcher;  // "mpirun", "torchrun", "pmi", "srun"; empty: none, this is the only rank
  // A variable of a launcher that did not start this process, such as "SLURM_NTASKS=2", that launcher, and the number
  // of ranks the variable names. Such variables are ignored.
  std::string stray = {};
  std::string stray_launcher = {};
  int stray_ranks = 1;
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

// Queries about this process and its machine; tests replace them.
struct LaunchProbe {
  // As std::getenv: null where the variable is not set.
  std::function<const char*(const char* name)> variable;
  // Whether it is an open file descriptor of a socket.
  std::function<bool(int descriptor)> is_socket;
  // Whether a process of this machine listens on the port; true where that is unknown.
  std::function<bool(int port)> is_served;
};

// Which launcher started this process as a rank: the first of these whose condition holds.
//
//   launcher   rank                  size                  local rank                  started it if
//   mpirun     OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE  OMPI_COMM_WORLD_LOCAL_RANK  PMIX_NAMESPACE is set and the
//                                                                                      server of PMIX_SERVER_URI* lives
//   torchrun   RANK                  WORLD_SIZE            LOCAL_RANK                  TORCHELASTIC_RUN_ID is set
//   pmi        PMI_RANK              PMI_SIZE                                          PMI_FD is an open socket, or
//                                                                                      PMI_PORT or PMI_CONTROL_PORT is set
//   srun       SLURM_PROCID          SLURM_NTASKS          SLURM_LOCALID               SLURM_STEP_ID is that of a step
//                                                                                      of tasks
//
// Rank and size alone prove nothing: the script of an sbatch job has SLURM_PROCID and SLURM_NTASKS, a shell may inherit
// the variables of an mpirun that has ended, and platforms set RANK and WORLD_SIZE. Such variables are `stray`.
// Throws InputError, with the variable and its value, where a launcher did start this process and a variable is not a
// number, half of a pair is missing, a rank is not below its size, or mpirun and torchrun disagree.
LaunchInfo ReadLaunch(const LaunchProbe& probe);
LaunchInfo ReadLaunch();  // of this process

// The variable with which a launcher states the number of ranks: "PMI_SIZE".
std::string SizeVariable(const std::string& launcher);

// Where the ranks of a command run.
enum class RankMode : uint8_t {
  kHere,      // all of them in this process
  kLaunch,    // in processes that heddle starts with mpirun
  kLaunched,  // this process is one of them
};
// Throws InputError where a launcher started another number of ranks than `ranks`, or is one that brings no MPI. Warns
// about stray variables that name another number of ranks.
RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport);

// Whether a variable states who launched a process, or belongs to an allocation that mpirun would use. Ranks that
// heddle starts inherit none of these: they run on this machine and get new ones from their mpirun.
bool IsLaunchVariable(std::string_view name);

struct MpirunOptions {
  bool root = false;  // allow running as root, which Open MPI refuses by default
  // Where Open MPI puts its temporary files, which it leaves behind when it is killed; empty: its default.
  std::string folder = {};
};

// The command that runs `argv` as `ranks` ranks on this machine. Ranks are not bound to cores: kernels use several
// threads.
struct MpirunLaunch {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=VALUE
};
MpirunLaunch MpirunCommand(int ranks, std::span<const std::string> argv,
                           const MpirunOptions& options);

}  // namespace heddle
