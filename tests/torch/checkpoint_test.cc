// Resumes from checkpoints of one plan under another plan.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "../run_binary.h"
#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/train.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

constexpr int64_t kHalf = 3, kSteps = 6;

class Trainer {
 public:
  explicit Trainer(const std::string& family)
      : model_(Analyse(BuildModel(family))),
        data_(OpenData(model_.graph, {.seed = 5})),
        weights_(MakeWeights(model_.graph, model_.rules, {.seed = 5, .seeded = true})),
        constants_(MakeConstants(model_.graph, {.seed = 5})) {}

  // Trains the remaining steps on threads and returns their losses.
  std::vector<double> Run(const Degrees& degrees, int64_t steps, const CheckpointOptions& options) {
    Cluster cluster = LoadCluster(fmt::format("local:{}", DevicesOf(degrees)));
    Program program = Lower(model_, ExpertPlan(model_, cluster, degrees));
    std::vector<double> losses;
    RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
      TrainOptions train;
      train.steps = steps;
      train.seed = 5;
      train.optimizer.lr = 0.01;
      train.lr = {.kind = "cosine", .lr = 0.01, .warmup_steps = 1, .total_steps = kSteps};
      train.clip_norm = 1;
      train.checkpoint = options;
      TrainSummary summary =
          TrainDevice({program, weights_, constants_, *data_}, train, transport,
                      [&](const StepRecord& record) { losses.push_back(record.loss); });
      if (transport.rank() == 0) not_saved_ = summary.saving.not_saved;
    });
    return losses;
  }
  const Graph& graph() const { return model_.graph; }
  const std::string& not_saved() const { return not_saved_; }  // of the last run

 private:
  Model model_;
  std::unique_ptr<DataSource> data_;
  WeightSource weights_;
  ConstantSource constants_;
  std::string not_saved_;
};

CheckpointOptions SaveTo(const std::string& folder, bool resume = false) {
  CheckpointOptions options;
  options.folder = folder;
  options.every = 1 << 20;  // only the last step
  options.resume = resume;
  return options;
}

std::vector<Degrees> SomeDegrees() {
  auto make = [](int64_t dp, int64_t tp, int64_t pp, int zero, int64_t microbatches = 1) {
    Degrees degrees;
    degrees.dp = dp, degrees.tp = tp, degrees.pp = pp, degrees.zero = zero;
    degrees.microbatches = microbatches;
    return degrees;
  };
  Degrees offloaded = make(2, 1, 1, 1), wholly = make(1, 1, 1, 0);
  offloaded.offload = wholly.offload = Offload::kOptimizer;
  Degrees served = make(3, 1, 1, 0);
  served.sync = GradientSync::kServer;
  return {make(1, 1, 1, 0),
          make(2, 1, 1, 0),
          make(3, 1, 1, 1),
          make(2, 1, 1, 3),
          make(1, 2, 1, 0),
          make(1, 1, 2, 0, 2),
          make(2, 2, 1, 1),
          make(2, 1, 2, 2, 2),
          make(1, 4, 1, 0),
          make(4, 1, 1, 3),
          make(2, 2, 2, 1, 2),
          make(4, 2, 1, 3),
          offloaded,
          wholly,
          served};
}

// With tied weights (the head is the embedding), uneven splits, every ZeRO level, offloaded state, and 1 to 8 ranks.
TEST(Checkpoints, GoOnUnderAnyPlan) {
  Trainer trainer("gpt:layers=2,hidden=24,heads=4,seq=8,vocab=50,batch=12");
  std::vector<Degrees> all = SomeDegrees();
  std::vector<double> expected = trainer.Run(all[0], kSteps, {});
  TempFolder folder;
  int pairs = 0;
  double worst = 0;
  for (size_t a = 0; a < all.size(); ++a) {
    std::string saved = folder / std::to_string(a);
    trainer.Run(all[a], kHalf, SaveTo(saved));
    std::vector<double> same = trainer.Run(all[a], kSteps, {});
    for (size_t other : {size_t{0}, size_t{1}, size_t{4}}) {
      size_t b = (a + other) % all.size();
      SCOPED_TRACE(fmt::format("from plan {} to plan {}", a, b));
      std::string copy = folder / fmt::format("{}-{}", a, b);
      std::filesystem::copy(saved, copy, std::filesystem::copy_options::recursive);
      std::vector<double> losses = trainer.Run(all[b], kSteps, SaveTo(copy, true));
      ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps - kHalf));
      for (size_t i = 0; i < losses.size(); ++i) {
        double want = expected[static_cast<size_t>(kHalf) + i];
        worst = std::max(worst, std::abs(losses[i] - want) / want);
        EXPECT_NEAR(losses[i], want, 1e-4 * want);
        // Resuming under the same plan gives bitwise equal losses.
        if (other == 0) {
          EXPECT_EQ(losses[i], same[static_cast<size_t>(kHalf) + i]);
        }
      }
      ++pairs;
    }
  }
  fmt::print("{} pairs, largest relative difference {:.1e}\n", pairs, worst);
  EXPECT_GE(pairs, 30);
}

