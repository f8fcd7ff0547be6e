// Stable 64-bit hashes (XXH64). They are the same on every machine and in every version, so they may be written to
// files and checked by other tools (xxhsum). They are not cryptographic.
//
// The implementation is our own, 40 lines of a frozen public specification, because GPU machines without a package
// manager have libtorch but not xxhash. The tests compare it with the library where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

std::uint64_t HashBytes(const void* data, std::size_t size, std::uint64_t seed = 0);
std::uint64_t HashString(std::string_view text, std::uint64_t seed = 0);

// Depends on the order: HashCombine(a, b) != HashCombine(b, a).
std::uint64_t HashCombine(std::uint64_t hash, std::uint64_t next);

std::string HashToHex(std::uint64_t hash);  // 16 digits

}  // namespace heddle
