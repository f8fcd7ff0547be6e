#include "cluster/profile.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json_fields.h"
#include "cluster/profile_loads.h"

namespace heddle {
namespace {

std::string TextOf(const JsonValue& at) {
  if (!at.json().is_string()) at.Refuse("expected text");
  return at.json().get<std::string>();
}

std::vector<std::string_view> ProfileKeys() {
  std::vector<std::string_view> keys = {"device", "measured_on", "machine", "loads"};
  for (const ProfileNumber& number : kProfileNumbers) keys.push_back(number.name);
  for (const ProfileFlag& flag : kProfileFlags) keys.push_back(flag.name);
  return keys;
}

MachineFacts FactsOf(const Json& json, std::string_view what) {
  if (!json.is_object()) ThrowInput("{}: machine: expected an object of texts", what);
  MachineFacts facts;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) ThrowInput("{}: machine.{}: expected text", what, key);
    facts[key] = value.get<std::string>();
  }
  return facts;
}

Profile ProfileOf(const Json& json, std::string_view what) {
  if (!json.is_object()) ThrowInput("{}: expected an object", what);
  const std::vector<std::string_view> keys = ProfileKeys();
  JsonFields fields(json, what, "", keys);
  Profile profile;
  profile.device = TextOf(fields.ValueOf("device"));
  profile.measured_on = TextOf(fields.ValueOf("measured_on"));
  if (fields.Has("machine")) profile.machine = FactsOf(fields.At("machine"), what);
  for (const ProfileFlag& flag : kProfileFlags) {
    if (fields.Has(flag.name)) profile.*flag.value = fields.Bool(flag.name);
  }
  for (const ProfileNumber& number : kProfileNumbers) {
    if (!fields.Has(number.name)) continue;
    std::optional<double> read = fields.ValueOf(number.name).AsPositive();
    if (!read || *read > 1) {
      fields.Refuse(number.name, "expected a number above 0 and at most 1");
    }
    profile.*number.value = read;
  }
  if (fields.Has("loads")) profile.loads = LoadsFromJson(fields.At("loads"), what);
  return profile;
}

Json EntryOf(const Profile& profile) {
  Json json = {{"device", profile.device}, {"measured_on", profile.measured_on}};
  if (!profile.machine.empty()) {
    Json& machine = json["machine"] = Json::object();
    for (const auto& [key, value] : profile.machine) machine[key] = value;
  }
  for (const ProfileNumber& number : kProfileNumbers) {
    if (profile.*number.value) json[std::string(number.name)] = *(profile.*number.value);
  }
  for (const ProfileFlag& flag : kProfileFlags) {
    bool value = profile.*flag.value;
    if (value != Profile{}.*flag.value) json[std::string(flag.name)] = value;
  }
  if (!profile.loads.empty()) json["loads"] = ToJson(profile.loads);
  return json;
}

}  // namespace

std::vector<Profile> ProfilesFromJson(std::string_view text, std::string_view what) {
  Json json = ParseJson(text, what);
  if (!json.is_object() || !json.contains("heddle_profile")) {
    ThrowInput("{}: not a profile: expected an object with \"heddle_profile\": {}", what,
               kProfileVersion);
  }
  const Json version = json["heddle_profile"];
  json.erase("heddle_profile");
  if (version == 1) return {ProfileOf(json, what)};
  if (version != kProfileVersion) {
    ThrowInput("{}: heddle_profile: {}: this heddle reads versions 1 to {}", what, version.dump(),
               kProfileVersion);
  }
  for (const auto& [key, value] : json.items()) {
    if (key != "devices") ThrowInput("{}: {}: expected \"devices\" and nothing else", what, key);
  }
  const Json devices = json.value("devices", Json::array());
  if (!devices.is_array() || devices.empty() || devices.size() > kMaxProfileEntries) {
    ThrowInput("{}: devices: expected a list of 1 to {} profiles", what, kMaxProfileEntries);
  }
  std::vector<Profile> profiles;
  for (size_t i = 0; i < devices.size(); ++i) {
    std::string place = fmt::format("{}: devices[{}]", what, i);
    Profile read = ProfileOf(devices[i], place);
    for (const Profile& other : profiles) {
      if (other.device == read.device)
        ThrowInput("{}: device: '{}' is given twice: remove one", place, read.device);
    }
    profiles.push_back(std::move(read));
  }
  return profiles;
}

Json ToJson(const std::vector<Profile>& profiles) {
  Json json = {{"heddle_profile", kProfileVersion}, {"devices", Json::array()}};
  for (const Profile& profile : profiles) json["devices"].push_back(EntryOf(profile));
  return json;
}

const LoadTimes* LoadFor(const Profile& profile, int64_t ranks) {
  const LoadTimes* best = nullptr;
  for (const LoadTimes& load : profile.loads) {
    if (best == nullptr || std::abs(load.ranks - ranks) < std::abs(best->ranks - ranks))
      best = &load;
  }
  return best;
}

void RequireSameMachine(const Profile& profile, const MachineFacts& here, std::string_view what) {
  for (const auto& [key, value] : profile.machine) {
    auto found = here.find(key);
    if (found == here.end() || found->second == value) continue;
    ThrowInput("{}: machine.{}: '{}', but here it is '{}': run 'heddle calibrate' here", what, key,
               value, found->second);
  }
}

}  // namespace heddle
