#include "runtime/transport/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace heddle {
namespace {

using Environment = std::map<std::string, std::string>;

LaunchInfo Read(const Environment& environment) {
  return ReadLaunch([&](const char* name) -> const char* {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string ErrorOf(const Environment& environment) {
  try {
    Read(environment);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, KnowsItsLaunchers) {
  EXPECT_EQ(Read({}), LaunchInfo{});
  EXPECT_EQ(Read({{"OMPI_COMM_WORLD_RANK", "5"},
                  {"OMPI_COMM_WORLD_SIZE", "8"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
            (LaunchInfo{5, 8, 1, "mpirun"}));
  EXPECT_EQ(Read({{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}}),
            (LaunchInfo{2, 3, 0, "torchrun"}));
  EXPECT_EQ(Read({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}), (LaunchInfo{2, 3, -1, "pmi"}));
  EXPECT_EQ(Read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), (LaunchInfo{0, 1, 0, "pmi"}));
  EXPECT_EQ(Read({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "3"}}),
            (LaunchInfo{7, 8, 3, "srun"}));
}

TEST(Launch, AnAllocationsShellLaunchesNothing) {
  EXPECT_EQ(Read({{"SLURM_NTASKS", "8"}}), LaunchInfo{});
  EXPECT_EQ(Read({{"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "8"},
                  {"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "2"}}),
            (LaunchInfo{1, 2, -1, "mpirun"}));
}

TEST(Launch, RefusesContradictions) {
  EXPECT_EQ(ErrorOf({{"RANK", "3"}, {"WORLD_SIZE", "3"}}),
            "RANK=3 in the environment is not below WORLD_SIZE=3");
  EXPECT_EQ(ErrorOf({{"PMI_RANK", "-1"}, {"PMI_SIZE", "3"}}),
            "PMI_RANK='-1' in the environment is not a number from 0 to 2147483647; unset it to "
            "run one rank");
  for (const char* bad : {"", "two", "1 ", "0x1", "1.5", "99999999999"}) {
    EXPECT_EQ(
        ErrorOf({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", bad}}),
        "SLURM_NTASKS='" + std::string(bad) +
            "' in the environment is not a number from 0 to 2147483647; unset it to run one rank");
  }
  EXPECT_EQ(ErrorOf({{"RANK", "0"}}),
            "RANK=0 in the environment, but WORLD_SIZE is not set; set both or neither");
  EXPECT_EQ(ErrorOf({{"OMPI_COMM_WORLD_SIZE", "4"}}),
            "OMPI_COMM_WORLD_SIZE=4 in the environment, but OMPI_COMM_WORLD_RANK is not set; set "
            "both or neither");
  EXPECT_EQ(ErrorOf({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}),
            "LOCAL_RANK=2 in the environment is not below WORLD_SIZE=2");
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  Environment both = mpirun;
  both.insert({{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(ErrorOf(both),
            "OMPI_COMM_WORLD_RANK=1 and RANK=0 in the environment disagree; launch with mpirun or "
            "with torchrun, not "
            "both");
  both["RANK"] = "1";
  EXPECT_EQ(Read(both), (LaunchInfo{1, 4, -1, "mpirun"}));
  both["WORLD_SIZE"] = "2";
  EXPECT_EQ(ErrorOf(both),
            "OMPI_COMM_WORLD_SIZE=4 and WORLD_SIZE=2 in the environment disagree; launch with "
            "mpirun or with torchrun, "
            "not both");
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
