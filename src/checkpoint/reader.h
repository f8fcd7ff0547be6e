// Reads the whole tensors of a checkpoint, independent of the plan that saved them.
//
//   FoundCheckpoint found = ...;                                  // folder.h
//   CheckpointReader reader(found.path, found.manifest);
//   std::optional<HostTensor> wte = reader.Whole(StateKind::kWeights, "wte.weight");
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "graph/graph.h"
#include "graph/safetensors.h"

namespace heddle {

class CheckpointReader {
 public:
  // The caller checks sizes and hashes (folder.h).
  CheckpointReader(std::string path, Manifest manifest);

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }

  // A parameter or a moment of it in fp32; nullopt if the checkpoint has no such moment. Throws InputError if pieces
  // are not in their files as the manifest says, or if there are no weights of that name. Not thread-safe.
  std::optional<HostTensor> Whole(StateKind kind, const std::string& name);

  // Throws InputError if a piece is not in its file as the manifest says, or if only some pieces of a tensor have
  // moments. Reads headers and indexes but no values.
  void RequirePieces();
  // Throws InputError with the tensors that differ from the model.
  void RequireModel(const Graph& graph) const;

 private:
  const SafetensorsFile& File(const std::string& name);
  const SafetensorsEntry* Entry(StateKind kind, const std::string& name,
                                const CheckpointPiece& piece);

  std::string path_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;
};

}  // namespace heddle
