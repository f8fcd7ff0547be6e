// The index of a token file made by Megatron-LM: NAME.idx, beside the raw tokens in NAME.bin.
//
//   9 bytes      MMIDIDX\0\0
//   u64          version, 1
//   u8           type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//   u64 n, u64 d numbers of sequences and of document marks
//   n x i32      length of each sequence, in tokens
//   n x i64      where it begins in the .bin, in bytes
//   d x i64      where documents begin, in sequences: 0, ..., n
//   n x i8       modes, of multimodal files only
//
// Everything is little-endian. Megatron's writer stores the sequences back to back, so the tokens are the .bin from its
// first byte to its last; an index that describes another layout is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace heddle {

struct MegatronIndex {
  int64_t token_bytes = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t tokens = 0;  // token_bytes * tokens is the size of the .bin
};

// Parses and checks a whole index. `file` and `bin_file` name the two files in errors; `bin_bytes` is the size of the
// .bin. Throws an InputError with the place and the value. Allocates nothing; linear in the size.
MegatronIndex ParseMegatronIndex(std::span<const std::byte> index, std::string_view file,
                                 int64_t bin_bytes, std::string_view bin_file);

}  // namespace heddle
