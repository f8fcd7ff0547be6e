// Files of token ids. They are mapped into memory and never read whole.
//
//   text          every byte is a token
//   NAME.bin      16-bit tokens and nothing else (nanoGPT), or behind llm.c's header: 256 int32, of which the
//                 first three are a magic number (20240520: 16-bit tokens, 20240801: 32-bit), a version and
//                 the number of tokens
//   NAME.idx with NAME.bin   Megatron-LM's pair (graph/megatron.h); either may be named, or NAME alone
//
// The name and the first bytes of a file determine its format. Every error is an InputError that names file, place and
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace heddle {

enum class TokenFormat : uint8_t { kText, kNanoGpt, kLlmC, kMegatron };

// "text", "nanoGPT", "llm.c", "Megatron".
std::string_view Name(TokenFormat format);

// The place of the tokens in a file: `count` integers of `width` bytes, starting at byte `begin`.
struct TokenLayout {
  TokenFormat format = TokenFormat::kText;
  int64_t begin = 0;
  int64_t width = 1;
  bool is_signed = false;
  int64_t count = 0;
  bool operator==(const TokenLayout&) const = default;
};

// The layout of a .bin without an index, and of a text. `file` names them in errors.
TokenLayout ParseTokenBin(std::span<const std::byte> bytes, std::string_view file);
TokenLayout ParseText(std::span<const std::byte> bytes, std::string_view file);

// Const methods may be called from several threads. The file must not be truncated while it is open.
class TokenFile {
 public:
  // Throws an InputError where the file is missing, empty, a directory or not of the format that its name says.
  static TokenFile Open(const std::string& path);

  const std::string& path() const { return path_; }  // the file that contains the tokens
  TokenFormat format() const { return layout_.format; }
  int64_t size() const { return layout_.count; }  // tokens; at least one

  // Reads tokens begin .. begin + out.size() - 1, which must exist.
  void Read(int64_t begin, std::span<int64_t> out) const;

  // The first token in [begin, end) that is below 0 or at least `bound`; `end` where there is none.
  int64_t FindBeyond(int64_t bound, int64_t begin, int64_t end) const;

  // The bytes of all tokens, without headers.
  std::span<const std::byte> tokens() const {
    return mapping_.bytes().subspan(static_cast<size_t>(layout_.begin),
                                    static_cast<size_t>(layout_.count * layout_.width));
  }

  // The byte of the file at which the token begins.
  int64_t ByteOf(int64_t token) const { return layout_.begin + token * layout_.width; }

 private:
  std::string path_;
  MappedFile mapping_;
  TokenLayout layout_;
};

}  // namespace heddle
