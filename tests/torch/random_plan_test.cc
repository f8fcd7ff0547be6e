// Plans nobody would write: random strategies for every node on random meshes. They too mean what one device means.
#include <gtest/gtest.h>

#include <random>

#include "../known_models.h"
#include "base/error.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "ops/op.h"
#include "plan/verify.h"
#include "plan_harness.h"
#include "runtime/data/batch.h"
#include "schedule/schedule.h"

namespace heddle {
namespace {

using Random = std::mt19937;

int64_t Pick(Random& random, int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }

Strategy RandomStrategy(const Rule& rule, size_t axes, Random& random) {
  std::vector<int> choices = {kReplicate};
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != FactorKind::kWhole) choices.push_back(static_cast<int>(f));
  }
  for (size_t k = 0; k < rule.linear.size(); ++k) choices.push_back(PassPartial(static_cast<int>(k)));
  Strategy strategy;
  for (size_t a = 0; a < axes; ++a) strategy.push_back(choices[static_cast<size_t>(Pick(random, static_cast<int64_t>(choices.size())))]);
  return strategy;
}

Mesh RandomMesh(Random& random, int64_t first) {
  static const std::vector<std::vector<int64_t>> kSizes = {{2}, {3}, {4}, {2, 2}, {2, 3}, {1, 2}, {2, 2, 2}};
  const std::vector<int64_t>& sizes = kSizes[static_cast<size_t>(Pick(random, static_cast<int64_t>(kSizes.size())))];
  static const char* kNames[] = {"x", "y", "z"};
  Mesh mesh;
  mesh.first = first;
  for (size_t a = 0; a < sizes.size(); ++a) mesh.axes.push_back({kNames[a], sizes[a]});
  return mesh;
}

Plan RandomPlan(const Model& model, Random& random) {
  Plan plan;
  plan.model = {"model", StableHash(model.graph), true};
  plan.cluster = LoadCluster("local:24");
  plan.batch = BatchSize(model);
  plan.microbatches = Pick(random, 3) == 0 ? 2 : 1;
  int stages = static_cast<int>(1 + Pick(random, 3) / 2 * Pick(random, 3));
  stages = std::min<int>(stages, static_cast<int>(model.blocks.size()));
  const std::vector<std::string> kSchedules = {"gpipe", "1f1b", "zb-h1", "zb"};
  plan.schedule = kSchedules[static_cast<size_t>(Pick(random, 4))];
  plan.zero.level = static_cast<int>(Pick(random, 4));
  plan.bucket_bytes = int64_t{1} << Pick(random, 20);
  int64_t first = 0;
  int at = 0;
  for (int s = 0; s < stages; ++s) {
    Stage stage;
    stage.first_block = at;
    int left = static_cast<int>(model.blocks.size()) - at - (stages - s - 1);
    stage.last_block = s + 1 == stages ? static_cast<int>(model.blocks.size()) : at + 1 + static_cast<int>(Pick(random, left));
    at = stage.last_block;
    stage.mesh = RandomMesh(random, first);
    first += stage.mesh.size();
    RecomputePolicy policy = static_cast<RecomputePolicy>(Pick(random, 3));
    stage.recompute.assign(static_cast<size_t>(stage.last_block - stage.first_block), policy);
    stage.strategies.resize(model.graph.nodes.size());
    std::vector<NodeId> nodes = NodesOf(model, stage);
    std::vector<NodeId> side = SideNodesOf(model, nodes);
    nodes.insert(nodes.end(), side.begin(), side.end());
    for (NodeId id : nodes) {
      stage.strategies[id.index()] = RandomStrategy(model.rules[id.index()], stage.mesh.axes.size(), random);
    }
    plan.stages.push_back(std::move(stage));
  }
  // Along some axis that there is.
  const Mesh& mesh = plan.stages[static_cast<size_t>(Pick(random, stages))].mesh;
  plan.zero.axes = {mesh.axes[static_cast<size_t>(Pick(random, static_cast<int64_t>(mesh.axes.size())))].name};
  return plan;
}

TEST(RandomPlans, MatchOneDevice) {
  const char* kModels[] = {"tiny-mlp", "tiny-cnn", "tiny-gpt2", "tiny-llama", "tiny-moe", "tiny-t5"};
  const char* only = std::getenv("HEDDLE_RANDOM_PLAN");
  std::map<std::string, std::pair<Model, Batch>> models;
  std::map<std::string, Curve> expected;
  CurveOptions options;
  options.steps = 3;
  options.clip_norm = 1;
  for (const KnownModel& known : KnownModels()) {
    if (known.reference.empty()) continue;
    Model model = Analyse(LoadModel(known.path, {}));
    Batch batch = ReadBatch(model.graph, known.reference);
    expected[known.name] = OneDevice(model.graph, batch, options);
    models[known.name] = {std::move(model), std::move(batch)};
  }
  int done = 0, refused = 0;
  for (uint32_t seed = 0; done < 200; ++seed) {
    if (only != nullptr && std::to_string(seed) != only) {
      if (seed > 2000) break;
      continue;
    }
    Random random(seed);
    const auto& [model, batch] = models.at(kModels[seed % 6]);
    Plan plan = RandomPlan(model, random);
    std::vector<std::string> wrong = Verify(plan, model);
    if (!wrong.empty()) {  // tied weights stored unlike, micro-batches of a model that mixes samples
      if (only != nullptr) std::cerr << wrong[0] << "\n";
      ASSERT_LT(++refused, 400) << wrong[0];
      continue;
    }
    SCOPED_TRACE("plan " + std::to_string(seed) + " of " + kModels[seed % 6]);
    ExpectSame(OnThreads(model, plan, batch, options), expected.at(kModels[seed % 6]));
    ++done;
    if (HasFailure() || only != nullptr) break;
  }
}

}  // namespace
}  // namespace heddle
