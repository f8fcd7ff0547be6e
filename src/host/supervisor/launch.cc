#include "host/supervisor/launch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace heddle {
namespace {

template <class Number>
std::optional<Number> WholeNumber(std::string_view text) {
  Number value{};
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// --- Evidence that a launcher started this process and is still running.

// The port of a server's address: 60507 of "1919942656.0;tcp4://127.0.0.1:60507". Nothing where it does not use TCP.
std::optional<int> PortOf(std::string_view uri) {
  size_t tcp = uri.find("tcp"), colon = uri.rfind(':');
  if (tcp == uri.npos || colon == uri.npos || colon < tcp) return std::nullopt;
  return WholeNumber<int>(uri.substr(colon + 1));
}

// The PMIx server of an mpirun runs as long as its ranks do.
bool StartedByMpirun(const LaunchProbe& probe) {
  if (probe.variable("PMIX_NAMESPACE") == nullptr || probe.variable("PMIX_RANK") == nullptr)
    return false;
  bool dead = false;
  for (const char* name :
       {"PMIX_SERVER_URI51", "PMIX_SERVER_URI5", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
        "PMIX_SERVER_URI3", "PMIX_SERVER_URI21", "PMIX_SERVER_URI2", "PMIX_SERVER_URI"}) {
    const char* uri = probe.variable(name);
    if (uri == nullptr) continue;
    std::optional<int> port = PortOf(uri);
    if (!port || probe.is_served(*port)) return true;
    dead = true;
  }
  return !dead;
}

bool StartedByTorchrun(const LaunchProbe& probe) {
  return probe.variable("TORCHELASTIC_RUN_ID") != nullptr;
}

bool StartedByPmi(const LaunchProbe& probe) {
  if (const char* text = probe.variable("PMI_FD")) {
    std::optional<int> descriptor = WholeNumber<int>(text);
    return descriptor && probe.is_socket(*descriptor);
  }
  return probe.variable("PMI_PORT") != nullptr || probe.variable("PMI_CONTROL_PORT") != nullptr;
}

// Slurm numbers the steps that srun starts from 0. The batch script of a job and the shell of an allocation have no
// step number, or one of the reserved numbers just below 2^32.
bool StartedBySrun(const LaunchProbe& probe) {
  constexpr int64_t kFirstReservedStep = 0xfffffff0;
  const char* text = probe.variable("SLURM_STEP_ID");
  if (text == nullptr) text = probe.variable("SLURM_STEPID");
  std::optional<int64_t> step = text == nullptr ? std::nullopt : WholeNumber<int64_t>(text);
  return step && *step < kFirstReservedStep;
}

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;  // may be null
  bool (*started)(const LaunchProbe& probe);
};

constexpr std::array<Launcher, 4> kLaunchers = {{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     &StartedByMpirun},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", &StartedByTorchrun},
    {"pmi", "PMI_RANK", "PMI_SIZE", nullptr, &StartedByPmi},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", &StartedBySrun},
}};
constexpr const Launcher& kMpirun = kLaunchers[0];
constexpr const Launcher& kTorchrun = kLaunchers[1];

std::optional<int> ReadNumber(const LaunchProbe& probe, const char* name) {
  const char* text = name == nullptr ? nullptr : probe.variable(name);
  if (text == nullptr) return std::nullopt;
  std::optional<int> value = WholeNumber<int>(text);
  if (!value) {
    ThrowInput(
        "{}='{}' in the environment is not a number from 0 to 2147483647; unset it to run one rank",
        name, text);
  }
  return value;
}

// What the variables of a launcher say; nothing where it did not start this process.
std::optional<LaunchInfo> Read(const LaunchProbe& probe, const Launcher& launcher) {
  if (probe.variable(launcher.rank) == nullptr && probe.variable(launcher.size) == nullptr)
    return std::nullopt;
  if (!launcher.started(probe)) return std::nullopt;
  std::optional<int> rank = ReadNumber(probe, launcher.rank);
  std::optional<int> size = ReadNumber(probe, launcher.size);
  if (!rank || !size) {
    ThrowInput("{}={} in the environment, but {} is not set; set both or neither",
               rank ? launcher.rank : launcher.size, rank ? *rank : *size,
               rank ? launcher.size : launcher.rank);
  }
  if (*rank >= *size) {
    ThrowInput("{}={} in the environment is not below {}={}", launcher.rank, *rank, launcher.size,
               *size);
  }
  const int local_rank = ReadNumber(probe, launcher.local_rank).value_or(*size == 1 ? 0 : -1);
  if (local_rank >= *size) {
    ThrowInput("{}={} in the environment is not below {}={}", launcher.local_rank, local_rank,
               launcher.size, *size);
  }
  return LaunchInfo{
      .rank = *rank, .size = *size, .local_rank = local_rank, .launcher = launcher.name};
}

