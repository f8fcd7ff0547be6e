// Reads tensor data that an ONNX file stores in another file beside it.
//
// The location comes from an untrusted file, so nothing outside of the model's folder may be reachable. The path must
// be relative, without "..", resolve inside the folder without following symbolic links (openat2 where the kernel
// supports it, otherwise folder by folder with O_NOFOLLOW), and name a regular file with one hard link. Offset and
// length are checked against the size of the opened file.
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

// Parses the key/value entries of a tensor. Throws an InputError that begins with `what` for an unknown key, a location
// that is missing or leaves the folder, and a number that is not a non-negative decimal.
ExternalData ParseExternalData(const std::vector<std::pair<std::string, std::string>>& entries,
                               std::string_view what);

// The `size` bytes of a tensor. Empty where the file does not exist, which is normal for a model whose weights were
// removed. Throws an InputError for every other problem.
std::optional<std::vector<std::byte>> ReadExternalData(const std::filesystem::path& folder,
                                                       const ExternalData& data, int64_t size,
                                                       std::string_view what);

}  // namespace heddle
