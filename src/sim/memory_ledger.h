// Counts the storages on a device while its list of instructions is replayed. Each storage has a number of holders and
// is freed when the last holder drops it. The ledger sums bytes in total and by kind, records peaks and, on request,
// drives models of PyTorch's caching allocator.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "sim/allocator.h"
#include "sim/memory.h"

namespace heddle {

class MemoryLedger {
 public:
  // With `spills`, memory comes from growing segments: one for fetched weights and one for everything else.
  MemoryLedger(bool allocator, bool kinds, bool spills)
      : allocates_(allocator),
        follows_kinds_(kinds),
        allocators_(spills ? 2 : 1, CachingAllocator(spills)) {}

  int New(int64_t bytes, MemoryKind kind, int holders) {
    int id;
    if (free_.empty()) {
      id = static_cast<int>(storages_.size());
      storages_.push_back({});
    } else {
      id = free_.back();
      free_.pop_back();
    }
    Storage& made = storages_[static_cast<size_t>(id)];
    made.bytes = bytes;
    made.holders = holders;
    made.kind = kind;
    made.allocator = fetching_ ? allocators_.size() - 1 : 0;
    if (allocates_) made.block = allocators_[made.allocator].Allocate(bytes);
    kinds_[static_cast<size_t>(kind)] += bytes;
    live_ += bytes;
    if (live_ > recent_peak_) UpdatePeaks();
    return id;
  }
  void Hold(int id) { ++storages_[static_cast<size_t>(id)].holders; }
  void Drop(int id) {
    Storage& storage = storages_[static_cast<size_t>(id)];
    if (--storage.holders > 0) return;
    HEDDLE_CHECK(storage.holders == 0, "a storage is dropped twice");
    kinds_[static_cast<size_t>(storage.kind)] -= storage.bytes;
    live_ -= storage.bytes;
    if (allocates_) allocators_[storage.allocator].Free(storage.block);
    free_.push_back(id);
  }

  int64_t live() const { return live_; }
  MemoryKinds kinds() const { return ToKinds(kinds_); }
  // The peak since the last call.
  int64_t TakePeak() {
    int64_t most = recent_peak_;
    recent_peak_ = live_;
    return most;
  }
  MemoryKinds TakePeakKinds() {
    MemoryKinds most = ToKinds(recent_peak_kinds_);
    recent_peak_kinds_ = kinds_;
    return most;
  }
  int64_t peak() const { return peak_; }
  MemoryKinds peak_kinds() const { return ToKinds(peak_kinds_); }
  // Whether the storages made from now on belong to a fetch.
  void SetFetching(bool fetching) { fetching_ = fetching; }
  template <class Get>
  int64_t SumOverAllocators(Get get) const {
    int64_t sum = 0;
    for (const CachingAllocator& allocator : allocators_) sum += (allocator.*get)();
    return sum;
  }

 private:
  using Kinds = std::array<int64_t, kMemoryKindNames.size()>;
  struct Storage {
    int64_t bytes = 0;
    int holders = 0;
    CachingAllocator::Handle block = 0;
    size_t allocator = 0;
    MemoryKind kind = MemoryKind::kActivations;
  };

  static MemoryKinds ToKinds(const Kinds& k) { return {k[0], k[1], k[2], k[3], k[4]}; }
  void UpdatePeaks() {
    recent_peak_ = live_;
    if (follows_kinds_) recent_peak_kinds_ = kinds_;
    if (live_ <= peak_) return;
    peak_ = live_;
    peak_kinds_ = kinds_;
  }

  bool allocates_, follows_kinds_;
  std::vector<Storage> storages_;
  std::vector<int> free_;
  Kinds kinds_ = {}, peak_kinds_ = {}, recent_peak_kinds_ = {};
  int64_t live_ = 0, recent_peak_ = 0, peak_ = 0;
  std::vector<CachingAllocator> allocators_;
  bool fetching_ = false;
};

}  // namespace heddle
