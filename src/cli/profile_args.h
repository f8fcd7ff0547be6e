// --profile, the same for every command that predicts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/profile.h"
#include "sim/options.h"

namespace heddle {

struct ProfileArgs {
  std::vector<std::string> files;

  void Add(CLI::App& command);
  // Reads them into the options. Throws InputError where one cannot be read, is of a device the cluster does not have,
  // or, where the cluster is this very machine (`local:N`), was measured on another.
  void ApplyTo(SimOptions& options, const Cluster& cluster) const;
};

}  // namespace heddle