void RequireAgreement(const LaunchInfo& mpirun, const LaunchInfo& torchrun) {
  auto refuse = [](const char* ours, int our, const char* theirs, int their) {
    ThrowInput(
        "{}={} and {}={} in the environment disagree; launch with mpirun or with torchrun, not "
        "both",
        ours, our, theirs, their);
  };
  if (mpirun.rank != torchrun.rank)
    refuse(kMpirun.rank, mpirun.rank, kTorchrun.rank, torchrun.rank);
  if (mpirun.size != torchrun.size)
    refuse(kMpirun.size, mpirun.size, kTorchrun.size, torchrun.size);
}

// Whether a TCP socket of this process's network listens on a port. Reads the kernel's table and does not connect.
bool IsServed(int port) {
  constexpr const char* kListening = "0A";
  bool readable = false;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    readable = std::getline(table, line).good() || readable;  // the heading
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state != kListening || local.rfind(':') == std::string::npos) continue;
      if (std::strtol(local.c_str() + local.rfind(':') + 1, nullptr, 16) == port) return true;
    }
  }
  return !readable;
}

bool IsSocket(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

LaunchInfo ReadLaunch(const LaunchProbe& probe) {
  std::optional<LaunchInfo> mpirun = Read(probe, kMpirun), torchrun = Read(probe, kTorchrun);
  if (mpirun && torchrun) RequireAgreement(*mpirun, *torchrun);
  LaunchInfo nobody;
  for (const Launcher& launcher : kLaunchers) {
    if (std::optional<LaunchInfo> found = Read(probe, launcher)) return *found;
    const char* size = probe.variable(launcher.size);
    std::optional<int> ranks = size == nullptr ? std::nullopt : WholeNumber<int>(size);
    if (!ranks || *ranks < 2 || nobody.stray_ranks > 1) continue;
    nobody.stray = fmt::format("{}={}", launcher.size, *ranks);
    nobody.stray_launcher = launcher.name;
    nobody.stray_ranks = *ranks;
  }
  return nobody;
}

LaunchInfo ReadLaunch() {
  return ReadLaunch({.variable = [](const char* name) -> const char* { return std::getenv(name); },
                     .is_socket = &IsSocket,
                     .is_served = &IsServed});
}

std::string SizeVariable(const std::string& launcher) {
  for (const Launcher& known : kLaunchers) {
    if (launcher == known.name) return known.size;
  }
  return "";
}

bool IsLaunchVariable(std::string_view name) {
  for (const char* whole :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PE_HOSTFILE",
        "LOADLBATCH", "OMPI_UNIVERSE_SIZE", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_NUM_APP_CTX",
        "OMPI_FIRST_RANKS", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION"}) {
    if (name == whole) return true;
  }
  // OMPI_MCA_ alone is not listed: settings of users begin with it, as those do that mpirun gives to its ranks.
  for (const char* beginning :
       {"TORCHELASTIC_", "PMI_", "PMI2_", "PMIX_", "PRTE_", "SLURM_", "SLURMD_", "PBS_", "LSB_",
        "ALPS_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"}) {
    if (name.starts_with(beginning)) return true;
  }
  return false;
}

RankMode ModeOf(const LaunchInfo& launch, int64_t ranks, const std::string& transport) {
  if (launch.stray_ranks > 1 && launch.stray_ranks != ranks) {
    LogWarn(
        "{} in the environment is ignored: {} did not start this process, which runs {} rank{}; "
        "give --np {} for {}",
        launch.stray, launch.stray_launcher, ranks, ranks == 1 ? "" : "s", launch.stray_ranks,
        launch.stray_ranks);
  }
  if (launch.launcher.empty() || (launch.size == 1 && ranks == 1) ||
      (launch.size == 1 && launch.launcher == "torchrun")) {
    return ranks == 1 || transport == "threads" ? RankMode::kHere : RankMode::kLaunch;
  }
  if (launch.launcher == "torchrun") {
    ThrowInput(
        "started by torchrun, which brings no MPI: start heddle without it and with --np {}, or "
        "with mpirun or srun",
        ranks);
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

MpirunLaunch MpirunCommand(int ranks, std::span<const std::string> argv,
                           const MpirunOptions& options) {
  HEDDLE_CHECK_GT(ranks, 0);
  HEDDLE_CHECK(!argv.empty());
  MpirunLaunch launch;
  // Containers often forbid reading another process's memory, and Open MPI would warn about that on every rank.
  launch.environment = {"OMPI_MCA_btl_vader_single_copy_mechanism=none"};
  if (options.root) {
    launch.environment.insert(launch.environment.end(),
                              {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }
  launch.command = {"mpirun", "--oversubscribe", "--bind-to", "none"};
  // pml, btl: shared memory only, so that no rank listens on the network. sigkill_timeout: when a rank dies, the others
  // are killed at once and not after a second. num_threads: mpirun's main thread starts the ranks, so that they are
  // killed when mpirun ends (PR_SET_PDEATHSIG is about the thread that started a process).
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
