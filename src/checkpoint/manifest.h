// The manifest of a checkpoint: manifest.json beside its shards.
//
//   {"heddle_checkpoint": 1, "step": 400, "ranks": 2,
//    "run": {"model": {...}, "seed": 1, "optimizer": {...}, "lr_schedule": {...}, "data": {...}, "plan": {...}},
//    "files": {"rank-00000.safetensors": {"bytes": 1234, "xxh64": "0123456789abcdef"}, ...},
//    "tensors": {"wte.weight": {"shape": [64, 16], "pieces": [
//        {"file": "rank-00000.safetensors", "tile": [[[0, 32]], [[0, 16]]], "elements": [0, 512]}, ...]}}}
//
// A piece is a range of the elements of a tile in the order of the tile (ZeRO cuts anywhere). In its file the piece is
// weights/NAME, with the moments of the optimizer in first/NAME and second/NAME. For a pruned parameter these have only
// the kept elements, and index/NAME has their positions, counted from the first element of the piece; all others are
// zero. `run` has what a run needs to resume; only the runtime reads it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "graph/tensor.h"
#include "plan/exchange.h"

namespace heddle {

constexpr int kCheckpointVersion = 1;
constexpr std::string_view kManifestName = "manifest.json";
// Enough for hundreds of ranks with thousands of parameters each.
constexpr std::size_t kMaxManifestBytes = std::size_t{1} << 30;

enum class StateKind { kWeights, kFirst, kSecond };
constexpr std::array<std::string_view, 3> kStateNames = {"weights", "first", "second"};

constexpr std::string_view kIndexName = "index";

struct CheckpointPiece {
  std::string file;
  Tile tile;       // part of the whole tensor
  Block elements;  // part of the tile's elements
  bool operator==(const CheckpointPiece&) const = default;
};

struct CheckpointTensor {
  Shape shape;
  std::vector<CheckpointPiece> pieces;  // they cover the tensor, each element once
  bool operator==(const CheckpointTensor&) const = default;
};

struct CheckpointFile {
  int64_t bytes = 0;
  std::string hash;  // XXH64 in hex
  bool operator==(const CheckpointFile&) const = default;
};

struct Manifest {
  int64_t step = 0;  // finished steps
  int64_t ranks = 1;
  Json run = Json::object();
  std::map<std::string, CheckpointFile> files;
  std::map<std::string, CheckpointTensor> tensors;
};

Json ToJson(const Manifest& manifest);
// Throws InputError "what: field: value: remedy" if the JSON is not a valid manifest, for example if a file is outside
// the folder, a tile outside its tensor, or an element in no piece.
Manifest ManifestFromJson(const Json& json, std::string_view what);

// The tensors of one rank's shard in the form of the manifest, for the rank that joins them.
Json PiecesToJson(const std::map<std::string, CheckpointTensor>& tensors);
std::map<std::string, CheckpointTensor> PiecesFromJson(const Json& json, std::string_view what);

}  // namespace heddle
