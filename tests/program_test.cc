// Lowering of real models under expert and random plans gives valid programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/error.h"
#include "known_models.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "program/text.h"
#include "program/verify.h"
#include "random_plan.h"
#include "tiny_plan.h"

namespace heddle {
namespace {

const Model& Tiny(const std::string& name) {
  static std::map<std::string, Model> models;
  auto found = models.find(name);
  if (found == models.end()) found = models.emplace(name, LoadTiny(name)).first;
  return found->second;
}

std::string FirstLines(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size() && i < 6; ++i) text += lines[i] + "\n";
  return text;
}

// The bytes that all devices hand to the transport, from the count in the text form.
int64_t PayloadOf(const Program& program) {
  int64_t bytes = 0;
  for (const DeviceProgram& run : program.runs) {
    for (const Instruction& at : run.instructions) {
      if (at.stream == Stream::kCommunication) {
        bytes += PayloadBytes(program, at, run.devices.front());
      }
    }
  }
  return bytes;
}

class ProgramTest : public testing::TestWithParam<std::string> {};

TEST_P(ProgramTest, PlansWithFactorsAndServersAreSound) {
  const Model& model = Tiny(GetParam());
  int lowered = 0;
  for (Degrees degrees : ManyDegrees()) {
    if (!Fits(GetParam(), degrees) || degrees.dp == 1) continue;
    if (GetParam() == "tiny-cnn") degrees.local_batch_statistics = degrees.microbatches > 1;
    degrees.zero = 0;
    degrees.zero_ranks = 0;
    for (GradientSync sync : {GradientSync::kServer, GradientSync::kFactors}) {
      for (RecomputePolicy recompute : {RecomputePolicy::kNone, RecomputePolicy::kFull}) {
        degrees.sync = sync;
        degrees.recompute = recompute;
        Plan plan = ExpertPlan(model, LoadCluster("local:16"), degrees);
        EXPECT_EQ(Verify(plan, model), std::vector<std::string>{});
        EXPECT_EQ(FirstLines(Verify(Lower(model, plan))), "")
            << fmt::format("dp {} tp {} pp {} cp {} ep {} sp {}", degrees.dp, degrees.tp,
                           degrees.pp, degrees.cp, degrees.ep, degrees.sp);
        ++lowered;
      }
    }
  }
  EXPECT_GT(lowered, 10);
}

TEST_P(ProgramTest, ExpertPlansAreSound) {
  const Model& model = Tiny(GetParam());
  Cluster cluster = LoadCluster("local:16");
  int lowered = 0;
  for (Degrees degrees : ManyDegrees()) {
    if (!Fits(GetParam(), degrees)) continue;
    if (GetParam() == "tiny-cnn") degrees.local_batch_statistics = degrees.microbatches > 1;
    for (RecomputePolicy recompute :
         {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
      for (int zero = 0; zero <= 3; ++zero) {
        degrees.recompute = recompute;
        degrees.zero = zero;
        Plan plan;
        try {
          plan = ExpertPlan(model, cluster, degrees);
        } catch (const InputError&) {
          continue;  // these degrees do not suit this model
        }
        SCOPED_TRACE(fmt::format("dp {} tp {} pp {} cp {} ep {} sp {} mb {} zero {} recompute {}",
                                 degrees.dp, degrees.tp, degrees.pp, degrees.cp, degrees.ep,
                                 degrees.sp, degrees.microbatches, zero, Name(recompute)));
        Program program = Lower(model, plan);
        EXPECT_EQ(FirstLines(Verify(program)), "");
        EXPECT_EQ(FirstLines(Verify(LowerForward(model, plan))), "");
        if (program.device_count() > 1) {
          EXPECT_GT(PayloadOf(program), 0);
        }
        ++lowered;
      }
    }
  }
  EXPECT_GT(lowered, 50);
}

TEST_P(ProgramTest, RandomPlansAreSound) {
  const Model& model = Tiny(GetParam());
  Cluster cluster = LoadCluster("local:64");
  int lowered = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Random rng(seed);
    Plan plan = RandomPlan(model, rng);
    AddRandomSync(model, rng, plan);
    plan.cluster = cluster;
    SCOPED_TRACE(fmt::format("seed {}: {} stages, {}, {} micro-batches, zero {}", seed,
                             plan.stages.size(), plan.schedule, plan.microbatches,
                             plan.zero.level));
    if (!Verify(plan, model).empty()) {
      plan.microbatches = 1;  // the model forbids more
      if (FindSchedule(plan.schedule)->full_rounds && plan.stages.size() > 1) continue;
    }
    ASSERT_EQ(FirstLines(Verify(plan, model)), "");
    EXPECT_EQ(FirstLines(Verify(Lower(model, plan))), "");
    EXPECT_EQ(FirstLines(Verify(LowerForward(model, plan))), "");
    ++lowered;
  }
  EXPECT_GE(lowered, 100);
}

// With tensor parallelism a block has two parameter groups, and every pipeline chunk is a pass. The gathers of a block
// start while another block runs, except for the first block.
TEST(ZeroThree, GathersBlocksAhead) {
  Model model = Analyse(LoadModel("gpt2:layers=8,batch=8"));
  for (Degrees degrees : {Degrees{.dp = 2, .tp = 2}, Degrees{.dp = 2, .tp = 2, .microbatches = 2},
                          Degrees{.dp = 2, .tp = 2, .pp = 2, .microbatches = 4},
                          Degrees{.dp = 2,
                          .tp = 2,
                          .pp = 2,
                          .microbatches = 4,
                          .chunks = 4,
                          .schedule = "interleaved"}}) {
    degrees.zero = 3;
    Program program = Lower(model, ExpertPlan(model, LoadCluster("local:8"), degrees));
    for (const DeviceProgram& run : program.runs) {
      // A visit is a sequence of segments that read gathered weights of one block in one pass, or a pass without any.
      // `asked`: the number of visits that had begun when a gather started.
      std::map<BufferId, int> asked;
      int visits = 0, first = 0, late = 0;  // first: the first visit that needs gathered weights
      std::tuple<StageId, bool, int> pass;  // forward, micro-batch
      BlockId block, last_block;            // of the previous pass
      int begun = 0;                        // first visit of the pass with weights
      for (const Instruction& at : run.instructions) {
        if (at.op == Opcode::kGatherWeights && !at.writes.empty()) asked[at.writes[0]] = visits;
        if (at.op != Opcode::kRun) continue;
        const StageProgram& stage = program.stages[at.stage];
        BlockId here = stage.segments[at.segment()].block;
        std::tuple now(at.stage, at.half == Half::kF && !at.recompute, at.microbatch);
        bool reads = std::any_of(at.reads.begin(), at.reads.end(),
                                 [&](BufferId id) { return asked.count(id) > 0; });
        bool passes = now != pass;
        if (passes) last_block = block;
        if (passes) block = {};
        if (passes || (reads && here != block)) ++visits;
        if (passes) begun = visits + (reads ? 0 : 1);
        if (reads) block = here;
        pass = now;
        for (BufferId id : at.reads) {
          if (asked.count(id) == 0) continue;
          if (first == 0) first = visits;
          // A pass that begins with the last block of the previous pass gathers it again.
          bool turns = here == last_block && visits == begun;
          if (visits > first && !turns && asked[id] > visits - 2) ++late;
        }
      }
      EXPECT_GT(visits, 4);
      EXPECT_EQ(late, 0) << "pp " << degrees.pp << ", device " << run.devices.front();
    }
  }
}

// Norms and biases are reduced over other axes than matrices; they fill parameter groups independently.
TEST(ParameterGroupsTest, AreFilledSideBySide) {
  Model model = Analyse(LoadModel("gpt2:layers=6,batch=8"));
  auto groups = [&](const Degrees& degrees, int64_t bucket) {
    Plan plan = ExpertPlan(model, LoadCluster("local:4"), degrees);
    plan.bucket_bytes = bucket;
    return Lower(model, plan).stages.front().groups;
  };
  // Groups: matrices, the matrices with the last gradients, biases of row-split products, and the table of positions,
  // which is not reduced.
  EXPECT_EQ(groups({.dp = 2, .tp = 2}, int64_t{1} << 40).size(), 4u);
  EXPECT_GT(groups({.dp = 2, .tp = 2}, int64_t{1} << 20).size(), 12u);
  // ZeRO 3 has a group per layer and kind, even with a small bucket size.
  std::map<int, int> levels;
  for (const ParameterGroup& group : groups({.dp = 2, .tp = 2, .zero = 3}, 1)) ++levels[group.zero];
  EXPECT_EQ(levels[3], 12);
}

INSTANTIATE_TEST_SUITE_P(Tiny, ProgramTest, testing::ValuesIn(kTinyModels),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace heddle
