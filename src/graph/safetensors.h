// Safetensors: a flat file of named tensors that contains no code.
//
//   8 bytes      n, little-endian
//   n bytes      JSON, padded with spaces: {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//   the rest     the tensors, row-major, little-endian, back to back
//
// The reader refuses every file that is not exactly that: a header above 100 MB or one that does not begin with {,
// padding other than spaces, duplicate keys, more than 100,000 tensors, sizes that overflow or do not match the shape,
// and data with holes, overlaps or a remainder. Pickles (.pt, .pth, .bin) are refused by name. Every error is an
// InputError that names file, tensor and value.
//
//   SafetensorsFile file = SafetensorsFile::Open("gpt2.safetensors");
//   for (const SafetensorsEntry& entry : file.tensors()) Use(entry.name, file.Load(entry.name));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "graph/tensor.h"

namespace heddle {

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
inline constexpr int64_t kMaxSafetensorsTensors = 100'000;

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  int64_t begin = 0;  // bytes from the start of the data
  int64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their names
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // bytes from the start of the file
};

// Parses and checks a whole file in memory. `file` names it in errors. Reads the header only.
SafetensorsHeader ParseSafetensors(std::span<const std::byte> bytes, std::string_view file);

// A file mapped into memory. Open reads the header; Load reads only the requested tensor. Const methods may be called
// from several threads. The file must not be truncated while it is open.
class SafetensorsFile {
 public:
  static SafetensorsFile Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Null where the file has no such tensor. O(log n).
  const SafetensorsEntry* Find(std::string_view name) const;

  // The bytes of a tensor in the mapped file, valid as long as this object. Throws an InputError where the file has no
  // such tensor.
  std::span<const std::byte> Bytes(std::string_view name) const;

  // A copy of a tensor. Throws as Bytes does, and where an element of a BOOL is neither 0 nor 1.
  HostTensor Load(std::string_view name) const;
  std::map<std::string, HostTensor> LoadAll() const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  MappedFile mapping_;
  SafetensorsHeader header_;
};

struct NamedTensor {
  std::string name;
  const HostTensor* tensor = nullptr;
};

struct WrittenFile {
  int64_t bytes = 0;
  uint64_t hash = 0;  // XXH64
};

// Writes a file; if writing fails, the previous file stays unchanged. The bytes depend only on the arguments: tensors
// are laid out by descending element size, then by name, each aligned to its element size; their order in `tensors`
// does not matter. The data is not copied. Throws an InputError where names repeat, are not UTF-8 or are
// "__metadata__", and where `path` cannot be written. Returns the size and the hash of the file, which is computed
// during writing.
WrittenFile WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata = {});

}  // namespace heddle
