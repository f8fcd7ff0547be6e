// Which initializers of an ONNX file are trained.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/import_options.h"
#include "frontend/import/model_file.h"

namespace heddle {

// A float initializer of rank 1 or more is trained when it has more than one element or is used as
// a weight, unless its name matches a pattern of buffers (*lifted_tensor*, *inv_freq,
// *running_mean, *running_var, *num_batches_tracked) or of `frozen`, a BatchNormalization reads it
// as a statistic, or a node reads it as a setting (Clip's bounds, Resize's scales).
class ParameterRule {
 public:
  // Throws InputError when a pattern of `frozen` matches no initializer.
  ParameterRule(const ModelFile& model, std::string_view file, const ImportOptions& options);

  bool IsTrainable(const FileTensor& tensor) const;

 private:
  struct Use {
    bool weight = false;
    bool buffer = false;  // a statistic or a setting
  };
  std::vector<Use> uses_;               // of every name
  std::vector<std::string> untrained_;  // patterns
};

}  // namespace heddle
