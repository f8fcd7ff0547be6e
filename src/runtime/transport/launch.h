// Who launched this process, and how heddle launches ranks itself. Knows environment variables and command lines
// only; needs neither MPI nor libtorch.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace heddle {

struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;    // among the ranks of this machine; -1 where the launcher does not say
  std::string launcher;  // "mpirun", "torchrun", "pmi", "srun"; empty: nobody, one rank
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

// Like std::getenv: null where a variable is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// What the launcher's variables say, the first of these that is there:
//
//   launcher   rank                  size                  local rank
//   mpirun     OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE  OMPI_COMM_WORLD_LOCAL_RANK
//   torchrun   RANK                  WORLD_SIZE            LOCAL_RANK
//   pmi        PMI_RANK              PMI_SIZE
//   srun       SLURM_PROCID          SLURM_NTASKS          SLURM_LOCALID
//
// InputError with the variable and its value where one is not a number, half of a pair is missing, a rank is not
// below its size, or mpirun and torchrun disagree. Slurm comes last and may differ, for the shell of an allocation
// has its variables too and passes them on to other launchers; SLURM_NTASKS alone is such a shell.
LaunchInfo ReadLaunch(const EnvironmentLookup& lookup);
LaunchInfo ReadLaunch();  // of this process

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
