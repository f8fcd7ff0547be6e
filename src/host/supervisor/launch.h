// Who launched this process, and how heddle launches ranks itself. Knows environment variables and command lines
// only; needs neither MPI nor libtorch.
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
  std::string launcher;  // "mpirun", "torchrun", "pmi", "srun"; empty: nobody, one rank
  // Variables of a launcher that did not start this process, such as "SLURM_NTASKS=2", and the number of ranks they
  // name. They are ignored.
  std::string stray = {};
  std::string stray_launcher = {};
  int stray_ranks = 1;
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

// What is known of a process from outside, so that tests can state it.
struct LaunchProbe {
  std::function<const char*(const char* name)>
      variable;                                   // as std::getenv: null where it is not set
  std::function<bool(int descriptor)> is_socket;  // an open file descriptor that is one
  std::function<bool(int port)>
      is_served;  // whether a process of this machine listens on it; true if unknown
};

// Which launcher started this process as a rank, the first of these that did:
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
// Variables alone do not make a rank: the script of an sbatch job has SLURM_PROCID and SLURM_NTASKS, shells pass on
// those of an mpirun that ended long ago, and platforms set RANK and WORLD_SIZE. These are `stray`.
// Of a launcher that did start it: InputError with the variable and its value where one is not a number, half of a
// pair is missing, a rank is not below its size, or mpirun and torchrun disagree.
LaunchInfo ReadLaunch(const LaunchProbe& probe);
LaunchInfo ReadLaunch();  // of this process

// The variable that says how many ranks a launcher started: "PMI_SIZE".
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

// Whether a variable says who launched a process, or is of an allocation that mpirun would look into. The ranks that
// heddle starts itself inherit none of them: they are on this machine, and their mpirun tells them who they are.
bool IsLaunchVariable(std::string_view name);

struct MpirunOptions {
  bool root = false;  // Open MPI refuses to run as root unless told twice
  std::string folder =
      {};  // for what Open MPI leaves behind when it is killed; empty: where it likes
};

// What runs `argv` as so many ranks on this machine. Ranks are not bound to cores: kernels have threads of their own.
struct MpirunLaunch {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=VALUE
};
MpirunLaunch MpirunCommand(int ranks, std::span<const std::string> argv,
                           const MpirunOptions& options);

}  // namespace heddle
