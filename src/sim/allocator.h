// A model of PyTorch's caching allocator for CUDA, which reserves more memory than a process uses.
//
//   CachingAllocator allocator;
//   CachingAllocator::Handle a = allocator.Allocate(3 << 20);   // 3 MiB of a segment of 20
//   allocator.Free(a);                                          // the segment stays reserved
//
// It follows c10/cuda/CUDACachingAllocator.cpp with its defaults, on one stream and with unlimited memory:
//
// - Sizes are rounded up to 512 bytes.
// - Blocks of up to 1 MiB ("small") come from separate segments of 2 MiB. Blocks above that and below 10 MiB come from
//   segments of 20 MiB. Larger blocks get a segment of their own, rounded up to 2 MiB.
// - The smallest free block that is large enough is taken; of equal ones the one with the lowest address. The remainder
//   becomes a free block if it is at least 512 bytes (small blocks) or more than 1 MiB (others); otherwise it is lost as
//   long as the block is in use.
// - A freed block is joined with free neighbours in its segment. Segments are never given back.
//
// Segments have ascending addresses in the order in which they were requested. The model is deterministic; an operation
// moves O(free blocks) entries.
//
// With growing segments (expandable_segments:True) there is one segment for small blocks and one for all others:
//
// - The free block at the end of the segment is taken only if no other free block is large enough. It grows by pages of
//   2 MiB (small blocks) or 20 MiB (others) as far as necessary.
// - The remainder of a block always becomes a free block.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace heddle {

class CachingAllocator {
 public:
  using Handle = int32_t;
  static constexpr Handle kNothing = -1;

  explicit CachingAllocator(bool grows = false) : grows_(grows) {}

  // Returns kNothing for 0 bytes.
  Handle Allocate(int64_t bytes);
  void Free(Handle handle);

  // Bytes of blocks in use, and their peak: torch.cuda.memory_allocated, max_memory_allocated.
  int64_t allocated() const { return allocated_; }
  int64_t peak_allocated() const { return peak_allocated_; }
  // The part of `allocated` that was requested, with sizes rounded up.
  int64_t rounded() const { return rounded_; }
  // Bytes of segments: torch.cuda.memory_reserved. Never decreases.
  int64_t reserved() const { return reserved_; }
  int64_t peak_reserved() const { return reserved_; }

  struct Block {
    int64_t address = 0, size = 0;
    int64_t rounded = 0;             // requested bytes, rounded, while it is in use
    int32_t before = -1, next = -1;  // neighbours in the segment
    bool small = false;
    bool used = false;
  };
  // Blocks by handle. Blocks that were joined to others have size 0.
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  struct Key {
    int64_t size, address;
    Handle handle;
    // Free blocks have different addresses.
    bool operator<(const Key& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
  };

  Handle NewBlock();
  // The block stays in the list of free blocks: Allocate removes it or replaces its key.
  Handle FindFree(int64_t size, bool small);
  Handle NewSegment(int64_t size, bool small);
  Handle Grow(int64_t size, bool small);
  Handle Split(Handle handle, int64_t size);
  void Join(Handle into, Handle from);
  std::vector<Key>& FreeOf(bool small) { return small ? free_small_ : free_large_; }
  void AddFree(Handle handle);
  void RemoveFree(Handle handle);
  void ReplaceFree(Key old, Handle by);
  Key KeyOf(Handle handle) const;

  std::vector<Block> blocks_;
  std::vector<Handle> unused_;                // handles that can be reused
  std::vector<Key> free_small_, free_large_;  // ascending vectors, because free blocks are few
  bool grows_;
  std::array<Handle, 2> ends_ = {
      kNothing, kNothing};  // the last blocks of growing segments: of others, of small ones
  int64_t allocated_ = 0, peak_allocated_ = 0, rounded_ = 0, reserved_ = 0;
};

}  // namespace heddle