TEST(Checkpoints, OptimizersGoOn) {
  Trainer trainer("gpt:layers=1,hidden=24,heads=4,seq=8,vocab=50,batch=12");
  TempFolder folder;
  Degrees one, two;
  two.dp = 2, two.zero = 2;
  trainer.Run(two, kHalf, SaveTo(folder / "adamw"));
  std::string path = CheckpointPath(folder / "adamw", kHalf);
  CheckpointReader reader(path, OpenCheckpoint(path));
  reader.RequireModel(trainer.graph());
  EXPECT_EQ(reader.manifest().ranks, 2);
  EXPECT_EQ(reader.manifest().run["state"]["updates"], kHalf);
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    for (StateKind kind : {StateKind::kWeights, StateKind::kFirst, StateKind::kSecond}) {
      ASSERT_TRUE(reader.Whole(kind, name).has_value()) << name;
    }
  }
  Trainer other("gpt:layers=1,hidden=32,heads=4,seq=8,vocab=50,batch=12");
  try {
    other.Run(one, kSteps, SaveTo(folder / "adamw", true));
    FAIL() << "a checkpoint of another model";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("is [50,24] in the checkpoint and [50,32] in the model"));
  }
}

TEST(Checkpoints, KeepLastAndFallBack) {
  Trainer trainer("gpt:layers=1,hidden=24,heads=4,seq=8,vocab=50,batch=12");
  TempFolder folder;
  Degrees two;
  two.dp = 2, two.zero = 1;
  CheckpointOptions options = SaveTo(folder / "run");
  options.every = 1;
  options.keep = 2;
  std::vector<double> all = trainer.Run(two, kSteps, options);
  EXPECT_THAT(ListCheckpoints(folder / "run"), testing::ElementsAre(kSteps - 1, kSteps));
  EXPECT_EQ(Slurp(folder / "run/latest"), CheckpointName(kSteps) + "\n");
  // The last checkpoint is damaged. The previous one is used, the step is repeated, and the damaged one is set aside.
  std::string shard = CheckpointPath(folder / "run", kSteps) + "/rank-00001.safetensors";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 4);
  options.resume = true;
  std::vector<double> again = trainer.Run(two, kSteps, options);
  EXPECT_THAT(again, testing::ElementsAre(all.back()));
  EXPECT_THAT(ListCheckpoints(folder / "run"), testing::ElementsAre(kSteps - 1, kSteps));
  std::string path = CheckpointPath(folder / "run", kSteps);
  EXPECT_NO_THROW(VerifyCheckpoint(path, OpenCheckpoint(path)));
}

// A limit on the size of files has the effect of a full disk.
TEST(Checkpoints, ASaveThatFailsDoesNotEndTraining) {
  Trainer trainer("gpt:layers=1,hidden=24,heads=4,seq=8,vocab=50,batch=12");
  TempFolder folder;
  Degrees two;
  two.dp = 2;
  auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 20'000;
  CheckpointOptions options = SaveTo(folder / "run");
  options.every = 2;
  setrlimit(RLIMIT_FSIZE, &small);
  testing::internal::CaptureStderr();
  std::vector<double> losses = trainer.Run(two, kSteps, options);
  std::string said = testing::internal::GetCapturedStderr();
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps));
  EXPECT_THAT(ListCheckpoints(folder / "run"), testing::IsEmpty());
  for (const char* part : {"step 2 was not saved", "step 4 was not saved", "training goes on"})
    EXPECT_THAT(said, testing::HasSubstr(part));
  EXPECT_THAT(trainer.not_saved(), testing::HasSubstr("step 6 was not saved: "));
}

TEST(Checkpoints, TheCommandListsVerifiesAndExports) {
  TempFolder folder;
  std::string model = "gpt:layers=1,hidden=24,heads=4,seq=8,vocab=50,batch=12";
  std::string train = "train " + model + " --transport threads --dp 2 --checkpoint " +
                      folder / "run" + " --checkpoint-every 2";
  RunOutput run = RunHeddle(train + " --steps 4");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::HasSubstr("2 checkpoints, one every 2 steps"));
  ExpectRefused(train, {"up to step 4", "--resume"});
  ExpectRefused("train " + model + " --resume", {"--checkpoint"});
  ExpectRefused("train " + model + " --mtbf 3 --checkpoint " + folder / "x", {"--mtbf", "unit"});
  ExpectRefused("checkpoint " + folder / "none", {"no checkpoints"});
  RunOutput list = RunHeddle("checkpoint " + folder / "run" + " --json");
  ASSERT_EQ(list.status, 0) << list.err;
  Json json = ParseJson(list.out, "output");
  ASSERT_EQ(json["checkpoints"].size(), 2u);
  EXPECT_EQ(json["checkpoints"][1]["step"], 4);
  EXPECT_EQ(json["checkpoints"][1]["sound"], true);
  RunOutput exported =
      RunHeddle("checkpoint " + folder / "run" + " --export " + folder / "w.safetensors");
  ASSERT_EQ(exported.status, 0) << exported.err;
  // Exported weights can be used as initial weights.
  RunOutput further =
      RunHeddle("train " + model + " --steps 1 --weights " + folder / "w.safetensors" + " --json");
  ASSERT_EQ(further.status, 0) << further.err;
  RunOutput resumed = RunHeddle(train + " --resume --steps 5 --json");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NEAR(ParseJson(further.out, "output")["losses"][0].get<double>(),
              ParseJson(resumed.out, "output")["losses"][0].get<double>(), 1e-5);
  std::ofstream(CheckpointPath(folder / "run", 4) + "/manifest.json") << "{";
  RunOutput damaged = RunHeddle("checkpoint " + folder / "run");
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, testing::HasSubstr("damaged"));
}

}  // namespace
}  // namespace heddle
