#include "base/hash.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/hash_stream.h"

namespace heddle {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

template <class Word>
std::uint64_t Read(const unsigned char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t Round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t Merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ Round(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

HashStream::HashStream(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void HashStream::AddStripe(const unsigned char* at) {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i] = Round(lanes_[i], Read<std::uint64_t>(at + 8 * i));
}

void HashStream::Add(const void* data, std::size_t size) {
  const unsigned char* at = static_cast<const unsigned char*>(data);
  const std::size_t held = size_ % kStripe;
  size_ += size;
  if (held + size < kStripe) {
    if (size > 0) std::memcpy(rest_.data() + held, at, size);
    return;
  }
  if (held > 0) {
    std::memcpy(rest_.data() + held, at, kStripe - held);
    AddStripe(rest_.data());
    at += kStripe - held;
    size -= kStripe - held;
  }
  for (; size >= kStripe; at += kStripe, size -= kStripe) AddStripe(at);
  if (size > 0) std::memcpy(rest_.data(), at, size);
}

std::uint64_t HashStream::Finish() const {
  std::uint64_t hash = seed_ + kPrime5;
  if (size_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (std::uint64_t lane : lanes_) hash = Merge(hash, lane);
  }
  hash += size_;
  const unsigned char* at = rest_.data();
  const unsigned char* end = at + size_ % kStripe;
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ Round(0, Read<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ (Read<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) hash = std::rotl(hash ^ (*at * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t HashBytes(const void* data, std::size_t size, std::uint64_t seed) {
  HashStream stream(seed);
  stream.Add(data, size);
  return stream.Finish();
}

std::uint64_t HashString(std::string_view text, std::uint64_t seed) {
  return HashBytes(text.data(), text.size(), seed);
}

std::uint64_t HashCombine(std::uint64_t hash, std::uint64_t next) {
  std::uint64_t words[2] = {hash, next};
  return HashBytes(words, sizeof words);
}

std::string HashToHex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace heddle
