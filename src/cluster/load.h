// The entry point of the module: loads the CLUSTER argument of the command line.
#pragma once

#include <string>

#include "cluster/cluster.h"

namespace heddle {

// Loads a YAML file (a path with a slash, or one that ends in .yaml, .yml or .json) or a preset such as "dgx-h100:16",
// "tpu-v4:4x4x4" or "local:4". Throws an InputError where the argument is neither, or the cluster is not sound.
Cluster LoadCluster(const std::string& expression_or_path);

}  // namespace heddle
