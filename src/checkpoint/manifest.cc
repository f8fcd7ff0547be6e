#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/json_fields.h"

namespace heddle {
namespace {

constexpr size_t kAny = SIZE_MAX;  // for lists, whose length the size of the file limits

int64_t NaturalOf(const JsonValue& at) {
  std::optional<int64_t> value = at.AsInt(0, INT64_MAX);
  if (!value) at.Refuse("expected a whole number, 0 or more");
  return *value;
}

std::string TextOf(const JsonValue& at) {
  if (!at.json().is_string()) at.Refuse("expected text");
  return at.json().get<std::string>();
}

void RequireFileName(std::string_view name, const JsonValue& at) {
  bool plain = !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
               name.find('\0') == std::string::npos;
  if (!plain) at.Refuse("expected the name of a file beside the manifest");
}

Block BlockOf(const JsonValue& at, int64_t size) {
  if (!at.json().is_array() || at.json().size() != 2) at.Refuse("expected [begin, end]");
  std::vector<JsonValue> ends = at.List(2);
  Block block{NaturalOf(ends[0]), NaturalOf(ends[1])};
  if (block.begin > block.end || block.end > size) {
    at.Refuse(fmt::format("expected a range inside {}", size));
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

Tile TileOf(const JsonValue& at, const Shape& shape) {
  if (!at.json().is_array() || at.json().size() != shape.size())
    at.Refuse(fmt::format("expected {} dimensions", shape.size()));
  Tile tile;
  for (const JsonValue& dim : at.List(shape.size())) {
    if (!dim.json().is_array()) dim.Refuse("expected ranges");
    Ranges ranges;
    int64_t after = 0;
    for (const JsonValue& range : dim.List(kAny)) {
      ranges.push_back(BlockOf(range, shape[tile.size()]));
      if (ranges.back().begin < after) dim.Refuse("expected ranges in ascending order");
      after = ranges.back().end;
    }
    tile.push_back(std::move(ranges));
  }
  return tile;
}

CheckpointTensor TensorOf(const JsonValue& at, const std::string& name) {
  CheckpointTensor tensor;
  JsonFields fields(at, {});
  JsonValue shape = fields.ValueOf("shape");
  if (!shape.json().is_array() || shape.json().size() > static_cast<size_t>(kMaxRank))
    shape.Refuse("expected a shape");
  for (const JsonValue& size : shape.List(kAny)) tensor.shape.push_back(NaturalOf(size));
  ElementCount(tensor.shape, name);  // throws on overflow
  JsonValue pieces = fields.ValueOf("pieces");
  if (!pieces.json().is_array()) pieces.Refuse("expected a list of pieces");
  for (const JsonValue& entry : pieces.List(kAny)) {
    JsonFields piece(entry, {});
    CheckpointPiece made;
    made.file = TextOf(piece.ValueOf("file"));
    RequireFileName(made.file, piece.ValueOf("file"));
    made.tile = TileOf(piece.ValueOf("tile"), tensor.shape);
    int64_t elements = ElementCount(ShapeOf(made.tile), name);
    made.elements = BlockOf(piece.ValueOf("elements"), elements);
    tensor.pieces.push_back(std::move(made));
  }
  return tensor;
}

// Checks that tiles are equal or disjoint, and that the pieces of a tile follow each other and cover it.
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
  if (!json.is_object()) RefuseJson(what, "tensors", json, "expected an object");
  std::map<std::string, CheckpointTensor> tensors;
  for (const auto& [name, tensor] : json.items())
    tensors[name] = TensorOf(JsonValue(tensor, what, name), name);
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
    ThrowInput("{}: heddle_checkpoint: {}: this heddle only reads version {}", what,
               json["heddle_checkpoint"].dump(), kCheckpointVersion);
  }
  JsonFields fields(json, what, "", {});
  Manifest manifest;
  manifest.step = NaturalOf(fields.ValueOf("step"));
  manifest.ranks = NaturalOf(fields.ValueOf("ranks"));
  manifest.run = fields.At("run");
  if (!manifest.run.is_object()) fields.Refuse("run", "expected an object");
  const Json& files = fields.At("files");
  if (!files.is_object()) fields.Refuse("files", "expected an object");
  for (const auto& [name, file] : files.items()) {
    RequireFileName(name, JsonValue(Json(name), what, "files"));
    JsonFields entry(file, what, name, {});
    CheckpointFile& made = manifest.files[name];
    made.bytes = NaturalOf(entry.ValueOf("bytes"));
    made.hash = TextOf(entry.ValueOf("xxh64"));
  }
  manifest.tensors = PiecesFromJson(fields.At("tensors"), what);
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
