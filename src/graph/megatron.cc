#include "graph/megatron.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/checked_math.h"
#include "base/error.h"

namespace heddle {
namespace {

static_assert(std::endian::native == std::endian::little, "the index is little-endian");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr size_t kHeaderBytes = 34;

struct TokenType {
  std::string_view name;
  int64_t bytes;
  bool is_signed;
  bool is_float;
};
// By type code, from 1.
constexpr std::array<TokenType, 8> kTypes = {{{"u8", 1, false, false},
                                              {"i8", 1, true, false},
                                              {"i16", 2, true, false},
                                              {"i32", 4, true, false},
                                              {"i64", 8, true, false},
                                              {"f64", 8, true, true},
                                              {"f32", 4, true, true},
                                              {"u16", 2, false, false}}};

// Element `i` of the array that begins at byte `at`, which need not be aligned.
template <class T>
T Load(std::span<const std::byte> bytes, int64_t at, int64_t i = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

class IndexReader {
 public:
  IndexReader(std::span<const std::byte> bytes, std::string_view file, int64_t bin_bytes,
              std::string_view bin_file)
      : bytes_(bytes), file_(file), bin_bytes_(bin_bytes), bin_file_(bin_file) {}

  MegatronIndex Read() {
    ReadHeader();
    CheckSize();
    CheckSequences();
    CheckDocuments();
    return index_;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

  int64_t Count(int64_t at, std::string_view what) const {
    auto count = Load<uint64_t>(bytes_, at);
    // Each sequence and mark takes at least 8 bytes, so counts that pass this check cannot overflow below.
    if (count > bytes_.size() / 8) {
      ThrowInput("{}: byte {}: {} {}, more than its {} bytes can hold; the file is damaged", file_,
                 at, count, what, size());
    }
    return static_cast<int64_t>(count);
  }

  void ReadHeader() {
    if (bytes_.size() < kMagic.size() ||
        std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
      ThrowInput(
          "{}: byte 0: does not begin with MMIDIDX, so it is not a Megatron index; if {} is a "
          "plain "
          "file of tokens, move the .idx away",
          file_, bin_file_);
    }
    if (bytes_.size() < kHeaderBytes) {
      ThrowInput("{}: has {} bytes, too few for the header of {}; the file is damaged", file_,
                 size(), kHeaderBytes);
    }
    auto version = Load<uint64_t>(bytes_, 9);
    if (version != 1)
      ThrowInput("{}: byte 9: version {}, only version 1 is supported", file_, version);
    auto code = Load<uint8_t>(bytes_, 17);
    if (code < 1 || code > kTypes.size()) {
      ThrowInput("{}: byte 17: type code {} is not one of 1 to {}", file_, int{code},
                 kTypes.size());
    }
    const TokenType& type = kTypes[size_t{code} - 1];
    if (type.is_float) {
      ThrowInput("{}: byte 17: tokens of type {} (code {}); tokens must be integers", file_,
                 type.name, int{code});
    }
    index_.token_bytes = type.bytes;
    index_.is_signed = type.is_signed;
    index_.sequences = Count(18, "sequences");
    index_.documents = Count(26, "document marks");
  }

  void CheckSize() {
    lengths_ = static_cast<int64_t>(kHeaderBytes);
    pointers_ = lengths_ + 4 * index_.sequences;
    documents_ = pointers_ + 8 * index_.sequences;
    int64_t end = documents_ + 8 * index_.documents;
    int64_t with_modes = end + index_.sequences;
    if (size() != end && size() != with_modes) {
      ThrowInput(
          "{}: has {} bytes, but {} sequences and {} document marks take {} ({} with modes); the "
          "file is damaged",
          file_, size(), index_.sequences, index_.documents, end, with_modes);
    }
  }

  void CheckSequences() {
    int64_t expected = 0;  // bytes from the start of the .bin
    for (int64_t i = 0; i < index_.sequences; ++i) {
      int64_t length = Load<int32_t>(bytes_, lengths_, i);
      int64_t pointer = Load<int64_t>(bytes_, pointers_, i);
      if (length < 0) ThrowInput("{}: sequence {}: its length is {}", file_, i, length);
      if (pointer < 0 || pointer > bin_bytes_ ||
          length > (bin_bytes_ - pointer) / index_.token_bytes) {
        ThrowInput("{}: sequence {}: {} tokens of {} bytes at byte {}, but {} has {} bytes; {}",
                   file_, i, length, index_.token_bytes, pointer, bin_file_, bin_bytes_,
                   "do the two files belong together?");
      }
      if (pointer != expected) {
        ThrowInput(
            "{}: sequence {}: begins at byte {} of {}, not at {} where the previous one ends",
            file_, i, pointer, bin_file_, expected);
      }
      expected = pointer + length * index_.token_bytes;
    }
    if (expected != bin_bytes_) {
      ThrowInput(
          "{}: its sequences end at byte {}, but {} has {} bytes; do the two files belong "
          "together?",
          file_, expected, bin_file_, bin_bytes_);
    }
    index_.tokens = expected / index_.token_bytes;
  }

  void CheckDocuments() {
    int64_t before = 0;
    for (int64_t i = 0; i < index_.documents; ++i) {
      int64_t mark = Load<int64_t>(bytes_, documents_, i);
      if (mark < before || mark > index_.sequences || (i == 0 && mark != 0)) {
        ThrowInput("{}: document mark {} is {}; marks ascend from 0 to the {} sequences", file_, i,
                   mark, index_.sequences);
      }
      before = mark;
    }
    if (before != index_.sequences) {
      ThrowInput("{}: the last document mark is {}, not the {} sequences; the file is damaged",
                 file_, before, index_.sequences);
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  int64_t bin_bytes_;
  std::string_view bin_file_;
  int64_t lengths_ = 0, pointers_ = 0, documents_ = 0;  // bytes at which the arrays begin
  MegatronIndex index_;
};

}  // namespace

MegatronIndex ParseMegatronIndex(std::span<const std::byte> index, std::string_view file,
                                 int64_t bin_bytes, std::string_view bin_file) {
  return IndexReader(index, file, bin_bytes, bin_file).Read();
}

}  // namespace heddle
