// Options of a user for the import of a model file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle {

struct ImportOptions {
  // Sizes of symbolic dimensions, by name ("batch") or by place ("pixels:0"). `--dim NAME=N`.
  std::map<std::string, int64_t> dims;
  // Patterns (with * and ?) of initializers that are not trained. `--frozen PATTERN`.
  std::vector<std::string> frozen;
  // Fuse attention, normalisations, GELU and Linear into single ops. `--no-fuse` turns this off.
  bool fuse = true;
  // BatchNormalization uses its stored statistics instead of those of the batch.
  bool batch_norm_inference = false;
  // Constants are evaluated at import until their results have this many bytes; later ones stay nodes.
  int64_t max_constant_bytes = int64_t{1} << 30;
};

}  // namespace heddle
