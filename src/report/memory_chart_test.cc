#include "report/memory_chart.h"

#include <gtest/gtest.h>

#include <vector>

namespace heddle {
namespace {

TEST(MemoryChart, KindsLieOneUponTheOther) {
  constexpr int64_t kMega = 1 << 20;
  MemoryKinds held{.weights = kMega, .gradients = kMega, .optimizer = 2 * kMega};
  MemoryKinds some = held, most = held;
  some.activations = kMega;
  most.activations = 2 * kMega;
  most.buffers = kMega;
  std::vector<MemorySample> samples = {{0, held},    {2, some}, {4, most},
                                       {4.01, some}, {8, held}, {9, held}};
  EXPECT_EQ(MemoryChart(samples, 9, 6 * kMega, 30, 9), R"(  7.00 MiB |        B
           |        a
           |    aaaaaaaaaaaaa
           |oooooooooooooooooo
           |oooooooooooooooooo
           |gggggggggggggggggg
           |wwwwwwwwwwwwwwwwww
           +------------------
            0 s         9.00 s
)");
}

TEST(MemoryChart, NothingForNothing) {
  EXPECT_EQ(MemoryChart({}, 1, 1, 80, 10), "");
  EXPECT_NE(MemoryChart(std::vector<MemorySample>{{0, {}}}, 0, 0, 0, 0), "");
}

}  // namespace
}  // namespace heddle
