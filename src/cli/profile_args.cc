#include "cli/profile_args.h"

#include <algorithm>

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
                  "what a device was measured to give ('heddle calibrate'), in place of what is "
                  "assumed")
      ->type_name("FILE");
}

void ProfileArgs::ApplyTo(SimOptions& options, const Cluster& cluster) const {
  for (const std::string& path : files) {
    Profile profile = ProfileFromJson(ReadFile(path, kMaxJsonBytes), path);
    bool there = std::any_of(cluster.device_types.begin(), cluster.device_types.end(),
                             [&](const DeviceType& type) { return type.name == profile.device; });
    if (!there) {
      ThrowInput("{}: device: the profile is of '{}', and the cluster has '{}': calibrate on that",
                 path, profile.device, cluster.device_types.front().name);
    }
    if (profile.device == kLocalDevice) RequireSameMachine(profile, ThisMachine(), path);
    AddProfile(options, std::move(profile));
  }
}

}  // namespace heddle
