#include "checkpoint/manifest.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"

namespace heddle {
namespace {

[[noreturn]] void Refuse(std::string_view what, std::string_view field, const Json& value,
                         std::string_view expected) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  ThrowInput("{}: {}: {}: expected {}", what, field, shown, expected);
}

const Json& Field(const Json& json, const char* key, std::string_view what) {
  auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end()) ThrowInput("{}: {} is missing", what, key);
  return *found;
}

int64_t Natural(const Json& json, std::string_view what, std::string_view field) {
  bool whole = json.is_number_integer();
  if (!whole || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) ||
      json.get<int64_t>() < 0) {
    Refuse(what, field, json, "a whole number, 0 or more");
  }
  return json.get<int64_t>();
}

std::string Text(const Json& json, std::string_view what, std::string_view field) {
  if (!json.is_string()) Refuse(what, field, json, "text");
  return json.get<std::string>();
}

// A name in this folder and nothing else.
std::string FileName(const Json& json, std::string_view what, std::string_view field) {
  std::string name = Text(json, what, field);
  bool plain = !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
               name.find('\0') == std::string::npos;
  if (!plain) Refuse(what, field, json, "the name of a file beside the manifest");
  return name;
}

Block BlockFrom(const Json& json, std::string_view what, std::string_view field, int64_t size) {
  if (!json.is_array() || json.size() != 2) Refuse(what, field, json, "[begin, end]");
  Block block{Natural(json[0], what, field), Natural(json[1], what, field)};
  if (block.begin > block.end || block.end > size) {
    Refuse(what, field, json, "a range inside " + std::to_string(size));
  }
  return block;
}

Json ToJson(const Tile& tile) {
  Json json = Json::array();
  for (const Ranges& ranges : tile) {
    Json dim = Json::array();
    for (Block block : ranges) dim.push_back({block.begin, block.end});
    json.push_back(std::move(dim));
  }
  return json;
}

Tile TileFrom(const Json& json, const Shape& shape, std::string_view what, std::string_view field) {
  if (!json.is_array() || json.size() != shape.size()) {
    Refuse(what, field, json, std::to_string(shape.size()) + " dimensions");
  }
  Tile tile;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!json[d].is_array()) Refuse(what, field, json[d], "ranges");
    Ranges ranges;
    int64_t after = 0;
    for (const Json& range : json[d]) {
      ranges.push_back(BlockFrom(range, what, field, shape[d]));
      if (ranges.back().begin < after) Refuse(what, field, json[d], "ranges in ascending order");
      after = ranges.back().end;
    }
    tile.push_back(std::move(ranges));
  }
  return tile;
}

CheckpointTensor TensorFrom(const Json& json, std::string_view what, const std::string& name) {
  CheckpointTensor tensor;
  const Json& shape = Field(json, "shape", what);
  if (!shape.is_array() || shape.size() > static_cast<size_t>(kMaxRank)) {
    Refuse(what, name, shape, "a shape");
  }
  for (const Json& size : shape) tensor.shape.push_back(Natural(size, what, name));
  ElementCount(tensor.shape, name);  // throws where it overflows
  const Json& pieces = Field(json, "pieces", what);
  if (!pieces.is_array()) Refuse(what, name, pieces, "a list of pieces");
  for (const Json& piece : pieces) {
    CheckpointPiece made;
    made.file = FileName(Field(piece, "file", what), what, name);
    made.tile = TileFrom(Field(piece, "tile", what), tensor.shape, what, name);
    int64_t elements = ElementCount(ShapeOf(made.tile), name);
    made.elements = BlockFrom(Field(piece, "elements", what), what, name, elements);
    tensor.pieces.push_back(std::move(made));
  }
  return tensor;
}

