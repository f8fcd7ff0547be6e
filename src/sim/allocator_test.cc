#include "sim/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace heddle {
namespace {

constexpr int64_t kMiB = 1 << 20;
using Handle = CachingAllocator::Handle;

int64_t AddressOf(const CachingAllocator& allocator, Handle handle) {
  return allocator.blocks()[static_cast<size_t>(handle)].address;
}

TEST(Allocator, RoundsTo512Bytes) {
  CachingAllocator allocator;
  Handle one = allocator.Allocate(1);
  EXPECT_EQ(allocator.allocated(), 512);
  allocator.Allocate(513);
  EXPECT_EQ(allocator.allocated(), 512 + 1024);
  EXPECT_EQ(allocator.reserved(), 2 * kMiB);
  allocator.Free(one);
  EXPECT_EQ(allocator.allocated(), 1024);
  EXPECT_EQ(allocator.peak_allocated(), 512 + 1024);
  EXPECT_EQ(allocator.Allocate(0), CachingAllocator::kNothing);
  allocator.Free(CachingAllocator::kNothing);
}

TEST(Allocator, SegmentsDependOnTheSize) {
  for (auto [bytes, segment] : {std::pair{kMiB, 2 * kMiB},
                                {kMiB + 1, 20 * kMiB},
                                {10 * kMiB - 512, 20 * kMiB},
                                {10 * kMiB, 10 * kMiB},
                                {10 * kMiB + 1, 12 * kMiB},
                                {101 * kMiB, 102 * kMiB}}) {
    CachingAllocator allocator;
    allocator.Allocate(bytes);
    EXPECT_EQ(allocator.reserved(), segment) << bytes;
  }
}

TEST(Allocator, SmallAndLargeOnesDoNotShare) {
  CachingAllocator allocator;
  allocator.Allocate(512);       // leaves almost 2 MiB for small blocks
  allocator.Allocate(2 * kMiB);  // leaves 18 MiB for other blocks
  EXPECT_EQ(allocator.reserved(), 22 * kMiB);
  allocator.Allocate(kMiB);
  allocator.Allocate(18 * kMiB);
  EXPECT_EQ(allocator.reserved(), 22 * kMiB);
}

// The remainder of a large block is lost with it where it is at most 1 MiB; the remainder of a small block never is.
TEST(Allocator, SplitsWhereTheRestIsWorthIt) {
  CachingAllocator allocator;
  Handle own = allocator.Allocate(11 * kMiB);  // a segment of 12 MiB
  EXPECT_EQ(allocator.allocated(), 12 * kMiB);
  EXPECT_EQ(allocator.rounded(), 11 * kMiB);
  allocator.Free(own);
  allocator.Allocate(11 * kMiB - 512);
  // The remainder of 1 MiB and 512 bytes is free.
  EXPECT_EQ(allocator.allocated(), 11 * kMiB - 512);
  EXPECT_EQ(allocator.reserved(), 12 * kMiB);
  allocator.Allocate(kMiB + 512);
  EXPECT_EQ(allocator.allocated(), 12 * kMiB);
  EXPECT_EQ(allocator.reserved(), 12 * kMiB);
  allocator.Allocate(kMiB);
  allocator.Allocate(kMiB - 512);
  allocator.Allocate(512);
  EXPECT_EQ(allocator.reserved(), 14 * kMiB);
}

TEST(Allocator, TakesTheSmallestThatFitsAndOfEqualsTheFirst) {
  CachingAllocator allocator;
  std::vector<Handle> handles;
  for (int64_t mib : {40, 30, 50, 30}) handles.push_back(allocator.Allocate(mib * kMiB));
  std::vector<int64_t> addresses;
  for (Handle handle : handles) addresses.push_back(AddressOf(allocator, handle));
  for (Handle handle : handles) allocator.Free(handle);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(29 * kMiB)), addresses[1]);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(29 * kMiB)), addresses[3]);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(29 * kMiB)), addresses[0]);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(29 * kMiB)), addresses[2]);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(20 * kMiB)), addresses[2] + 29 * kMiB);
  EXPECT_EQ(allocator.reserved(), 150 * kMiB);
}

