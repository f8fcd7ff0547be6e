#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace heddle {
namespace {

TEST(Parallel, CallsEveryPieceOnce) {
  for (size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
    std::vector<std::atomic<int>> calls(count);
    InParallel(count, [&](size_t i) { ++calls[i]; });
    for (const std::atomic<int>& at : calls) EXPECT_EQ(at, 1);
  }
}

TEST(Parallel, LoopsInsideLoopsEnd) {
  std::atomic<int> calls = 0;
  InParallel(20, [&](size_t) {
    InParallel(20, [&](size_t) { InParallel(5, [&](size_t) { ++calls; }); });
  });
  EXPECT_EQ(calls, 2000);
}

TEST(Parallel, LoopsOfSeveralThreadsEnd) {
  std::atomic<int> calls = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int n = 0; n < 200; ++n) InParallel(7, [&](size_t) { ++calls; });
      });
    }
  }
  EXPECT_EQ(calls, 4 * 200 * 7);
}

TEST(Parallel, ThrowsOnWhatAPieceThrows) {
  std::atomic<int> calls = 0;
  EXPECT_THROW(InParallel(1000,
                          [&](size_t i) {
                            ++calls;
                            if (i == 3) throw std::runtime_error("three");
                          }),
               std::runtime_error);
  EXPECT_GE(calls, 4);
  InParallel(3, [&](size_t) { ++calls; });  // the threads still exist
}

}  // namespace
}  // namespace heddle
