#include "base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle {

std::uint64_t HashBytes(const void* data, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

std::uint64_t HashString(std::string_view text, std::uint64_t seed) {
  return HashBytes(text.data(), text.size(), seed);
}

std::uint64_t HashCombine(std::uint64_t hash, std::uint64_t next) {
  unsigned char bytes[16];
  for (unsigned i = 0; i < 8; ++i) {  // little-endian on every machine
    bytes[i] = static_cast<unsigned char>(hash >> (8 * i));
    bytes[8 + i] = static_cast<unsigned char>(next >> (8 * i));
  }
  return HashBytes(bytes, sizeof bytes);
}

std::string HashToHex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace heddle
