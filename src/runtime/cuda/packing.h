// What is kept of pruned weights or gradients, taken out of dense ones and put back, with the cast on the way.
#pragma once

#include <cstdint>

namespace heddle {

enum class PackedType : uint8_t { kF32, kBF16, kF16 };

struct PackedIndex {
  const void* data = nullptr;
  bool wide = false;  // int64, otherwise int32
  int64_t count = 0;
};

// kept[i] = dense[index[i]], both of one type. `stream` is a cudaStream_t. Returns the error of the launch, or null.
const char* GatherKept(const void* dense, PackedType type, const PackedIndex& index, void* kept,
                       void* stream);

// dense[index[i]] = kept[i].
const char* ScatterKept(const void* kept, PackedType kept_type, const PackedIndex& index,
                        void* dense, PackedType type, void* stream);

}  // namespace heddle
