#include "cli/profile_args.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cluster/machine.h"

namespace heddle {
namespace {

constexpr std::string_view kLocalDevice =
    "cpu-core";  // device of the preset `local`, which stands for the current machine

}  // namespace

void ProfileArgs::Add(CLI::App& command) {
  command
      .add_option(
          "--profile", files,
          "measured times of a kind of device (from 'heddle calibrate'), used instead of assumed "
          "ones; may be repeated for other kinds")
      ->type_name("FILE");
}

void ProfileArgs::ApplyTo(SimOptions& options, const Cluster& cluster) const {
  std::map<std::string, std::string> file_of;  // key: device
  bool measured = false;
  for (const std::string& path : files) {
    for (Profile& profile : ProfilesFromJson(ReadFile(path, kMaxJsonBytes), path)) {
      bool there = std::any_of(cluster.device_types.begin(), cluster.device_types.end(),
                               [&](const DeviceType& type) { return type.name == profile.device; });
      if (!there) {
        ThrowInput(
            "{}: device: the profile is for '{}', but the cluster has '{}': calibrate on that "
            "device",
            path, profile.device, cluster.device_types.front().name);
      }
      auto [other, first] = file_of.emplace(profile.device, path);
      if (!first) {
        ThrowInput("{}: device: {} also has a profile of '{}': give only one of them", path,
                   other->second, profile.device);
      }
      if (profile.device == kLocalDevice) RequireSameMachine(profile, ThisMachine(), path);
      measured = measured || !profile.loads.empty();
      AddProfile(options, std::move(profile));
    }
  }
  // Measured times of one kind of device cannot be compared with assumed times of another.
  for (const DeviceType& type : cluster.device_types) {
    if (!measured || file_of.contains(type.name)) continue;
    ThrowInput(
        "{}: the cluster also has '{}', which has no profile: run 'heddle calibrate --cluster' "
        "with that cluster, or add a --profile of it",
        files.front(), type.name);
  }
}

}  // namespace heddle
