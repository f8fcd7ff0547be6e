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
  // Reads them into the options. Throws InputError where one cannot be read, is of a device the cluster does not have or
  // another has, too, or, where the cluster is this very machine (`local:N`), was measured on another; and where some
  // kinds of devices were calibrated and others of the cluster have no profile.
  void ApplyTo(SimOptions& options, const Cluster& cluster) const;
};

}  // namespace heddle