// Tiles are alike or do not touch, and the pieces of a tile follow each other.
void RequireWhole(const CheckpointTensor& tensor, const std::string& name, std::string_view what) {
  std::vector<const CheckpointPiece*> pieces;
  for (const CheckpointPiece& piece : tensor.pieces) {
    if (piece.elements.size() > 0) pieces.push_back(&piece);
  }
  auto starts = [](const Tile& tile) {
    std::vector<int64_t> edges;
    for (const Ranges& ranges : tile) {
      edges.push_back(static_cast<int64_t>(ranges.size()));
      for (Block block : ranges) edges.insert(edges.end(), {block.begin, block.end});
    }
    return edges;
  };
  auto key = [&](const CheckpointPiece* piece) {
    return std::pair(starts(piece->tile), piece->elements.begin);
  };
  std::sort(pieces.begin(), pieces.end(),
            [&](const auto* a, const auto* b) { return key(a) < key(b); });
  int64_t covered = 0;
  for (size_t i = 0; i < pieces.size();) {
    int64_t next = 0, elements = ElementCount(ShapeOf(pieces[i]->tile), name);
    size_t first = i;
    for (; i < pieces.size() && pieces[i]->tile == pieces[first]->tile; ++i) {
      if (pieces[i]->elements.begin != next) break;
      next = pieces[i]->elements.end;
    }
    if (next != elements) ThrowInput("{}: {}: its pieces do not cover it", what, name);
    covered += elements;
  }
  if (covered != ElementCount(tensor.shape, name)) {
    ThrowInput("{}: {}: its pieces do not cover it", what, name);
  }
}

}  // namespace

Json PiecesToJson(const std::map<std::string, CheckpointTensor>& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json pieces = Json::array();
    for (const CheckpointPiece& piece : tensor.pieces) {
      pieces.push_back({{"file", piece.file},
                        {"tile", ToJson(piece.tile)},
                        {"elements", {piece.elements.begin, piece.elements.end}}});
    }
    json[name] = {{"shape", tensor.shape}, {"pieces", std::move(pieces)}};
  }
  return json;
}

std::map<std::string, CheckpointTensor> PiecesFromJson(const Json& json, std::string_view what) {
  if (!json.is_object()) Refuse(what, "tensors", json, "an object");
  std::map<std::string, CheckpointTensor> tensors;
  for (const auto& [name, tensor] : json.items()) tensors[name] = TensorFrom(tensor, what, name);
  return tensors;
}

Json ToJson(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"bytes", file.bytes}, {"xxh64", file.hash}};
  }
  return {{"heddle_checkpoint", kCheckpointVersion},
          {"step", manifest.step},
          {"ranks", manifest.ranks},
          {"run", manifest.run},
          {"files", std::move(files)},
          {"tensors", PiecesToJson(manifest.tensors)}};
}

Manifest ManifestFromJson(const Json& json, std::string_view what) {
  if (!json.is_object() || !json.contains("heddle_checkpoint")) {
    ThrowInput("{}: not a checkpoint: expected an object with \"heddle_checkpoint\": {}", what,
               kCheckpointVersion);
  }
  if (json["heddle_checkpoint"] != kCheckpointVersion) {
    ThrowInput("{}: heddle_checkpoint: {}: this heddle reads version {}", what,
               json["heddle_checkpoint"].dump(), kCheckpointVersion);
  }
  Manifest manifest;
  manifest.step = Natural(Field(json, "step", what), what, "step");
  manifest.ranks = Natural(Field(json, "ranks", what), what, "ranks");
  manifest.run = Field(json, "run", what);
  if (!manifest.run.is_object()) Refuse(what, "run", manifest.run, "an object");
  const Json& files = Field(json, "files", what);
  if (!files.is_object()) Refuse(what, "files", files, "an object");
  for (const auto& [name, file] : files.items()) {
    CheckpointFile& made = manifest.files[FileName(name, what, "files")];
    made.bytes = Natural(Field(file, "bytes", what), what, name);
    made.hash = Text(Field(file, "xxh64", what), what, name);
  }
  manifest.tensors = PiecesFromJson(Field(json, "tensors", what), what);
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (manifest.files.count(piece.file) == 0) {
        ThrowInput("{}: {}: a piece is in '{}', which is not among the files", what, name,
                   piece.file);
      }
    }
    RequireWhole(tensor, name, what);
  }
  return manifest;
}

}  // namespace heddle
