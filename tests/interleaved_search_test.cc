// Interleaved pipelines of the search: ends of stages, and recomputed layers.
#include <gtest/gtest.h>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "plan/precision.h"
#include "search/explore/estimate.h"

namespace heddle {
namespace {

Estimate EstimateOf(const Model& model, const Cluster& cluster, const Configuration& c,
                    double limit) {
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.reserve = 0;
  problem.memory_limit = static_cast<int64_t>(limit);
  Model computed = WithComputeType(model, problem.precision);
  Prices prices(computed, cluster, {PrecisionOf(problem), problem.sim, problem.whole, nullptr});
  return Estimator(problem, prices).Of(c);
}

Configuration FourDevices(int chunks) {
  Configuration c;
  c.pp = 4;
  c.microbatches = 4;
  c.schedule = "interleaved";
  c.chunks = chunks;
  return c;
}

int Recomputed(const Estimate& estimate, int device) {
  int stages = 0;
  for (size_t s = static_cast<size_t>(device); s < estimate.stages.size(); s += 4) {
    const std::vector<RecomputePolicy>& of = estimate.stages[s].recompute;
    stages += std::any_of(of.begin(), of.end(), [](auto p) { return p != RecomputePolicy::kNone; });
  }
  return stages;
}

// 126 layers in 128 stages: one stage for the embedding, one for every layer, one for the head.
TEST(InterleavedEstimates, TheEmbeddingAndTheHeadMayHaveStages) {
  Model model =
      Analyse(BuildModel("llama:layers=30,hidden=512,heads=8,seq=512,vocab=2048,batch=8"));
  Estimate estimate = EstimateOf(model, LoadCluster("dgx-h100:1"), FourDevices(8), 80e9);
  ASSERT_EQ(estimate.stages.size(), 32u);
  for (size_t s = 0; s < estimate.stages.size(); ++s) {
    int layers = 0;
    for (int b = estimate.stages[s].first_block; b < estimate.stages[s].last_block; ++b) {
      layers += model.blocks[static_cast<size_t>(b)].chain >= 0 ? 1 : 0;
    }
    EXPECT_EQ(layers, s == 0 || s == 31 ? 0 : 1) << "stage " << s;
  }
}

// Every stage is one layer. If memory is short, some chunks of a device are recomputed, not all. They are the same
// chunks on all devices, so that no device waits for another.
TEST(InterleavedEstimates, SomeChunksAreRecomputedAndTheSameOnAllDevices) {
  Model model =
      Analyse(BuildModel("llama:layers=32,hidden=1024,heads=8,seq=2048,vocab=2048,batch=8"));
  Cluster cluster = LoadCluster("dgx-h100:1");
  Configuration c = FourDevices(8);
  double all = EstimateOf(model, cluster, c, 80e9).bytes;
  Estimate estimate = EstimateOf(model, cluster, c, 0.7 * all);
  ASSERT_TRUE(estimate.fits);
  for (int d : {1, 2}) {
    EXPECT_GT(Recomputed(estimate, d), 0);
    EXPECT_LT(Recomputed(estimate, d), 8);
  }
  for (size_t chunk = 0; chunk < 8; ++chunk) {
    EXPECT_EQ(estimate.stages[4 * chunk + 1].recompute, estimate.stages[4 * chunk + 2].recompute)
        << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace heddle
