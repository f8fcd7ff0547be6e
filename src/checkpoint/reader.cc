#include "checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace heddle {
namespace {

struct TileData {
  const Tile* tile;
  std::vector<float> values;  // of all of its pieces
};

// Copies the elements of a tile, in its order, to their positions in a tensor of this shape. `to` is the position given
// by the dimensions before `dim`.
void Put(const Tile& tile, const Shape& shape, size_t dim, float* to, const float*& from) {
  if (dim == tile.size()) {
    *to = *from++;
    return;
  }
  int64_t stride = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) stride *= shape[d];
  bool innermost = dim + 1 == tile.size();
  for (Block range : tile[dim]) {
    if (innermost) {
      std::copy_n(from, range.size(), to + range.begin);
      from += range.size();
      continue;
    }
    for (int64_t i = range.begin; i < range.end; ++i)
      Put(tile, shape, dim + 1, to + i * stride, from);
  }
}

// The positions of the kept elements of a pruned parameter in a piece of `elements`; nullopt if the file has all
// elements.
std::optional<std::vector<int64_t>> IndexOf(const SafetensorsFile& file, const std::string& name,
                                            int64_t elements) {
  std::string key = fmt::format("{}/{}", kIndexName, name);
  const SafetensorsEntry* entry = file.Find(key);
  if (entry == nullptr) return std::nullopt;
  bool wide = entry->type.dtype == DType::kI64;
  if ((!wide && entry->type.dtype != DType::kI32) || entry->type.shape.size() != 1) {
    ThrowInput("{}: tensor '{}' is {}: expected an index, a list of i32 or i64", file.path(), key,
               ToString(entry->type));
  }
  HostTensor loaded = file.Load(key);
  std::vector<int64_t> index;
  for (int64_t i = 0; i < entry->type.shape[0]; ++i) {
    size_t at = static_cast<size_t>(i);
    index.push_back(wide ? loaded.as<int64_t>()[at] : loaded.as<int32_t>()[at]);
    if (index.back() < 0 || index.back() >= elements) {
      ThrowInput("{}: tensor '{}': {}: its piece has only {} elements", file.path(), key,
                 index.back(), elements);
    }
  }
  return index;
}

}  // namespace

CheckpointReader::CheckpointReader(std::string path, Manifest manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {}

const SafetensorsFile& CheckpointReader::File(const std::string& name) {
  auto found = files_.find(name);
  if (found == files_.end()) {
    found = files_.emplace(name, SafetensorsFile::Open(path_ + "/" + name)).first;
  }
  return found->second;
}

// Null if the optimizer has no such moments.
const SafetensorsEntry* CheckpointReader::Entry(StateKind kind, const std::string& name,
                                                const CheckpointPiece& piece) {
  const SafetensorsFile& file = File(piece.file);
  std::string key = fmt::format("{}/{}", kStateNames[static_cast<size_t>(kind)], name);
  const SafetensorsEntry* entry = file.Find(key);
  if (entry == nullptr) {
    if (kind != StateKind::kWeights) return nullptr;
    ThrowInput("{}: tensor '{}' is missing", file.path(), key);
  }
  const SafetensorsEntry* index = file.Find(fmt::format("{}/{}", kIndexName, name));
  int64_t elements = piece.elements.size();
  if (index != nullptr && index->type.shape.size() == 1) elements = index->type.shape[0];
  if (entry->type != TensorType{DType::kF32, {elements}}) {
    ThrowInput("{}: tensor '{}' is {}, but {} f32[{}]", file.path(), key, ToString(entry->type),
               index != nullptr ? "its index says" : "the manifest says", elements);
  }
  return entry;
}

void CheckpointReader::RequirePieces() {
  for (const auto& [name, tensor] : manifest_.tensors) {
    std::map<StateKind, int> with, without;
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.elements.size() == 0) continue;
      IndexOf(File(piece.file), name, piece.elements.size());
      for (StateKind kind : {StateKind::kWeights, StateKind::kFirst, StateKind::kSecond}) {
        ++(Entry(kind, name, piece) != nullptr ? with : without)[kind];
        if (with[kind] > 0 && without[kind] > 0) {
          ThrowInput("{}: only some pieces of '{}' have {} moments", path_, name,
                     kStateNames[static_cast<size_t>(kind)]);
        }
      }
    }
  }
}

std::optional<HostTensor> CheckpointReader::Whole(StateKind kind, const std::string& name) {
  auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    ThrowInput("{}: no parameter '{}': this is a checkpoint of another model", path_, name);
  }
  const CheckpointTensor& tensor = found->second;
  std::string key = fmt::format("{}/{}", kStateNames[static_cast<size_t>(kind)], name);
  HostTensor whole(DType::kF32, tensor.shape);
  std::vector<TileData> tiles;
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (piece.elements.size() == 0) continue;
    if (Entry(kind, name, piece) == nullptr) return std::nullopt;
    const SafetensorsFile& file = File(piece.file);
    std::optional<std::vector<int64_t>> index = IndexOf(file, name, piece.elements.size());
    auto at = std::find_if(tiles.begin(), tiles.end(),
                           [&](const TileData& data) { return *data.tile == piece.tile; });
    if (at == tiles.end()) {
      size_t elements = static_cast<size_t>(ElementCount(ShapeOf(piece.tile), name));
      at = tiles.insert(at, {&piece.tile, std::vector<float>(elements)});
    }
    std::span<const std::byte> bytes = file.Bytes(key);
    float* to = at->values.data() + piece.elements.begin;
    if (!index) {
      std::memcpy(to, bytes.data(), bytes.size());
      continue;
    }
    for (size_t i = 0; i < index->size(); ++i) {
      std::memcpy(to + (*index)[i], bytes.data() + i * sizeof(float), sizeof(float));
    }
  }
  for (const TileData& data : tiles) {
    const float* from = data.values.data();
    Put(*data.tile, tensor.shape, 0, whole.as<float>().data(), from);
  }
  return whole;
}

void CheckpointReader::RequireModel(const Graph& graph) const {
  std::vector<std::string> wrong;
  std::map<std::string, const CheckpointTensor*> left;
  for (const auto& [name, tensor] : manifest_.tensors) left[name] = &tensor;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::kParameter) continue;
    auto found = left.find(value.name);
    if (found == left.end()) {
      wrong.push_back(fmt::format("'{}' is not in the checkpoint", value.name));
      continue;
    }
    if (found->second->shape != value.type.shape) {
      wrong.push_back(fmt::format("'{}' is {} in the checkpoint and {} in the model", value.name,
                                  ToString(found->second->shape), ToString(value.type.shape)));
    }
    left.erase(found);
  }
  for (const auto& [name, tensor] : left) {
    wrong.push_back(fmt::format("'{}' is not in the model", name));
  }
  if (wrong.empty()) return;
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < wrong.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : "; ") + wrong[i];
  }
  if (wrong.size() > kShown) text += fmt::format("; and {} more", wrong.size() - kShown);
  ThrowInput("{}: this is a checkpoint of another model: {}", path_, text);
}

}  // namespace heddle
