// Measured properties of kinds of devices and their links, which replace assumptions of the cost model: either
// fractions of the data sheet figures (cost/constants.h explains each), or times that `heddle calibrate` measured
// (measured_times.h). A file has one Profile for each kind of device:
//
//   {"heddle_profile": 2, "devices": [
//     {"device": "a100-sxm-80gb", "measured_on": "...", "products": 0.78, "traffic": 0.85},
//     {"device": "cpu-core", "measured_on": "...", "machine": {"processor": "...", ...},
//      "overlap": false, "fused_attention": false, "loads": [...]}]}
//
// A missing number keeps its assumed value. In files of version 1, which are read, too, the file itself is the only
// entry of the list. docs/calibration.md explains the rest.
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

// Facts by name that distinguish machines and their software: "processor", "cores", "libtorch".
using MachineFacts = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string device;       // the name of a device type, as clusters have it
  std::string measured_on;  // a description of the measurement
  MachineFacts machine;     // empty where it is not known
  // Fractions of the peak rates and bandwidths, above 0 and at most 1; `launch` is in seconds between kernels, at most
  // 1.
  std::optional<double> products, fp8, attention, traffic, near, far, launch;
  bool overlap = true;          // communication proceeds while the device computes
  bool fused_attention = true;  // attention is one kernel that stores no scores
  bool fused_loss = false;      // the loss is one kernel that makes no fp32 copies of the logits
  // Gradients are copied into one flat tensor and one kernel updates the weights.
  bool fused_update = false;
  std::vector<LoadTimes> loads;  // by ascending number of ranks

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

// Reads at least one profile; their devices must differ. Throws an InputError "what: field: value: remedy".
std::vector<Profile> ProfilesFromJson(std::string_view text, std::string_view what);
Json ToJson(const std::vector<Profile>& profiles);

// The times that were measured with `ranks` ranks at work, or with the nearest number of ranks; null where there are
// none.
const LoadTimes* LoadFor(const Profile& profile, int64_t ranks);

// Throws an InputError that names the fact where the profile and `here` both have a fact and differ in it.
void RequireSameMachine(const Profile& profile, const MachineFacts& here, std::string_view what);

}  // namespace heddle
