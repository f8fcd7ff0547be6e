#include "host/supervisor/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace heddle {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr int kLivePort = 60507;
constexpr int kSocket = 7;

// A machine on which one port is served and one descriptor is a socket.
LaunchInfo Read(const Environment& environment) {
  return ReadLaunch({.variable = [&](const char* name) -> const char* {
                       auto found = environment.find(name);
                       return found == environment.end() ? nullptr : found->second.c_str();
                     },
                     .is_socket = [](int descriptor) { return descriptor == kSocket; },
                     .is_served = [](int port) { return port == kLivePort; }});
}

std::string ErrorOf(const Environment& environment) {
  try {
    Read(environment);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Environment operator+(Environment a, const Environment& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Environment kPmix = {{"PMIX_NAMESPACE", "1919942657"}, {"PMIX_RANK", "0"}};
const Environment kLiveServer =
    kPmix + Environment{{"PMIX_SERVER_URI2", "1919942656.0;tcp4://127.0.0.1:60507"}};
const Environment kDeadServer =
    kPmix + Environment{{"PMIX_SERVER_URI2", "1919942656.0;tcp4://127.0.0.1:60508"}};
const Environment kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Environment kTorchrun = {{"RANK", "1"}, {"WORLD_SIZE", "4"}};
const Environment kPmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
const Environment kSlurm = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "9"}};

TEST(Launch, VariablesAloneDoNotMakeARank) {
  struct Case {
    const char* what;
    Environment environment;
    const char* launcher;  // empty: nobody
    const char* stray = "";
  };
  const std::vector<Case> cases = {
      {"nothing", {}, ""},
      {"a rank of mpirun", kMpirun + kLiveServer, "mpirun"},
      {"mpirun, servers not by TCP", kMpirun + kPmix + Environment{{"PMIX_SERVER_URI", "usock:/x"}},
       "mpirun"},
      {"mpirun, unknown kind of server", kMpirun + kPmix, "mpirun"},
      {"mpirun, set by hand", kMpirun, "", "OMPI_COMM_WORLD_SIZE=4"},
      {"a shell that outlived mpirun", kMpirun + kDeadServer, "", "OMPI_COMM_WORLD_SIZE=4"},
      {"torchrun", kTorchrun + Environment{{"TORCHELASTIC_RUN_ID", "x"}}, "torchrun"},
      {"a platform's variables", kTorchrun, "", "WORLD_SIZE=4"},
      {"a platform's variables, for mpirun's ranks", kMpirun + kLiveServer + kTorchrun, "mpirun"},
      {"a platform's variables of one", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, ""},
      {"somebody's RANK", {{"RANK", "colonel"}}, ""},
      {"half of a pair", {{"OMPI_COMM_WORLD_SIZE", "4"}}, "", "OMPI_COMM_WORLD_SIZE=4"},
      {"PMI with a socket", kPmi + Environment{{"PMI_FD", "7"}}, "pmi"},
      {"PMI with a port", kPmi + Environment{{"PMI_PORT", "host:1"}}, "pmi"},
      {"PMI, set by hand", kPmi, "", "PMI_SIZE=4"},
      {"PMI with a closed socket", kPmi + Environment{{"PMI_FD", "8"}}, "", "PMI_SIZE=4"},
      {"PMI with no descriptor", kPmi + Environment{{"PMI_FD", "x"}}, "", "PMI_SIZE=4"},
      {"a task of srun", kSlurm + Environment{{"SLURM_STEP_ID", "0"}}, "srun"},
      {"a task of srun, older name", kSlurm + Environment{{"SLURM_STEPID", "3"}}, "srun"},
      {"the script of sbatch", kSlurm, "", "SLURM_NTASKS=4"},
      {"the batch step", kSlurm + Environment{{"SLURM_STEP_ID", "4294967291"}}, "",
       "SLURM_NTASKS=4"},
      {"the interactive step", kSlurm + Environment{{"SLURM_STEP_ID", "4294967290"}}, "",
       "SLURM_NTASKS=4"},
      {"an allocation's shell", {{"SLURM_NTASKS", "4"}}, "", "SLURM_NTASKS=4"},
      {"mpirun inside an allocation", kSlurm + kMpirun + kLiveServer, "mpirun"},
      {"nonsense of Slurm", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "two"}}, ""},
  };
  for (const Case& c : cases) {
    LaunchInfo launch = Read(c.environment);
    EXPECT_EQ(launch.launcher, c.launcher) << c.what;
    EXPECT_EQ(launch.stray, c.stray) << c.what;
    EXPECT_EQ(launch.stray_ranks, *c.stray == '\0' ? 1 : 4) << c.what;
    EXPECT_EQ(launch.rank, *c.launcher == '\0' ? 0 : 1) << c.what;
    EXPECT_EQ(launch.size, *c.launcher == '\0' ? 1 : 4) << c.what;
  }
}

