#include "runtime/transport/launch.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;  // may be null
  bool size_stands_alone = false;
};

constexpr Launcher kMpirun = {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                              "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Launcher kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Launcher kPmi = {"pmi", "PMI_RANK", "PMI_SIZE", nullptr};
constexpr Launcher kSrun = {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", true};

std::optional<int> ReadNumber(const EnvironmentLookup& lookup, const char* name) {
  const char* text = name == nullptr ? nullptr : lookup(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    ThrowInput(
        "{}='{}' in the environment is not a number from 0 to 2147483647; unset it to run one rank",
        name, text);
  }
  return value;
}

std::optional<LaunchInfo> Read(const EnvironmentLookup& lookup, const Launcher& launcher) {
  std::optional<int> rank = ReadNumber(lookup, launcher.rank);
  std::optional<int> size = ReadNumber(lookup, launcher.size);
  if (!rank && (!size || launcher.size_stands_alone)) return std::nullopt;
  if (!rank || !size) {
    ThrowInput("{}={} in the environment, but {} is not set; set both or neither",
               rank ? launcher.rank : launcher.size, rank ? *rank : *size,
               rank ? launcher.size : launcher.rank);
  }
  if (*rank >= *size) {
    ThrowInput("{}={} in the environment is not below {}={}", launcher.rank, *rank, launcher.size,
               *size);
  }
  const int local_rank = ReadNumber(lookup, launcher.local_rank).value_or(*size == 1 ? 0 : -1);
  if (local_rank >= *size) {
    ThrowInput("{}={} in the environment is not below {}={}", launcher.local_rank, local_rank,
               launcher.size, *size);
  }
  return LaunchInfo{
      .rank = *rank, .size = *size, .local_rank = local_rank, .launcher = launcher.name};
}

}  // namespace

LaunchInfo ReadLaunch(const EnvironmentLookup& lookup) {
  std::optional<LaunchInfo> mpirun = Read(lookup, kMpirun);
  std::optional<LaunchInfo> torchrun = Read(lookup, kTorchrun);
  if (mpirun && torchrun) {
    if (mpirun->rank != torchrun->rank) {
      ThrowInput(
          "{}={} and {}={} in the environment disagree; launch with mpirun or with torchrun, not "
          "both",
          kMpirun.rank, mpirun->rank, kTorchrun.rank, torchrun->rank);
    }
    if (mpirun->size != torchrun->size) {
      ThrowInput(
          "{}={} and {}={} in the environment disagree; launch with mpirun or with torchrun, not "
          "both",
          kMpirun.size, mpirun->size, kTorchrun.size, torchrun->size);
    }
  }
  if (mpirun) return *mpirun;
  if (torchrun) return *torchrun;
  if (std::optional<LaunchInfo> pmi = Read(lookup, kPmi)) return *pmi;
  return Read(lookup, kSrun).value_or(LaunchInfo{});
}

LaunchInfo ReadLaunch() {
  return ReadLaunch([](const char* name) -> const char* { return std::getenv(name); });
}

MpirunLaunch MpirunCommand(int ranks, std::span<const std::string> argv,
                           const MpirunOptions& options) {
  HEDDLE_CHECK_GT(ranks, 0);
  HEDDLE_CHECK(!argv.empty());
  MpirunLaunch launch;
  // Containers often forbid reading another process's memory, and Open MPI says so for every rank.
  launch.environment = {"OMPI_MCA_btl_vader_single_copy_mechanism=none"};
  if (options.root) {
    launch.environment.insert(launch.environment.end(),
                              {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }
  launch.command = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  // Shared memory alone, so that no rank listens for others. When a rank dies the others follow at once, not after a
  // second. Ranks are started by mpirun's main thread, whose end is theirs.
  constexpr std::array<std::pair<const char*, const char*>, 4> kSettings = {
      {{"pml", "ob1"},
       {"btl", "self,vader"},
       {"odls_base_sigkill_timeout", "0"},
       {"odls_base_num_threads", "0"}}};
  for (const auto& [name, value] : kSettings)
    launch.command.insert(launch.command.end(), {"--mca", name, value});
  if (!options.folder.empty()) {
    launch.command.insert(launch.command.end(),
                          {"--mca", "orte_tmpdir_base", options.folder, "--mca",
                           "btl_vader_backing_directory", options.folder});
  }
  launch.command.insert(launch.command.end(), {"-np", std::to_string(ranks)});
  launch.command.insert(launch.command.end(), argv.begin(), argv.end());
  return launch;
}

}  // namespace heddle
