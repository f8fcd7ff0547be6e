// The option --profile, shared by all commands that predict.
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
  // Reads the profiles into the options. Throws InputError if a profile cannot be read, if its device is not in the
  // cluster or has two profiles, if the cluster is this machine (`local:N`) and the profile was measured on another,
  // and if only some of the cluster's kinds of devices have a calibrated profile.
  void ApplyTo(SimOptions& options, const Cluster& cluster) const;
};

}  // namespace heddle