TEST(Launch, KnowsLocalRanks) {
  EXPECT_EQ(Read(kMpirun + kLiveServer).local_rank, -1);
  EXPECT_EQ(
      Read(kMpirun + kLiveServer + Environment{{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}}).local_rank, 3);
  EXPECT_EQ(Read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMI_FD", "7"}}).local_rank, 0);
  EXPECT_EQ(Read(kSlurm + Environment{{"SLURM_STEP_ID", "0"}, {"SLURM_LOCALID", "2"}}).local_rank,
            2);
}

TEST(Launch, RefusesContradictionsOfALauncher) {
  const Environment torchrun = {{"TORCHELASTIC_RUN_ID", "x"}}, step = {{"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(ErrorOf(torchrun + Environment{{"RANK", "3"}, {"WORLD_SIZE", "3"}}),
            "RANK=3 in the environment is not below WORLD_SIZE=3");
  for (const char* bad : {"", "two", "1 ", "0x1", "1.5", "99999999999", "-1"}) {
    EXPECT_EQ(
        ErrorOf(step + Environment{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", bad}}),
        "SLURM_NTASKS='" + std::string(bad) +
            "' in the environment is not a number from 0 to 2147483647; unset it to run one rank");
  }
  EXPECT_EQ(ErrorOf(torchrun + Environment{{"RANK", "0"}}),
            "RANK=0 in the environment, but WORLD_SIZE is not set; set both or neither");
  EXPECT_EQ(ErrorOf(kLiveServer + Environment{{"OMPI_COMM_WORLD_SIZE", "4"}}),
            "OMPI_COMM_WORLD_SIZE=4 in the environment, but OMPI_COMM_WORLD_RANK is not set; set "
            "both or neither");
  EXPECT_EQ(
      ErrorOf(torchrun + Environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}),
      "LOCAL_RANK=2 in the environment is not below WORLD_SIZE=2");
  EXPECT_EQ(
      ErrorOf(kMpirun + kLiveServer + torchrun + Environment{{"RANK", "0"}, {"WORLD_SIZE", "4"}}),
      "OMPI_COMM_WORLD_RANK=1 and RANK=0 in the environment disagree; launch with mpirun or "
      "with torchrun, not both");
  EXPECT_EQ(
      ErrorOf(kMpirun + kLiveServer + torchrun + Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
      "OMPI_COMM_WORLD_SIZE=4 and WORLD_SIZE=2 in the environment disagree; launch with "
      "mpirun or with torchrun, not both");
}

TEST(Launch, RanksOfOurOwnInheritNoLauncher) {
  for (const char* name : {"RANK", "WORLD_SIZE", "PMI_RANK", "PMIX_SERVER_URI2", "SLURM_JOB_ID",
                           "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess"})
    EXPECT_TRUE(IsLaunchVariable(name)) << name;
  for (const char* name : {"PATH", "RANKS", "OMPI_MCA_btl", "CUDA_VISIBLE_DEVICES", "HEDDLE_LOG"})
    EXPECT_FALSE(IsLaunchVariable(name)) << name;
}

TEST(Launch, BuildsTheCommandOfMpirun) {
  const std::vector<std::string> argv = {"heddle", "train", "a b.json"};
  MpirunLaunch launch = MpirunCommand(4, argv, {.root = false});
  EXPECT_EQ(launch.environment,
            std::vector<std::string>{"OMPI_MCA_btl_vader_single_copy_mechanism=none"});
  EXPECT_EQ(launch.command, (std::vector<std::string>{"mpirun",
                                                      "--oversubscribe",
                                                      "--bind-to",
                                                      "none",
                                                      "--mca",
                                                      "pml",
                                                      "ob1",
                                                      "--mca",
                                                      "btl",
                                                      "self,vader",
                                                      "--mca",
                                                      "odls_base_sigkill_timeout",
                                                      "0",
                                                      "--mca",
                                                      "odls_base_num_threads",
                                                      "0",
                                                      "-np",
                                                      "4",
                                                      "heddle",
                                                      "train",
                                                      "a b.json"}));
  launch = MpirunCommand(1, argv, {.root = true});
  EXPECT_EQ(launch.environment[1], "OMPI_ALLOW_RUN_AS_ROOT=1");
  EXPECT_EQ(launch.environment[2], "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
}

}  // namespace
}  // namespace heddle
