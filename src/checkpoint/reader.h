// The tensors of a checkpoint, whichever plan saved them.
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
  // Sizes and hashes are the caller's to check (folder.h).
  CheckpointReader(std::string path, Manifest manifest);

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }

  // A parameter, in fp32; nothing where the checkpoint has none of that kind. InputError where pieces are not in their
  // files as the manifest says, and where it has no weights of that name. One thread at a time.
  std::optional<HostTensor> Whole(StateKind kind, const std::string& name);

  // Throws InputError where a piece is not in its file as the manifest says, or has moments that others of its tensor
  // have not. Reads headers and indexes, no values.
  void RequirePieces();
  // Throws InputError with the tensors that differ.
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
