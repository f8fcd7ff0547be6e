#include "graph/safetensors.h"

#include <algorithm>
#include <bit>
#include <ostream>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash_stream.h"
#include "base/json.h"
#include "graph/text.h"

namespace heddle {
namespace {

// Bytes that are hashed and then written while they are in the cache.
constexpr size_t kPiece = size_t{1} << 18;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

// Entries are sorted by name, without duplicates.
const SafetensorsEntry* FindEntry(const std::vector<SafetensorsEntry>& entries,
                                  std::string_view name) {
  auto it = std::ranges::lower_bound(entries, name, {}, &SafetensorsEntry::name);
  return it != entries.end() && it->name == name ? &*it : nullptr;
}

std::string JsonString(const std::string& text, std::string_view what, const std::string& path) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    ThrowInput("{}: cannot write {}: it is not UTF-8", path, what);
  }
}

// The header, preceded by its length and padded so that the data begins at a multiple of 8.
std::string MakeHeader(const std::string& path, std::span<const NamedTensor* const> layout,
                       const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":";
    char separator = '{';
    for (const auto& [key, value] : metadata) {
      json += separator + JsonString(key, "a key of the metadata", path) + ":" +
              JsonString(value, "metadata " + Quote(key), path);
      separator = ',';
    }
    json += "}";
  }
  int64_t offset = 0;
  for (const NamedTensor* item : layout) {
    int64_t end = offset + static_cast<int64_t>(item->tensor->data.size());
    if (json.size() > 1) json += ",";
    json += JsonString(item->name, "tensor " + Quote(item->name), path);
    json += fmt::format(R"(:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                        Info(item->tensor->dtype).safetensors, ToString(item->tensor->shape),
                        offset, end);
    offset = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (static_cast<int64_t>(json.size()) > kMaxSafetensorsHeader) {
    ThrowInput("{}: the header would have {} bytes, above {}; use fewer or shorter names", path,
               json.size(), kMaxSafetensorsHeader);
  }
  uint64_t size = json.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + json;
}

}  // namespace

SafetensorsFile SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = MappedFile::Open(path);
  file.header_ = ParseSafetensors(file.mapping_.bytes(), path);
  return file;
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  return FindEntry(header_.tensors, name);
}

std::span<const std::byte> SafetensorsFile::Bytes(std::string_view name) const {
  const SafetensorsEntry* entry = Find(name);
  if (!entry) ThrowInput("{}: has no tensor '{}'; it has {} others", path_, name, tensors().size());
  return mapping_.bytes().subspan(static_cast<size_t>(header_.data_begin + entry->begin),
                                  static_cast<size_t>(entry->end - entry->begin));
}

HostTensor SafetensorsFile::Load(std::string_view name) const {
  std::span<const std::byte> bytes = Bytes(name);
  const SafetensorsEntry* entry = Find(name);
  HostTensor tensor;
  tensor.dtype = entry->type.dtype;
  tensor.shape = entry->type.shape;
  tensor.data.assign(bytes.begin(), bytes.end());
  if (tensor.dtype == DType::kBool) {
    auto bad = std::ranges::find_if(tensor.data, [](std::byte b) { return b > std::byte{1}; });
    if (bad != tensor.data.end()) {
      ThrowInput("{}: tensor '{}': element {} is {}, but a BOOL is 0 or 1", path_, name,
                 bad - tensor.data.begin(), std::to_integer<int>(*bad));
    }
  }
  return tensor;
}

std::map<std::string, HostTensor> SafetensorsFile::LoadAll() const {
  std::map<std::string, HostTensor> all;
  for (const SafetensorsEntry& entry : tensors()) all.emplace(entry.name, Load(entry.name));
  return all;
}

WrittenFile WriteSafetensors(const std::string& path, std::span<const NamedTensor> tensors,
                             const std::map<std::string, std::string>& metadata) {
  if (static_cast<int64_t>(tensors.size()) > kMaxSafetensorsTensors) {
    ThrowInput("{}: cannot write {} tensors, at most {}", path, tensors.size(),
               kMaxSafetensorsTensors);
  }
  std::vector<const NamedTensor*> layout;
  for (const NamedTensor& item : tensors) {
    HEDDLE_CHECK(item.tensor != nullptr, "tensor '{}'", item.name);
    HEDDLE_CHECK_EQ(static_cast<int64_t>(item.tensor->data.size()), ByteCount(item.tensor->type()));
    if (item.name == "__metadata__") {
      ThrowInput("{}: a tensor may not be named __metadata__; rename it", path);
    }
    layout.push_back(&item);
  }
  std::ranges::sort(layout, {}, &NamedTensor::name);
  auto twice = std::ranges::adjacent_find(layout, {}, &NamedTensor::name);
  if (twice != layout.end()) ThrowInput("{}: tensor '{}' is given twice", path, (*twice)->name);
  std::ranges::stable_sort(layout, std::greater<>(),
                           [](const NamedTensor* item) { return SizeOf(item->tensor->dtype); });

  std::string header = MakeHeader(path, layout, metadata);
  WrittenFile written;
  HashStream hash;
  WriteFileAtomically(path, [&](std::ostream& out) {
    auto put = [&](const char* at, size_t size) {
      hash.Add(at, size);
      out.write(at, static_cast<std::streamsize>(size));
      written.bytes += static_cast<int64_t>(size);
    };
    put(header.data(), header.size());
    for (const NamedTensor* item : layout) {
      const char* data = reinterpret_cast<const char*>(item->tensor->data.data());
      size_t size = item->tensor->data.size();
      for (size_t at = 0; at < size; at += kPiece) put(data + at, std::min(kPiece, size - at));
    }
  });
  written.hash = hash.Finish();
  return written;
}

}  // namespace heddle
