// Starting the ranks of `heddle train`, by heddle or by a launcher.
#include "failing_run.h"

namespace heddle {
namespace {

const std::string kTiny = "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32,batch=4";

TEST(LaunchCli, VariablesOfNoLauncherStartNothingAndAreInNobodysWay) {
  struct Case {
    std::string variables, arguments;
    int status;
    std::string err;  // beginning of standard error; empty: none
  };
  const std::string slurm =
      "SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_JOB_ID=1 SLURM_NNODES=1 "
      "SLURM_JOB_NODELIST=none SLURM_TASKS_PER_NODE=2";
  const std::vector<Case> cases = {
      {slurm + " PMI_RANK=0 PMI_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
               "OMPI_MCA_ess=^singleton RANK=0 WORLD_SIZE=2",
       "--dp 2", 0, ""},
      {slurm, "", 0,
       "heddle: warning: SLURM_NTASKS=2 in the environment is ignored: srun did not "},
      {"PMI_PORT=none:1 PMI_RANK=0 PMI_SIZE=2", "--dp 2", 2,
       "heddle: PMI_SIZE=2 in the environment, but MPI has 1 rank: "},
      {"TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=2", "--np 2", 2, "heddle: started by torchrun, "},
  };
  for (const Case& c : cases) {
    RunOutput run = RunAfter(c.variables, "train " + kTiny + " --steps 1 " + c.arguments);
    EXPECT_EQ(run.status, c.status) << c.variables << run.err;
    EXPECT_EQ(Lines(run.err), c.err.empty() ? 0 : 1) << run.err;
    EXPECT_TRUE(run.err.starts_with(c.err)) << run.err;
  }
}

// A folder in TMPDIR whose lock is free stands for the leftover of a killed fleet.
TEST(LaunchCli, AnMpirunThatRunsNothingIsAFailureAndWhatWasLeftGoes) {
  TempFolder folder;
  std::filesystem::create_symlink("/bin/true", folder / "mpirun");
  std::string path = "TMPDIR='" + folder / "" + "' PATH='" + folder / "" + "':$PATH";
  for (const std::string& arguments :
       {"train " + kTiny + " --steps 1 --dp 2",
        "calibrate --small --ranks 2 -o '" + folder / "profile.json" + "'"}) {
    std::filesystem::create_directories(folder / "heddle-run-abcdef/mpi");
    RunOutput run = RunAfter(path, arguments);
    EXPECT_FALSE(std::filesystem::exists(folder / "heddle-run-abcdef"));
    EXPECT_EQ(run.status, 1) << arguments << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(Lines(run.err), 1) << run.err;
    EXPECT_TRUE(run.err.starts_with("heddle: mpirun ended without running the ranks")) << run.err;
  }
}

}  // namespace
}  // namespace heddle