TEST(Allocator, JoinsNeighboursOfASegmentOnly) {
  CachingAllocator allocator;
  Handle a = allocator.Allocate(6 * kMiB), b = allocator.Allocate(7 * kMiB),
         c = allocator.Allocate(7 * kMiB), d = allocator.Allocate(8 * kMiB);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);  // a, b and c fill the first segment
  allocator.Free(a);
  allocator.Free(c);
  allocator.Free(b);  // is joined with both of its neighbours
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(20 * kMiB)), 0);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  allocator.Free(d);
  allocator.Allocate(22 * kMiB);  // the 20 free MiB of the second segment are not enough
  EXPECT_EQ(allocator.reserved(), 62 * kMiB);
}

// Fragmentation: at most 40 MiB are ever allocated, but 60 are reserved.
TEST(Allocator, ReservesMoreThanItAllocates) {
  CachingAllocator allocator;
  Handle a = allocator.Allocate(20 * kMiB), b = allocator.Allocate(20 * kMiB);
  allocator.Free(a);
  Handle c = allocator.Allocate(2 * kMiB);  // taken from the first segment
  allocator.Free(b);
  allocator.Free(allocator.Allocate(20 * kMiB));
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  allocator.Allocate(19 * kMiB);
  allocator.Allocate(19 * kMiB);
  EXPECT_EQ(allocator.reserved(), 60 * kMiB);
  EXPECT_EQ(allocator.peak_allocated(), 42 * kMiB);
  allocator.Free(c);
}

// Blocks tile the segments: they do not overlap, and no bytes are lost.
void ExpectSound(const CachingAllocator& allocator, const std::map<Handle, int64_t>& live) {
  std::map<int64_t, const CachingAllocator::Block*> by_address;
  int64_t allocated = 0, rounded = 0;
  for (const CachingAllocator::Block& block : allocator.blocks()) {
    if (block.size > 0) {
      EXPECT_TRUE(by_address.emplace(block.address, &block).second);
    }
  }
  int64_t at = 0, sum = 0;
  bool free_before = false;
  for (const auto& [address, block] : by_address) {
    if (block->before == CachingAllocator::kNothing)
      at = std::max(at, address);  // a new segment begins
    EXPECT_EQ(address, at);
    at += block->size;
    sum += block->size;
    EXPECT_EQ(block->size % 512, 0);
    // Free neighbours in one segment are joined.
    if (block->before != CachingAllocator::kNothing) {
      EXPECT_FALSE(free_before && !block->used);
    }
    free_before = !block->used;
    if (block->used) allocated += block->size;
  }
  EXPECT_EQ(sum, allocator.reserved());
  for (const auto& [handle, bytes] : live) {
    const CachingAllocator::Block& block = allocator.blocks()[static_cast<size_t>(handle)];
    EXPECT_TRUE(block.used);
    EXPECT_GE(block.size, bytes);
    EXPECT_EQ(block.rounded, (bytes + 511) / 512 * 512);
    EXPECT_LE(block.size - block.rounded, kMiB);
    rounded += block.rounded;
  }
  EXPECT_EQ(allocated, allocator.allocated());
  EXPECT_EQ(rounded, allocator.rounded());
  EXPECT_GE(allocator.allocated(), allocator.rounded());
  EXPECT_GE(allocator.reserved(), allocator.peak_allocated());
}

