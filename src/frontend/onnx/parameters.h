// Determines which initializers of an ONNX file are trained.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/import/model_file.h"
#include "frontend/import_options.h"

namespace heddle {

// A float initializer of rank 1 or more is trained when it has more than one element or is used as a weight. Exceptions
// are names that match a pattern of buffers (*lifted_tensor*, *inv_freq, *running_mean, *running_var,
// *num_batches_tracked) or of `frozen`, statistics of a BatchNormalization, and settings of a node (Clip's bounds,
// Resize's scales).
class ParameterRule {
 public:
  // Throws an InputError where a pattern of `frozen` matches no initializer.
  ParameterRule(const ModelFile& model, std::string_view file, const ImportOptions& options);

  bool IsTrainable(const FileTensor& tensor) const;

 private:
  struct Use {
    bool weight = false;
    bool buffer = false;  // a statistic or a setting
  };
  std::vector<Use> uses_;               // for every name
  std::vector<std::string> untrained_;  // patterns
};

}  // namespace heddle
