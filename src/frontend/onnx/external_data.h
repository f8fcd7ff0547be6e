// Tensor data that an ONNX file keeps in another file beside it.
//
// The location comes from an untrusted file, so nothing outside the model's own folder may be
// reached: it must be relative, without "..", resolved beneath the folder without following a
// symbolic link (openat2 where the kernel has it, otherwise folder by folder with O_NOFOLLOW), a
// regular file with one name. Offset and length are checked against the size of the file that was
// opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

struct ExternalData {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;

  bool operator==(const ExternalData&) const = default;
};

// Reads the key/value entries of a tensor. Throws InputError, beginning with `what`, on a key that
// is not known, a missing or escaping location, or a number that is not a non-negative decimal.
ExternalData ParseExternalData(const std::vector<std::pair<std::string, std::string>>& entries,
                               std::string_view what);

// The `size` bytes of a tensor; nothing where the file is not there at all, which is normal for a
// model whose weights were stripped. Throws InputError for everything else.
std::optional<std::vector<std::byte>> ReadExternalData(const std::filesystem::path& folder,
                                                       const ExternalData& data, int64_t size,
                                                       std::string_view what);

}  // namespace heddle
