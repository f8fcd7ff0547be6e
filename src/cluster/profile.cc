#include "cluster/profile.h"

#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

std::string TextOf(const Json& json, std::string_view what, const char* key) {
  auto found = json.find(key);
  if (found == json.end()) ThrowInput("{}: {} is missing", what, key);
  if (!found->is_string()) ThrowInput("{}: {}: {}: expected text", what, key, found->dump());
  return found->get<std::string>();
}

std::optional<double>* NumberNamed(Profile& profile, std::string_view name) {
  for (const ProfileNumber& number : kProfileNumbers) {
    if (number.name == name) return &(profile.*number.value);
  }
  return nullptr;
}

}  // namespace

Profile ProfileFromJson(std::string_view text, std::string_view what) {
  Json json = ParseJson(text, what);
  if (!json.is_object() || !json.contains("heddle_profile")) {
    ThrowInput("{}: not a profile: expected an object with \"heddle_profile\": {}", what,
               kProfileVersion);
  }
  if (json["heddle_profile"] != kProfileVersion) {
    ThrowInput("{}: heddle_profile: {}: this heddle reads version {}", what,
               json["heddle_profile"].dump(), kProfileVersion);
  }
  Profile profile;
  profile.device = TextOf(json, what, "device");
  profile.measured_on = TextOf(json, what, "measured_on");
  for (const auto& [key, value] : json.items()) {
    if (key == "heddle_profile" || key == "device" || key == "measured_on") continue;
    std::optional<double>* number = NumberNamed(profile, key);
    if (number == nullptr) ThrowInput("{}: {}: not a number of a profile", what, key);
    double read = value.is_number() ? value.get<double>() : NAN;
    if (!(read > 0 && read <= 1)) {
      ThrowInput("{}: {}: {}: expected a number above 0 and at most 1", what, key, value.dump());
    }
    *number = read;
  }
  return profile;
}

Json ToJson(const Profile& profile) {
  Json json = {{"heddle_profile", kProfileVersion},
               {"device", profile.device},
               {"measured_on", profile.measured_on}};
  for (const ProfileNumber& number : kProfileNumbers) {
    if (profile.*number.value) json[std::string(number.name)] = *(profile.*number.value);
  }
  return json;
}

}  // namespace heddle
