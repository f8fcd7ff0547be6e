#include "sim/allocator.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kMinBlock = 512;
constexpr int64_t kSmall = kMiB;  // the largest size of a small block
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
// Blocks of this size and larger get a segment of their own.
constexpr int64_t kOwnSegment = 10 * kMiB;
constexpr int64_t kRoundSegment = 2 * kMiB;
// The start address of the growing segment of small blocks.
constexpr int64_t kSmallAddresses = int64_t{1} << 60;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t SegmentSize(int64_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : RoundUp(size, kRoundSegment);
}

}  // namespace

CachingAllocator::Key CachingAllocator::KeyOf(Handle handle) const {
  const Block& block = blocks_[static_cast<size_t>(handle)];
  return {block.size, block.address, handle};
}

void CachingAllocator::AddFree(Handle handle) {
  std::vector<Key>& free = FreeOf(blocks_[static_cast<size_t>(handle)].small);
  Key key = KeyOf(handle);
  free.insert(std::lower_bound(free.begin(), free.end(), key), key);
}

void CachingAllocator::RemoveFree(Handle handle) {
  std::vector<Key>& free = FreeOf(blocks_[static_cast<size_t>(handle)].small);
  free.erase(std::lower_bound(free.begin(), free.end(), KeyOf(handle)));
}

// Replaces the key of a free block by that of another block, or of the same block with another size. Only the keys
// between the two places in the list move.
void CachingAllocator::ReplaceFree(Key old, Handle by) {
  std::vector<Key>& free = FreeOf(blocks_[static_cast<size_t>(by)].small);
  Key key = KeyOf(by);
  auto from = std::lower_bound(free.begin(), free.end(), old);
  if (key < old) {
    auto to = std::lower_bound(free.begin(), from, key);
    std::move_backward(to, from, from + 1);
    *to = key;
  } else {
    auto to = std::lower_bound(from + 1, free.end(), key);
    std::move(from + 1, to, from);
    *(to - 1) = key;
  }
}

CachingAllocator::Handle CachingAllocator::NewBlock() {
  if (unused_.empty()) {
    blocks_.push_back({});
    return static_cast<Handle>(blocks_.size()) - 1;
  }
  Handle handle = unused_.back();
  unused_.pop_back();
  blocks_[static_cast<size_t>(handle)] = {};
  return handle;
}

CachingAllocator::Handle CachingAllocator::FindFree(int64_t size, bool small) {
  std::vector<Key>& free = FreeOf(small);
  auto found = std::lower_bound(free.begin(), free.end(), Key{size, 0, 0});
  // Its size is not limited.
  if (grows_ && found != free.end() && found->handle == ends_[small]) ++found;
  return found == free.end() ? kNothing : found->handle;
}

CachingAllocator::Handle CachingAllocator::NewSegment(int64_t size, bool small) {
  Handle handle = NewBlock();
  Block& block = blocks_[static_cast<size_t>(handle)];
  block.address = reserved_;
  block.size = SegmentSize(size);
  block.small = small;
  reserved_ += block.size;
  return handle;
}

// Takes a block at the end of the growing segment, which grows as far as necessary.
CachingAllocator::Handle CachingAllocator::Grow(int64_t size, bool small) {
  Handle end = ends_[small];
  bool begins = end == kNothing;
  if (begins || blocks_[static_cast<size_t>(end)].used) {
    Handle more = NewBlock();
    Block& block = blocks_[static_cast<size_t>(more)];
    block.small = small;
    block.before = end;
    block.address = small ? kSmallAddresses : 0;
    if (!begins) {
      Block& last = blocks_[static_cast<size_t>(end)];
      block.address = last.address + last.size;
      last.next = more;
    }
    ends_[small] = end = more;
  } else {
    RemoveFree(end);
  }
  Block& block = blocks_[static_cast<size_t>(end)];
  if (block.size < size) {
    int64_t more = RoundUp(size - block.size, small ? kSmallSegment : kLargeSegment);
    block.size += more;
    reserved_ += more;
  }
  return end;
}

// Cuts a block to `size`. The remainder becomes a free block behind it, which is not yet in a list.
CachingAllocator::Handle CachingAllocator::Split(Handle handle, int64_t size) {
  Handle rest = NewBlock();
  Block& block = blocks_[static_cast<size_t>(handle)];
  Block& behind = blocks_[static_cast<size_t>(rest)];
  behind.address = block.address + size;
  behind.size = block.size - size;
  behind.small = block.small;
  behind.before = handle;
  behind.next = block.next;
  if (block.next != kNothing) blocks_[static_cast<size_t>(block.next)].before = rest;
  block.next = rest;
  block.size = size;
  if (ends_[block.small] == handle) ends_[block.small] = rest;
  return rest;
}

CachingAllocator::Handle CachingAllocator::Allocate(int64_t bytes) {
  HEDDLE_CHECK(bytes >= 0, "{} bytes", bytes);
  if (bytes == 0) return kNothing;
  int64_t size = RoundUp(bytes, kMinBlock);
  bool small = size <= kSmall;
  Handle handle = FindFree(size, small);
  bool listed = handle != kNothing;
  if (!listed) handle = grows_ ? Grow(size, small) : NewSegment(size, small);
  int64_t rest = blocks_[static_cast<size_t>(handle)].size - size;
  bool splits = small || grows_ ? rest >= kMinBlock : rest > kSmall;
  if (splits) {
    Key key = KeyOf(handle);
    Handle behind = Split(handle, size);
    listed ? ReplaceFree(key, behind) : AddFree(behind);
  } else if (listed) {
    RemoveFree(handle);
  }
  Block& block = blocks_[static_cast<size_t>(handle)];
  block.used = true;
  block.rounded = size;
  rounded_ += size;
  allocated_ += block.size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return handle;
}

// Joins `from` to its preceding neighbour `into`.
void CachingAllocator::Join(Handle into, Handle from) {
  Block& first = blocks_[static_cast<size_t>(into)];
  Block& second = blocks_[static_cast<size_t>(from)];
  first.size += second.size;
  first.next = second.next;
  if (second.next != kNothing) blocks_[static_cast<size_t>(second.next)].before = into;
  if (ends_[first.small] == from) ends_[first.small] = into;
  second = {};
  unused_.push_back(from);
}

void CachingAllocator::Free(Handle handle) {
  if (handle == kNothing) return;
  Block& block = blocks_[static_cast<size_t>(handle)];
  HEDDLE_CHECK(block.used, "block {} is not in use", handle);
  block.used = false;
  allocated_ -= block.size;
  rounded_ -= block.rounded;
  Handle next = block.next, before = block.before;
  bool joins_next = next != kNothing && !blocks_[static_cast<size_t>(next)].used;
  bool joins_before = before != kNothing && !blocks_[static_cast<size_t>(before)].used;
  if (joins_next && joins_before) RemoveFree(next);
  Key key;  // the key in the free list of the block that is joined
  if (joins_before) {
    key = KeyOf(before);
  } else if (joins_next) {
    key = KeyOf(next);
  }
  if (joins_next) Join(handle, next);
  if (joins_before) {
    Join(before, handle);
    handle = before;
  }
  joins_next || joins_before ? ReplaceFree(key, handle) : AddFree(handle);
}

}  // namespace heddle
