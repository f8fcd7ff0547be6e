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
    "cpu-core";  // of the preset `local`, which is whatever machine this is

}  // namespace

void ProfileArgs::Add(CLI::App& command) {
  command
      .add_option("--profile", files,
                  "what devices were measured to give ('heddle calibrate'), in place of what is "
                  "assumed; again for other kinds of devices")
      ->type_name("FILE");
}

void ProfileArgs::ApplyTo(SimOptions& options, const Cluster& cluster) const {
  std::map<std::string, std::string> file_of;  // by device
  bool measured = false;
  for (const std::string& path : files) {
    for (Profile& profile : ProfilesFromJson(ReadFile(path, kMaxJsonBytes), path)) {
      bool there = std::any_of(cluster.device_types.begin(), cluster.device_types.end(),
                               [&](const DeviceType& type) { return type.name == profile.device; });
      if (!there) {
        ThrowInput(
            "{}: device: the profile is of '{}', and the cluster has '{}': calibrate on that", path,
            profile.device, cluster.device_types.front().name);
      }
      auto [other, first] = file_of.emplace(profile.device, path);
      if (!first) {
        ThrowInput("{}: device: {} has a profile of '{}', too: give one of them", path,
                   other->second, profile.device);
      }
      if (profile.device == kLocalDevice) RequireSameMachine(profile, ThisMachine(), path);
      measured = measured || !profile.loads.empty();
      AddProfile(options, std::move(profile));
    }
  }
  // What was measured of one kind and what is assumed of another cannot be weighed against each other.
  for (const DeviceType& type : cluster.device_types) {
    if (!measured || file_of.contains(type.name)) continue;
    ThrowInput(
        "{}: nothing was measured of '{}', which the cluster has, too: run 'heddle calibrate "
        "--cluster' with that cluster, or give another --profile with it",
        files.front(), type.name);
  }
}

}  // namespace heddle
