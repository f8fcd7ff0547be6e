// The bundled network finds good placements in fewer playouts than the uniform prior, on models and clusters that it
// was not trained on (bench/torch/prior.cc measures how many).
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/random_topology.h"
#include "cluster/topology.h"
#include "frontend/families/built_in.h"
#include "learn/contest.h"
#include "learn/file.h"

namespace heddle {
namespace {

TEST(BundledPrior, NeedsFewerPlayouts) {
  std::unique_ptr<Prior> network = BundledPrior(), uniform = UniformPrior();
  double log_ratio = 0;
  int64_t done = 0;
  constexpr int64_t kPairs = 6, kPlayouts = 200;
  for (uint64_t seed = 300; done < kPairs; ++seed) {
    Cluster cluster = RandomTopology(seed, 1e12);
    if (IsHomogeneous(cluster)) continue;
    Lesson lesson{
        Analyse(BuildModel(seed % 2 == 0
                               ? "bert:layers=2,hidden=896,heads=14,seq=100,vocab=28000,batch=36"
                               : "vgg:depth=16,ffn=3072,batch=100")),
        std::move(cluster)};
    Contest contest(lesson);
    if (!contest.IsOpen()) continue;
    TreeResult plain = contest.Run(*uniform, 2 * kPlayouts);
    TreeResult guided = contest.Run(*network, kPlayouts);
    log_ratio += std::log(static_cast<double>(contest.PlayoutsToBest(guided, 0.01, kPlayouts)) /
                          static_cast<double>(contest.PlayoutsToBest(plain, 0.01, kPlayouts)));
    ++done;
  }
  EXPECT_LT(std::exp(log_ratio / kPairs), 0.7);
}

}  // namespace
}  // namespace heddle
