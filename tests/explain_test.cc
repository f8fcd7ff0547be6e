// Explanations of the nodes of real plans: the terms for splits, and seconds and bytes that add up to those of the
// simulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "report/block_groups.h"
#include "report/split_words.h"

namespace heddle {
namespace {

struct Explained {
  Model model;
  Plan plan;
  Program program;
  Simulation simulation;
  std::vector<NodeCost> costs;
};

Explained Explain(const std::string& source, const Degrees& degrees) {
  Explained out;
  Cluster cluster = LoadCluster("dgx-h100:2");
  out.model = Analyse(LoadModel(source));
  out.plan = ExpertPlan(out.model, cluster, degrees);
  out.program = Lower(out.model, out.plan);
  SimOptions options;
  out.simulation = RunSimulation(out.program, cluster, options);
  out.costs =
      CostsOfNodes(out.program, cluster, out.simulation, options, out.model.graph.nodes.size());
  return out;
}

// The split along an axis of the first layer's node whose name has this ending.
std::string Split(const Explained& at, const std::string& name, size_t axis) {
  for (const BlockGroup& group : GroupBlocks(at.model, at.plan, at.costs)) {
    for (const NodeRow& row : group.rows) {
      if (row.name.ends_with(name)) return row.splits.at(axis);
    }
  }
  return "no " + name;
}

constexpr const char* kGptOfFourLayers =
    "gpt2:layers=4,hidden=128,heads=4,seq=64,vocab=512,batch=16";

TEST(Explain, WordsOfMegatronsPlan) {
  Explained at =
      Explain(kGptOfFourLayers, {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 4});
  EXPECT_EQ(Split(at, "h.0.ln_1", 0), "batch");
  EXPECT_EQ(Split(at, "h.0.ln_1", 1), "sequence");
  EXPECT_EQ(Split(at, "attn.c_attn", 1), "columns");
  EXPECT_EQ(Split(at, "attention", 1), "heads");
  EXPECT_EQ(Split(at, "attn.c_proj", 1), "rows");
  EXPECT_EQ(Split(at, "gather", 1), "vocabulary");
  EXPECT_EQ(Split(at, "linear", 1), "vocabulary");
  EXPECT_EQ(Split(at, "loss", 1), "vocabulary");
}

TEST(Explain, LayersThatDoTheSameAreOneGroup) {
  Explained at = Explain(kGptOfFourLayers, {.dp = 2, .pp = 2, .microbatches = 4});
  std::vector<std::string> labels;
  for (const BlockGroup& group : GroupBlocks(at.model, at.plan, at.costs)) {
    labels.push_back(group.label());
  }
  EXPECT_EQ(labels,
            (std::vector<std::string>{"blocks 0..1", "layers 0..3", "blocks 6..9", "side nodes"}));
  size_t layer = static_cast<size_t>(at.plan.stages[1].first_block) - 2;
  at.plan.stages[1].recompute.assign(at.plan.stages[1].recompute.size(), RecomputePolicy::kFull);
  std::vector<BlockGroup> groups = GroupBlocks(at.model, at.plan, at.costs);
  EXPECT_EQ(groups[1].blocks(), static_cast<int>(layer));
  EXPECT_EQ(groups[2].first_layer, static_cast<int>(layer));
}

TEST(Explain, ExpertsAreNamed) {
  Explained at = Explain("moe:layers=2,hidden=64,heads=4,vocab=64,seq=64,experts=4,batch=8",
                         {.dp = 4, .ep = 4});
  std::vector<std::string> words;
  for (const BlockGroup& group : GroupBlocks(at.model, at.plan, at.costs)) {
    for (const NodeRow& row : group.rows) {
      for (const std::string& split : row.splits) words.push_back(split);
    }
  }
  EXPECT_NE(std::find(words.begin(), words.end(), "experts"), words.end());
}

TEST(Explain, MegatronsCollectivesAreOnTheProductsThatNeedThem) {
  Explained at = Explain(kGptOfFourLayers, {.dp = 2, .tp = 2, .microbatches = 4});
  int counted = 0;
  for (const BlockGroup& group : GroupBlocks(at.model, at.plan, at.costs)) {
    if (group.first_layer < 0) continue;
    for (const NodeRow& row : group.rows) {
      if (row.cost.traffic.empty()) continue;
      ++counted;
      ASSERT_EQ(row.cost.traffic.size(), 1u) << row.name;
      const NodeTraffic& traffic = row.cost.traffic[0];
      EXPECT_EQ(traffic.kind, CollectiveKind::kAllReduce);
      EXPECT_EQ(traffic.axes, "tp");
      EXPECT_NEAR(traffic.times, 1, 1e-9);
      EXPECT_EQ(traffic.backward, row.splits[1] == "columns") << row.name;
      EXPECT_EQ(traffic.bytes, 16 / 4 / 2 * 64 * 128 * 4) << row.name;
    }
  }
  EXPECT_EQ(counted, 4);
}

// The seconds of all kernels, except host work and work per step.
double KernelSeconds(const Explained& at) {
  double seconds = 0;
  for (const StageProgram& stage : at.program.stages) {
    size_t of = static_cast<size_t>(
        at.simulation.prepared.classes.class_of[static_cast<size_t>(stage.mesh.first)]);
    size_t run = static_cast<size_t>(at.simulation.prepared.classes.devices[of].run);
    const TaskList& list = at.simulation.prepared.lists[run];
    const std::vector<Instruction>& instructions = at.program.runs[run].instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (&stage != &at.program.stages[instruction.stage]) continue;
      if (list.tasks[i].kind != TaskKind::kLocal) continue;
      if (instruction.op != Opcode::kRun && instruction.op != Opcode::kReshard &&
          instruction.op != Opcode::kSum) {
        continue;
      }
      const Terms& terms =
          at.simulation.prepared.costs[of][static_cast<size_t>(list.tasks[i].cost)].terms;
      seconds += terms.total() - terms[Term::kHost];
    }
  }
  return seconds;
}

TEST(Explain, SecondsOfNodesAddUpToTheSimulators) {
  std::vector<Degrees> plans = {
      {.dp = 2, .tp = 2, .pp = 2, .sp = true, .microbatches = 4},
      {.dp = 4, .microbatches = 2, .recompute = RecomputePolicy::kFull},
      {.tp = 4, .pp = 2, .microbatches = 8, .schedule = "zb-h1"},
      {.dp = 2, .tp = 2, .microbatches = 2, .recompute = RecomputePolicy::kSelective},
  };
  for (const Degrees& degrees : plans) {
    Explained at = Explain(kGptOfFourLayers, degrees);
    double seconds = 0;
    for (const NodeCost& cost : at.costs) seconds += cost.compute();
    double expected = KernelSeconds(at) / static_cast<double>(degrees.microbatches);
    EXPECT_NEAR(seconds, expected, 1e-9 * expected) << degrees.dp << " " << degrees.tp;
  }
}

// After the last forward half, memory holds kept bytes and little else.
TEST(Explain, BytesKeptAreTheSimulators) {
  std::vector<Degrees> plans = {
      {.dp = 2},
      {.dp = 2, .tp = 2, .sp = true},
      {.dp = 2, .tp = 2, .recompute = RecomputePolicy::kFull},
      {.dp = 4, .recompute = RecomputePolicy::kSelective},
  };
  for (const Degrees& degrees : plans) {
    Explained at = Explain(kGptOfFourLayers, degrees);
    double kept = 0;
    for (const NodeCost& cost : at.costs) kept += cost.kept;
    ReplayOptions options;
    options.kinds = true;
    MemoryTimeline timeline = Replay(MemoryModel(at.program), 0, options);
    const std::vector<Instruction>& instructions = at.program.runs[0].instructions;
    size_t last = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      if (instruction.op == Opcode::kRun && instruction.half == Half::kF && !instruction.recompute)
        last = i;
    }
    double held = static_cast<double>(timeline.kinds[last].activations);
    EXPECT_NEAR(kept, held, 0.03 * held) << degrees.dp << " " << degrees.tp;
  }
}

}  // namespace
}  // namespace heddle
