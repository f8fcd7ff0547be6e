// Safetensors: a flat file of named tensors, without code in it.
//
//   8 bytes      n, little-endian
//   n bytes      JSON, padded with spaces:
//   {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}} the rest     the tensors, row-major,
//   little-endian, back to back
//
// The reader refuses whatever is not exactly that: a header above 100 MB or that does not begin
// with {, padding other than spaces, keys given twice, more than 100,000 tensors, sizes that
// overflow or do not fit the shape, and data with holes, overlaps or a rest. Pickles (.pt, .pth,
// .bin) are refused with their name. Every error is an InputError that names file, tensor and
// value.
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

// Parses and checks a whole file in memory; `file` names it in errors. Reads the header only.
SafetensorsHeader ParseSafetensors(std::span<const std::byte> bytes, std::string_view file);

// A file mapped into memory: opening reads the header, Load only the tensor asked for. Const
// methods may be called from several threads. The file must not be cut shorter while it is open.
class SafetensorsFile {
 public:
  static SafetensorsFile Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Null where there is no such tensor. O(log n).
  const SafetensorsEntry* Find(std::string_view name) const;

  // The bytes of a tensor where they lie, valid as long as this object. Throws InputError where
  // there is no such tensor.
  std::span<const std::byte> Bytes(std::string_view name) const;

  // A copy of a tensor. Throws as Bytes does, and where a BOOL is neither 0 nor 1.
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

// Writes a file that either is whole or does not change what was there. The bytes depend on nothing
// but the arguments: tensors are laid out by descending size of element, then by name, each aligned
// to its element; their order in `tensors` does not matter. No copy of the data is made. Throws
// InputError on names that repeat, are not UTF-8 or are "__metadata__", and where `path` cannot be
// written. Returns what the file holds: its hash is found while it is written.
WrittenFile WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata = {});

}  // namespace heddle