// There is one segment, which grows by pages however large a block is.
TEST(Allocator, SegmentsThatGrow) {
  CachingAllocator allocator(/*grows=*/true);
  Handle a = allocator.Allocate(3 * kMiB);
  EXPECT_EQ(allocator.reserved(), 20 * kMiB);
  Handle b = allocator.Allocate(30 * kMiB);  // 17 MiB are free
  EXPECT_EQ(AddressOf(allocator, b), 3 * kMiB);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  Handle small = allocator.Allocate(1000);
  EXPECT_EQ(allocator.reserved(), 42 * kMiB);
  allocator.Free(a);
  allocator.Free(b);
  Handle all = allocator.Allocate(40 * kMiB);
  EXPECT_EQ(AddressOf(allocator, all), 0);
  EXPECT_EQ(allocator.reserved(), 42 * kMiB);
  EXPECT_EQ(allocator.allocated(), 40 * kMiB + 1024);
  allocator.Allocate(21 * kMiB);  // nothing is free at the end of the segment
  EXPECT_EQ(allocator.reserved(), 82 * kMiB);
  allocator.Free(small);
}

// The block at the end can grow without limit, so it is the last that is taken.
TEST(Allocator, TheEndOfASegmentThatGrowsIsTakenLast) {
  CachingAllocator allocator(/*grows=*/true);
  Handle hole = allocator.Allocate(12 * kMiB);
  Handle behind = allocator.Allocate(2 * kMiB);  // 6 MiB remain at the end
  allocator.Free(hole);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(5 * kMiB)), 0);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(8 * kMiB)), 14 * kMiB);
  EXPECT_EQ(AddressOf(allocator, allocator.Allocate(7 * kMiB)), 5 * kMiB);
  EXPECT_EQ(allocator.reserved(), 40 * kMiB);
  allocator.Free(behind);
}

class AllocatorSoundness : public ::testing::TestWithParam<bool> {};
// The expected address of a block of so many bytes: that of the smallest free block that is large enough, of equal ones
// the first, otherwise a new segment.
int64_t ExpectedAddress(const CachingAllocator& allocator, int64_t bytes) {
  int64_t size = (bytes + 511) / 512 * 512;
  bool small = size <= int64_t{1} << 20;
  std::pair<int64_t, int64_t> best{INT64_MAX, allocator.reserved()};  // size and address
  for (const CachingAllocator::Block& block : allocator.blocks()) {
    bool fits = !block.used && block.size >= size && block.small == small;
    if (fits) best = std::min(best, {block.size, block.address});
  }
  return best.second;
}

TEST(Allocator, TakesTheSmallestThatFitsWhateverCame) {
  std::mt19937_64 rng(11);
  CachingAllocator allocator;
  std::vector<Handle> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.empty() || rng() % 100 < (step % 400 < 200 ? 65 : 40)) {
      int64_t bytes = 1 + static_cast<int64_t>(rng() % (uint64_t{1} << (8 + rng() % 17)));
      int64_t expected = ExpectedAddress(allocator, bytes);
      live.push_back(allocator.Allocate(bytes));
      ASSERT_EQ(allocator.blocks()[static_cast<size_t>(live.back())].address, expected) << step;
    } else {
      std::swap(live[rng() % live.size()], live.back());
      allocator.Free(live.back());
      live.pop_back();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grows, AllocatorSoundness, ::testing::Bool());

TEST_P(AllocatorSoundness, StaysSoundWhateverComes) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 rng(seed);
    CachingAllocator allocator(GetParam());
    std::map<Handle, int64_t> live;
    for (int step = 0; step < 2000; ++step) {
      bool more = live.empty() || rng() % 100 < (step % 400 < 200 ? 65 : 40);
      if (more) {
        int64_t bytes = 1 + static_cast<int64_t>(rng() % (uint64_t{1} << (4 + rng() % 24)));
        EXPECT_TRUE(live.emplace(allocator.Allocate(bytes), bytes).second);
      } else {
        auto at = std::next(live.begin(), static_cast<std::ptrdiff_t>(rng() % live.size()));
        allocator.Free(at->first);
        live.erase(at);
      }
      if (step % 50 == 0) ExpectSound(allocator, live);
    }
    for (const auto& [handle, bytes] : live) allocator.Free(handle);
    ExpectSound(allocator, {});
    EXPECT_EQ(allocator.allocated(), 0);
  }
}

}  // namespace
}  // namespace heddle
