#include "runtime/allocation_meter.h"

#include <c10/core/Allocator.h>

#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/check.h"

namespace heddle {
namespace {

thread_local const std::shared_ptr<AllocationMeter::Counts>* current = nullptr;

// The meter of every storage that exists. Ranks that are threads allocate at the same time: the table has shards.
class Owners {
 public:
  void Add(void* storage, int64_t bytes, const std::shared_ptr<AllocationMeter::Counts>& counts) {
    Shard& shard = ShardOf(storage);
    std::lock_guard<std::mutex> lock(shard.mutex);
    shard.storages[storage] = {bytes, counts};
  }

  void Remove(void* storage) {
    Shard& shard = ShardOf(storage);
    Owned owned;
    {
      std::lock_guard<std::mutex> lock(shard.mutex);
      auto found = shard.storages.find(storage);
      if (found == shard.storages.end()) return;
      owned = std::move(found->second);
      shard.storages.erase(found);
    }
    owned.counts->Add(-owned.bytes);
  }

 private:
  struct Owned {
    int64_t bytes = 0;
    std::shared_ptr<AllocationMeter::Counts> counts;
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<void*, Owned> storages;
  };

  Shard& ShardOf(void* storage) {
    uint64_t address = reinterpret_cast<uintptr_t>(storage);
    return shards_[address * 0x9e3779b97f4a7c15 >> 58];
  }

  std::array<Shard, 64> shards_;
};

// Both live as long as the process, because storages are freed at its very end, too.
Owners& owners() {
  static Owners* all = new Owners;
  return *all;
}
c10::DeleterFnPtr inner_deleter = nullptr;

void Free(void* storage) {
  if (storage != nullptr) owners().Remove(storage);
  inner_deleter(storage);
}

// Which of these functions override others depends on the version of libtorch: 2.x made allocate non-const and added
// copy_data.
class MeteringAllocator final : public c10::Allocator {
 public:
  explicit MeteringAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) const {
    c10::DataPtr made = inner_->allocate(bytes);
    if (made.get() == nullptr) return made;
    bool ours = made.compare_exchange_deleter(inner_deleter, &Free);
    if (ours && current != nullptr) {
      (*current)->Add(static_cast<int64_t>(bytes));
      owners().Add(made.get(), static_cast<int64_t>(bytes), *current);
    }
    return made;
  }
  c10::DataPtr allocate(size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  c10::Allocator* inner_;
};

}  // namespace

void MeterAllocations() {
  static MeteringAllocator* ours = [] {
    c10::Allocator* inner = c10::GetAllocator(c10::DeviceType::CPU);
    inner_deleter = inner->raw_deleter();
    HEDDLE_CHECK(inner_deleter != nullptr, "libtorch's CPU allocator has no deleter of its own");
    auto* made = new MeteringAllocator(inner);
    c10::SetAllocator(c10::DeviceType::CPU, made, /*priority=*/1);
    return made;
  }();
  static_cast<void>(ours);
}

void AllocationMeter::Counts::Add(int64_t more) {
  int64_t now = bytes.fetch_add(more, std::memory_order_relaxed) + more;
  int64_t most = peak.load(std::memory_order_relaxed);
  while (most < now && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

AllocationMeter::Scope::Scope(const AllocationMeter& meter) : before_(current) {
  current = &meter.counts_;
}
AllocationMeter::Scope::~Scope() { current = before_; }

}  // namespace heddle
