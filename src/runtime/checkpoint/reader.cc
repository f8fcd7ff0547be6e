#include "runtime/checkpoint/reader.h"

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/tiles.h"

namespace heddle {

CheckpointReader::CheckpointReader(std::string path, Manifest manifest)
    : path_(std::move(path)), manifest_(std::move(manifest)) {}

const SafetensorsFile& CheckpointReader::File(const std::string& name) {
  auto found = files_.find(name);
  if (found == files_.end()) {
    found = files_.emplace(name, SafetensorsFile::Open(path_ + "/" + name)).first;
  }
  return found->second;
}

at::Tensor CheckpointReader::Whole(StateKind kind, const std::string& name) {
  auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    ThrowInput("{}: no parameter '{}': it is a checkpoint of another model", path_, name);
  }
  const CheckpointTensor& tensor = found->second;
  std::string key = fmt::format("{}/{}", kStateNames[static_cast<size_t>(kind)], name);
  at::Tensor whole = at::zeros(tensor.shape, at::kFloat);
  // Tiles that several pieces make up.
  std::vector<std::pair<Tile, at::Tensor>> tiles;
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (piece.elements.size() == 0) continue;
    const SafetensorsFile& file = File(piece.file);
    const SafetensorsEntry* entry = file.Find(key);
    if (entry == nullptr) {
      if (kind != StateKind::kWeights) return {};
      ThrowInput("{}: tensor '{}' is missing", file.path(), key);
    }
    if (entry->type != TensorType{DType::kF32, {piece.elements.size()}}) {
      ThrowInput("{}: tensor '{}' is {}, the manifest says f32[{}]", file.path(), key,
                 ToString(entry->type), piece.elements.size());
    }
    auto at = tiles.begin();
    while (at != tiles.end() && at->first != piece.tile) ++at;
    if (at == tiles.end()) {
      int64_t elements = ElementCount(ShapeOf(piece.tile), name);
      at = tiles.insert(at, {piece.tile, at::zeros({elements}, at::kFloat)});
    }
    std::span<const std::byte> bytes = file.Bytes(key);
    std::copy(bytes.begin(), bytes.end(),
              reinterpret_cast<std::byte*>(at->second.data_ptr<float>() + piece.elements.begin));
  }
  for (auto& [tile, values] : tiles) PutTile(whole, tile, values.view(ShapeOf(tile)));
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
      wrong.push_back(fmt::format("'{}' is not in it", value.name));
      continue;
    }
    if (found->second->shape != value.type.shape) {
      wrong.push_back(fmt::format("'{}' is {} there and {} here", value.name,
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
  ThrowInput("{}: a checkpoint of another model: {}", path_, text);
}

}  // namespace heddle
