// What kinds of devices and their links were measured to give, in place of what the cost model assumes of them: shares
// of a data sheet (cost/constants.h has the meaning of every one), or what `heddle calibrate` measured
// (measured_times.h). A file has one Profile for each kind of device:
//
//   {"heddle_profile": 2, "devices": [
//     {"device": "a100-sxm-80gb", "measured_on": "...", "products": 0.78, "traffic": 0.85},
//     {"device": "cpu-core", "measured_on": "...", "machine": {"processor": "...", ...},
//      "overlap": false, "fused_attention": false, "loads": [...]}]}
//
// A number that is left out stays as it is. In version 1, which is read, too, the file itself is the one entry of the
// list. docs/calibration.md explains the rest.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cluster/measured_times.h"

namespace heddle {

constexpr int kProfileVersion = 2;

// What tells machines and their software apart, by name: "processor", "cores", "libtorch".
using MachineFacts = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string device;       // the name of a device type, as clusters have it
  std::string measured_on;  // in words
  MachineFacts machine;     // empty: not known
  // Shares of the peak rates and bandwidths, above 0 and at most 1; seconds between kernels, at most 1.
  std::optional<double> products, fp8, attention, traffic, near, far, launch;
  bool overlap = true;           // communication goes on while the device computes
  bool fused_attention = true;   // in a kernel that keeps no scores
  bool fused_loss = false;       // in a kernel that makes no fp32 copies of the logits
  bool fused_update = false;     // gradients are made flat and updated by one kernel
  std::vector<LoadTimes> loads;  // by rising number of ranks

  friend bool operator==(const Profile&, const Profile&) = default;
};

struct ProfileNumber {
  std::string_view name;
  std::optional<double> Profile::*value;
};
constexpr std::array<ProfileNumber, 7> kProfileNumbers = {{{"products", &Profile::products},
                                                           {"fp8", &Profile::fp8},
                                                           {"attention", &Profile::attention},
                                                           {"traffic", &Profile::traffic},
                                                           {"near", &Profile::near},
                                                           {"far", &Profile::far},
                                                           {"launch", &Profile::launch}}};

struct ProfileFlag {
  std::string_view name;
  bool Profile::*value;
};
constexpr std::array<ProfileFlag, 4> kProfileFlags = {
    {{"overlap", &Profile::overlap},
     {"fused_attention", &Profile::fused_attention},
     {"fused_loss", &Profile::fused_loss},
     {"fused_update", &Profile::fused_update}}};

// At least one, of devices that differ. Throws InputError "what: field: value: remedy".
std::vector<Profile> ProfilesFromJson(std::string_view text, std::string_view what);
Json ToJson(const std::vector<Profile>& profiles);

// What was measured with so many ranks at work, or with the number nearest to it; null where nothing was.
const LoadTimes* LoadFor(const Profile& profile, int64_t ranks);

// Throws InputError, naming the fact, where the profile says something else than `here` of what both know.
void RequireSameMachine(const Profile& profile, const MachineFacts& here, std::string_view what);

}  // namespace heddle
