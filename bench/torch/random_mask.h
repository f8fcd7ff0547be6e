// A random mask in a temporary file, which is deleted with it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "graph/safetensors.h"
#include "runtime/prune.h"

namespace heddle::bench {

inline Mask RandomMask(const Model& model, double sparsity) {
  std::string path =
      std::filesystem::temp_directory_path() / fmt::format("heddle-mask-{}", getpid());
  auto masks = MakeMasks(model, MakeWeights(model.graph, model.rules, {}),
                         {.sparsity = sparsity, .random = true});
  std::vector<NamedTensor> named;
  for (const auto& [name, mask] : masks) named.push_back({name, &mask});
  WriteSafetensors(path, named);
  Mask mask = Mask::Open(path, model);
  std::filesystem::remove(path);  // an open or mapped file stays readable
  return mask;
}

}  // namespace heddle::bench
