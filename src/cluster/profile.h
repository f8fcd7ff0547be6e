// What a kind of device and its links were measured to give, in place of what the cost model assumes of it
// (cost/constants.h has the meaning of every number).
//
//   {"heddle_profile": 1, "device": "a100-sxm-80gb", "measured_on": "...", "products": 0.78, "traffic": 0.85}
//
// A number that is left out stays as it is.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace heddle {

constexpr int kProfileVersion = 1;

struct Profile {
  std::string device;       // the name of a device type, as clusters have it
  std::string measured_on;  // in words
  // Shares of the peak rates and bandwidths, above 0 and at most 1; seconds between kernels, at most 1.
  std::optional<double> products, fp8, attention, traffic, near, far, launch;

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

// Throws InputError "what: field: value: remedy".
Profile ProfileFromJson(std::string_view text, std::string_view what);
Json ToJson(const Profile& profile);

}  // namespace heddle
