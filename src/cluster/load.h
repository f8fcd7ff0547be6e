// The door to the module: a CLUSTER as the command line takes it.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace heddle {

// A YAML file (a path with a slash or ending in .yaml, .yml or .json) or a preset such as
// "dgx-h100:16", "tpu-v4:4x4x4" or "local:4". Throws InputError when it is neither, or unsound.
Cluster LoadCluster(const std::string& expression_or_path);

}  // namespace heddle
