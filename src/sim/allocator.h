// A model of PyTorch's caching allocator for CUDA: what a process has reserved is more than what it uses.
//
//   CachingAllocator allocator;
//   CachingAllocator::Handle a = allocator.Allocate(3 << 20);   // 3 MiB of a segment of 20
//   allocator.Free(a);                                          // the segment stays
//
// By c10/cuda/CUDACachingAllocator.cpp, with its defaults, on one stream and with memory without end:
//
//   - sizes are rounded up to 512 bytes
//   - up to 1 MiB they come from segments of 2 MiB, kept apart from the others; from there to 10 MiB (not included)
//     from segments of 20 MiB; larger ones get a segment of their own, rounded up to 2 MiB
//   - the smallest free block that is large enough is taken, of equals the one with the lowest address; what is left
//     of it becomes a free block where it is at least 512 bytes (small ones) or more than 1 MiB (others), and
//     otherwise is lost for as long as the block is in use
//   - a block that is freed is joined with free neighbours of its segment; nothing is given back
//
// Segments lie one after the other in the order in which they were asked for. Deterministic; O(free blocks) moves of memory.
//
// With segments that grow (expandable_segments:True) small blocks and others have one segment each:
//
//   - the free block at its end is taken only where no other is large enough; it grows by pages of 2 MiB (small ones)
//     or 20 MiB (others) as far as it must
//   - what is left of a block is always a free block
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

  // No bytes are no block: kNothing.
  Handle Allocate(int64_t bytes);
  void Free(Handle handle);

  // Blocks in use, and their peak: torch.cuda.memory_allocated, max_memory_allocated.
  int64_t allocated() const { return allocated_; }
  int64_t peak_allocated() const { return peak_allocated_; }
  // Of these, what was asked for, rounded.
  int64_t rounded() const { return rounded_; }
  // Segments: torch.cuda.memory_reserved. Never falls.
  int64_t reserved() const { return reserved_; }
  int64_t peak_reserved() const { return reserved_; }

  struct Block {
    int64_t address = 0, size = 0;
    int64_t rounded = 0;             // of what is in use: asked for
    int32_t before = -1, next = -1;  // neighbours within the segment
    bool small = false;
    bool used = false;
  };
  // By handle; handles of blocks that were joined to others have size 0.
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  struct Key {
    int64_t size, address;
    Handle handle;
    // No two free blocks have one address.
    bool operator<(const Key& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
  };

  Handle NewBlock();
  // The free block that is taken stays in the list: it is for Allocate to remove or replace its key.
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
  std::vector<Handle> unused_;                // of handles
  std::vector<Key> free_small_, free_large_;  // ascending: they are few
  bool grows_;
  std::array<Handle, 2> ends_ = {
      kNothing, kNothing};  // the last blocks of segments that grow: others', small ones'
  int64_t allocated_ = 0, peak_allocated_ = 0, rounded_ = 0, reserved_ = 0;
};

}  // namespace heddle
