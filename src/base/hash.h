// Stable 64-bit hashes (XXH64): the same on every machine and in every version, so they may be written to
// files, and other tools (xxhsum) can check them. Not for secrets.
//
// Written out here, 40 lines of a frozen public specification, because machines with GPUs and no package
// manager have libtorch but not xxhash; the tests compare with the library where it is installed.
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
