#include "cluster/load.h"

#include "base/error.h"
#include "base/file.h"
#include "cluster/presets.h"
#include "cluster/yaml.h"
#include "cluster/yaml_tree.h"

namespace heddle {

Cluster LoadCluster(const std::string& expression_or_path) {
  const std::string& text = expression_or_path;
  if (text.empty())
    ThrowInput("the cluster is empty; give a preset such as dgx-h100:16, or a file");
  const bool is_path = text.find('/') != text.npos || text.ends_with(".yaml") ||
                       text.ends_with(".yml") || text.ends_with(".json");
  if (!is_path) return ClusterFromPreset(text);
  return ClusterFromYaml(ReadFile(text, kMaxYamlBytes), text);
}

}  // namespace heddle
