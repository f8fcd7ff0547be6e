#include "graph/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "graph/megatron.h"

namespace heddle {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are stored little-endian");

constexpr int64_t kLlmCHeaderBytes = 256 * 4;
constexpr int32_t kLlmCMagic16 = 20240520;
constexpr int32_t kLlmCMagic32 = 20240801;
constexpr int32_t kLlmCMagicChoices = 20240522;  // multiple-choice questions

int32_t LoadInt32(std::span<const std::byte> bytes, size_t at) {
  int32_t value = 0;
  if (bytes.size() >= at + sizeof(value)) std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

bool IsZip(std::span<const std::byte> bytes) { return LoadInt32(bytes, 0) == 0x04034b50; }

TokenLayout ParseLlmC(std::span<const std::byte> bytes, std::string_view file, int64_t width,
                      int32_t version) {
  auto size = static_cast<int64_t>(bytes.size());
  if (size < kLlmCHeaderBytes) {
    ThrowInput("{}: has {} bytes, too few for llm.c's header of {}; the file is damaged", file,
               size, kLlmCHeaderBytes);
  }
  if (int32_t found = LoadInt32(bytes, 4); found != version) {
    ThrowInput("{}: byte 4: version {} of llm.c's format, only version {} is supported", file,
               found, version);
  }
  int64_t count = LoadInt32(bytes, 8);
  if (count < 0 || kLlmCHeaderBytes + count * width != size) {
    ThrowInput("{}: byte 8: {} tokens of {} bytes, but {} bytes follow the header; {}", file, count,
               width, size - kLlmCHeaderBytes, "the file is damaged");
  }
  if (count == 0) ThrowInput("{}: contains no tokens", file);
  return {TokenFormat::kLlmC, kLlmCHeaderBytes, width, false, count};
}

template <class T>
void Copy(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int64_t>(value);
  }
}

bool EndsWith(const std::string& path, std::string_view suffix) {
  return path.size() > suffix.size() && path.ends_with(suffix);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// NAME.idx where `path` names a Megatron pair, otherwise empty.
std::string IndexOf(const std::string& path) {
  if (EndsWith(path, ".idx")) return path;
  if (EndsWith(path, ".bin")) {
    std::string index = path.substr(0, path.size() - 4) + ".idx";
    return Exists(index) ? index : "";
  }
  bool pair = !Exists(path) && Exists(path + ".idx") && Exists(path + ".bin");
  return pair ? path + ".idx" : "";
}

}  // namespace

std::string_view Name(TokenFormat format) {
  constexpr std::array<std::string_view, 4> kNames = {"text", "nanoGPT", "llm.c", "Megatron"};
  return kNames[static_cast<size_t>(format)];
}

TokenLayout ParseTokenBin(std::span<const std::byte> bytes, std::string_view file) {
  auto size = static_cast<int64_t>(bytes.size());
  if (size == 0) ThrowInput("{}: is empty; give a file of tokens", file);
  switch (LoadInt32(bytes, 0)) {
    case kLlmCMagic16:
      return ParseLlmC(bytes, file, 2, 1);
    case kLlmCMagic32:
      return ParseLlmC(bytes, file, 4, 7);
    case kLlmCMagicChoices:
      ThrowInput("{}: byte 0: magic {}: multiple-choice questions of llm.c, not text", file,
                 kLlmCMagicChoices);
    default:
      break;
  }
  if (IsZip(bytes)) {
    ThrowInput("{}: is a zip archive (a PyTorch checkpoint?), not a file of tokens", file);
  }
  if (size % 2 != 0) {
    ThrowInput("{}: has {} bytes, which is not a whole number of 16-bit tokens; {}", file, size,
               "is it cut off, or of another format?");
  }
  return {TokenFormat::kNanoGpt, 0, 2, false, size / 2};
}

TokenLayout ParseText(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.empty()) ThrowInput("{}: is empty; give a file with text", file);
  auto head = bytes.first(std::min<size_t>(bytes.size(), 4096));
  if (auto zero = std::ranges::find(head, std::byte{0}); zero != head.end()) {
    ThrowInput(
        "{}: byte {} is 0, so it is not text; files of tokens end in .bin or .idx, files of "
        "tensors in .safetensors",
        file, zero - head.begin());
  }
  return {TokenFormat::kText, 0, 1, false, static_cast<int64_t>(bytes.size())};
}

TokenFile TokenFile::Open(const std::string& path) {
  TokenFile file;
  std::string index = IndexOf(path);
  if (index.empty()) {
    file.path_ = path;
    file.mapping_ = MappedFile::Open(path);
    auto bytes = file.mapping_.bytes();
    file.layout_ = EndsWith(path, ".bin") ? ParseTokenBin(bytes, path) : ParseText(bytes, path);
    return file;
  }
  file.path_ = index.substr(0, index.size() - 4) + ".bin";
  MappedFile mapped_index = MappedFile::Open(index);
  if (!Exists(file.path_)) {
    ThrowInput("{}: the file {} with its tokens is missing beside it", index, file.path_);
  }
  file.mapping_ = MappedFile::Open(file.path_);
  auto size = static_cast<int64_t>(file.mapping_.bytes().size());
  MegatronIndex read = ParseMegatronIndex(mapped_index.bytes(), index, size, file.path_);
  if (read.tokens == 0) ThrowInput("{}: contains no tokens", file.path_);
  file.layout_ = {TokenFormat::kMegatron, 0, read.token_bytes, read.is_signed, read.tokens};
  return file;
}

void TokenFile::Read(int64_t begin, std::span<int64_t> out) const {
  HEDDLE_CHECK(begin >= 0 && begin <= size() && std::cmp_less_equal(out.size(), size() - begin),
               "tokens {} + {} of {}", begin, out.size(), size());
  const std::byte* from = mapping_.bytes().data() + ByteOf(begin);
  switch (layout_.width) {
    case 1:
      return layout_.is_signed ? Copy<int8_t>(from, out) : Copy<uint8_t>(from, out);
    case 2:
      return layout_.is_signed ? Copy<int16_t>(from, out) : Copy<uint16_t>(from, out);
    case 4:
      return layout_.is_signed ? Copy<int32_t>(from, out) : Copy<uint32_t>(from, out);
    default:
      return Copy<int64_t>(from, out);
  }
}

int64_t TokenFile::FindBeyond(int64_t bound, int64_t begin, int64_t end) const {
  std::array<int64_t, 4096> chunk;
  while (begin < end) {
    auto part = std::span(chunk).first(
        static_cast<size_t>(std::min<int64_t>(end - begin, static_cast<int64_t>(chunk.size()))));
    Read(begin, part);
    auto bad =
        std::ranges::find_if(part, [&](int64_t token) { return token < 0 || token >= bound; });
    begin += bad - part.begin();
    if (bad != part.end()) return begin;
  }
  return end;
}

}  // namespace heddle
