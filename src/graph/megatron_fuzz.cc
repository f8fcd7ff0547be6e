// Any bytes either are refused with an InputError or describe a .bin of exactly the given size. The size is the first
// two bytes of the input.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "graph/megatron.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle;
  if (size < 2) return 0;
  int64_t bin_bytes = data[0] | data[1] << 8;
  MegatronIndex index;
  try {
    index = ParseMegatronIndex(std::as_bytes(std::span(data + 2, size - 2)), "fuzz.idx", bin_bytes,
                               "fuzz.bin");
  } catch (const InputError&) {
    return 0;
  }
  HEDDLE_CHECK_EQ(index.tokens * index.token_bytes, bin_bytes);
  HEDDLE_CHECK_GE(index.sequences, 0);
  HEDDLE_CHECK_LE(12 * index.sequences + 8 * index.documents + 34, size - 2);
  return 0;
}
