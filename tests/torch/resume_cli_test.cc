// A run reports what it loses, skips or changes: checkpoints of another experiment, files that cannot be written,
// gradients that are not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../run_binary.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "graph/safetensors.h"

namespace heddle {
namespace {

using testing::HasSubstr;

const std::string kResumed = "gpt:layers=1,hidden=24,heads=4,seq=8,vocab=256,batch=4";

std::string Text(const TempFolder& folder, const std::string& name, char letter) {
  std::ofstream(folder / name) << std::string(400, letter);
  return folder / name;
}

// The lines of a text, without progress lines.
int64_t LinesOf(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(Resume, AnotherExperimentIsRefusedUnlessOverridden) {
  TempFolder folder;
  std::string data = Text(folder, "a.txt", 'a'), other = Text(folder, "b.txt", 'b');
  std::string saved = " --checkpoint " + folder / "run" + " --threads 1";
  std::string train = "train " + kResumed + saved;
  RunOutput first = RunHeddle(train + " --steps 2 --data " + data);
  ASSERT_EQ(first.status, 0) << first.err;
  std::string resume = train + " --resume --steps 3 ";
  ExpectRefused(resume + "--data " + other + " --lr 0.5 --seed 3 --optimizer sgd --clip-norm 1",
                {"step-00000002 is of another experiment", "lr was 0.001 and is 0.5",
                 "seed was 0 and is 3", "data was " + data, "optimizer was adamw and is sgd",
                 "clip norm was 0.0 and is 1.0", "--override"});
  ExpectRefused(train + " --override --steps 3", {"--override", "--resume"});
  // Equal contents at another path are the same data, and other degrees are the same experiment.
  std::filesystem::copy_file(data, folder / "moved.txt");
  RunOutput moved = RunHeddle(resume + "--dp 2 --transport threads --data " + folder / "moved.txt");
  EXPECT_EQ(moved.status, 0) << moved.err;
  EXPECT_EQ(moved.err, "");
  // Moments of another optimizer cannot be used, so the run starts without any.
  RunOutput forced =
      RunHeddle(train + " --resume --override --steps 4 --optimizer momentum --data " + data);
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_EQ(LinesOf(forced.err), 1) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("--override: goes on from"));
  EXPECT_THAT(forced.err, HasSubstr("optimizer was adamw and is momentum"));
}

// `heddle checkpoint` calls exactly those checkpoints damaged that resuming skips.
TEST(Resume, TheCommandAndTheRunAgreeOnWhatIsSound) {
  TempFolder folder;
  std::string train =
      "train " + kResumed + " --threads 1 --checkpoint-every 1 --checkpoint " + folder / "run";
  ASSERT_EQ(RunHeddle(train + " --steps 2").status, 0);
  std::string manifest = CheckpointPath(folder / "run", 2) + "/manifest.json";
  const Json good = ParseJson(Slurp(manifest), manifest);
  auto spoil = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    std::ofstream(manifest) << bad.dump();
  };
  struct Case {
    const char* pointer;
    Json value;
  };
  for (const Case& c :
       {Case{"/step", 7}, Case{"/run/state", Json::array()}, Case{"/run/state/updates", -1}}) {
    spoil(c.pointer, c.value);
    RunOutput listed = RunHeddle("checkpoint " + folder / "run");
    EXPECT_EQ(listed.status, 1) << c.pointer;
    EXPECT_THAT(listed.out, HasSubstr("damaged")) << c.pointer;
  }
  RunOutput resumed = RunHeddle(train + " --steps 2 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("an earlier one is used"));
}

TEST(Resume, AManifestThatNamesNoPieceIsDamaged) {
  TempFolder folder;
  std::string train = "train " + kResumed + " --threads 1 --checkpoint " + folder / "run";
  ASSERT_EQ(RunHeddle(train + " --steps 1").status, 0);
  std::string path = CheckpointPath(folder / "run", 1), manifest = path + "/manifest.json";
  Json json = ParseJson(Slurp(manifest), manifest);
  std::string file = json["files"].begin().key();
  // A valid shard of another checkpoint.
  HostTensor other = MakeTensor(DType::kF32, {2}, std::vector<double>{1, 2});
  std::vector<NamedTensor> named = {{"other", &other}};
  WriteSafetensors(path + "/" + file, named);
  CheckpointFile now = Fingerprint(path + "/" + file);
  json["files"][file] = {{"bytes", now.bytes}, {"xxh64", now.hash}};
  std::ofstream(manifest) << json.dump();
  RunOutput listed = RunHeddle("checkpoint " + folder / "run");
  EXPECT_EQ(listed.status, 1);
  EXPECT_THAT(listed.out, HasSubstr("is missing"));
}

// Limits files to 16 blocks of 512 bytes, which has the effect of a full disk.
RunOutput RunWithSmallFiles(const std::string& arguments) {
  TempFolder folder;
  std::string out = folder / "out", err = folder / "err";
  std::string command = "ulimit -f 16; " + std::string(HEDDLE_BINARY) + " " + arguments + " >'" +
                        out + "' 2>'" + err + "' </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Slurp(out), Slurp(err)};
}

TEST(Lost, ALastCheckpointThatIsNotThereIsAFailure) {
  TempFolder folder;
  RunOutput run = RunWithSmallFiles("train " + kResumed + " --threads 1 --steps 2 --checkpoint " +
                                    folder / "run");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(LinesOf(run.err), 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("heddle: training ended, but step 2 was not saved: "));
  EXPECT_THAT(run.out, HasSubstr("loss "));  // measurements are still shown
}

TEST(Lost, MetricsAndTracesThatCannotBeWrittenAreAFailureAtTheEnd) {
  RunOutput run = RunHeddle("train " + kResumed +
                            " --threads 1 --steps 2 --json --metrics /dev/full --trace /dev/full");
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(ParseJson(run.out, "output")["losses"].size(), 2u);
  EXPECT_EQ(LinesOf(run.err), 2) << run.err;
  EXPECT_THAT(run.err,
              HasSubstr("/dev/full: cannot write: No space left on device; training goes on"));
  EXPECT_THAT(
      run.err,
      HasSubstr("heddle: training ended, but 2 lines of metrics were not written: /dev/full"));
}

// The derivative of a square root at 0 is infinite, while the loss is 0.
TEST(NotFinite, GradientsThatAreNotFiniteUpdateNothing) {
  TempFolder folder;
  std::ofstream(folder / "m.heddle") << R"(heddle 1
model "roots"
input %x: f32[4,8]
param %w: f32[8,8]
const %zero: f32[] = 0.0
%y: f32[4,8] = MatMul(%x, %w)
%flat: f32[4,8] = Mul(%y, %zero)
%root: f32[4,8] = Sqrt(%flat)
%sum: f32[4,8] = Add(%root, %y)
%loss: f32[] = ReduceMean(%sum) {axes=[0, 1], keepdims=0}
output %loss
)";
  for (std::string plan : {"", " --dp 2 --zero 1 --transport threads"}) {
    std::string saved = folder / ("run" + std::to_string(plan.size()));
    RunOutput run =
        RunHeddle("train " + folder / "m.heddle" + " --steps 3 --threads 1 --json --checkpoint " +
                  saved + " --checkpoint-every 1 --keep 3" + plan);
    ASSERT_EQ(run.status, 0) << run.err;
    Json json = ParseJson(run.out, "output");
    EXPECT_EQ(json["skipped_steps"], 3) << plan;
    EXPECT_EQ(json["losses"][0], json["losses"][2]) << plan;
    EXPECT_THAT(run.err, HasSubstr("step 0 was skipped: its gradients are not finite"));
    ASSERT_EQ(RunHeddle("checkpoint " + saved + " --export " + folder / "w.safetensors").status, 0);
    HostTensor weights = SafetensorsFile::Open(folder / "w.safetensors").Load("w");
    for (float weight : weights.as<float>()) EXPECT_TRUE(std::isfinite(weight));
  }
  // With shards, which are updated before all gradients are known.
  std::ofstream(folder / "jobs.yaml")
      << "cluster: local:1\njobs: [{name: a, model: '" << folder / "m.heddle"
      << "', steps: 3}]\n";
  std::string saved = folder / "fleet";
  RunOutput fleet =
      RunHeddle("fleet " + folder / "jobs.yaml" + " --threads 1 --json --checkpoint " + saved);
  ASSERT_EQ(fleet.status, 0) << fleet.err;
  ASSERT_EQ(RunHeddle("checkpoint " + saved + "/00-a --export " + folder / "w.safetensors").status,
            0);
  HostTensor weights = SafetensorsFile::Open(folder / "w.safetensors").Load("w");
  for (float weight : weights.as<float>()) EXPECT_TRUE(std::isfinite(weight));
}

}  // namespace
}  // namespace heddle
