// How many bytes of host memory the tensors of a rank take now, and took at most.
//
//   MeterAllocations();                                // once, before there are other threads
//   AllocationMeter meter;
//   AllocationMeter::Scope scope(meter);               // counts what this thread allocates from here on
//   at::Tensor x = at::zeros({1000});
//   meter.bytes() == 4000
//
// The meter counts the bytes that libtorch asks its CPU allocator for: storages of tensors and what kernels take
// through it, but not what libraries take from malloc. A storage belongs to the meter under which it was made,
// whichever thread frees it. Threads that kernels start themselves have no meter. Making and freeing a storage takes
// about 0.1 us more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace heddle {

// Replaces the CPU allocator of libtorch by one that counts and calls it. Further calls do nothing. Without it meters
// stay at 0.
void MeterAllocations();

class AllocationMeter {
 public:
  struct Counts {
    std::atomic<int64_t> bytes = 0, peak = 0;
    void Add(int64_t more);
  };

  int64_t bytes() const { return counts_->bytes.load(std::memory_order_relaxed); }
  // Since the meter was made, or since the last ResetPeak.
  int64_t peak() const { return counts_->peak.load(std::memory_order_relaxed); }
  void ResetPeak() { counts_->peak.store(bytes(), std::memory_order_relaxed); }

  // Applies to the calling thread. Scopes nest; the meter outlives them.
  class Scope {
   public:
    explicit Scope(const AllocationMeter& meter);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const std::shared_ptr<Counts>* before_;
  };

 private:
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();  // storages may outlive the meter
};

}  // namespace heddle
