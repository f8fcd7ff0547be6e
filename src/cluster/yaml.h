// Clusters as YAML files; docs/clusters.md describes the schema.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "cluster/cluster.h"

namespace heddle {

// Throws an InputError "what:line: field: value: remedy" for any text that is not a sound cluster. JSON is YAML, so
// this also reads what ToJson writes.
Cluster ClusterFromYaml(std::string_view text, std::string_view what);

// The cluster in full, in the schema of the YAML files. It reads back as an equal cluster.
std::string ToYaml(const Cluster& cluster);
Json ToJson(const Cluster& cluster);

}  // namespace heddle
