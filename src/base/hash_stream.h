// XXH64 of bytes that arrive in pieces. The result equals HashBytes of all bytes together.
//
//   HashStream stream;
//   stream.Add(header.data(), header.size());
//   stream.Add(body.data(), body.size());
//   HashToHex(stream.Finish())
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle {

class HashStream {
 public:
  explicit HashStream(std::uint64_t seed = 0);
  void Add(const void* data, std::size_t size);
  std::uint64_t Finish() const;  // the hash of the bytes added so far

 private:
  static constexpr std::size_t kStripe = 32;
  void AddStripe(const unsigned char* at);

  std::uint64_t seed_;
  std::array<std::uint64_t, 4> lanes_;
  std::array<unsigned char, kStripe> rest_ = {};  // the bytes after the last whole stripe
  std::uint64_t size_ = 0;
};

}  // namespace heddle
