// Keys of --json have the same name and type for the same thing in all commands.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/json.h"
#include "cli_files.h"
#include "run_binary.h"

namespace heddle {
namespace {

enum class KeyType { kNumber, kText, kFlag, kList, kObject };

// Keys of several commands. `devices` inside a stage of a plan is a list, as in the plan file.
const std::map<std::string, KeyType> kSharedKeys = {
    {"alternatives", KeyType::kList},
    {"batch", KeyType::kNumber},
    {"bubble", KeyType::kNumber},
    {"cluster", KeyType::kText},
    {"degrees", KeyType::kObject},
    {"devices", KeyType::kNumber},
    {"exposed_communication", KeyType::kNumber},
    {"feasible", KeyType::kFlag},
    {"file", KeyType::kText},
    {"jobs", KeyType::kList},
    {"losses", KeyType::kList},
    {"lower_bound_seconds", KeyType::kNumber},
    {"memory_limit_bytes", KeyType::kNumber},
    {"mfu", KeyType::kNumber},
    {"microbatches", KeyType::kNumber},
    {"model", KeyType::kText},
    {"peak_memory_bytes", KeyType::kNumber},
    {"plan", KeyType::kText},
    {"reserved_memory_bytes", KeyType::kNumber},
    {"simulated", KeyType::kFlag},
    {"step_seconds", KeyType::kNumber},
    {"tokens_per_second", KeyType::kNumber},
};
// Alternative names of these, which no command may print.
const std::set<std::string> kOtherNames = {"fits",  "capacity_bytes", "device_count",
                                           "ranks", "reserved_bytes", "peak_reserved_bytes"};

bool HasType(const Json& value, KeyType type) {
  switch (type) {
    case KeyType::kNumber:
      return value.is_number();
    case KeyType::kText:
      return value.is_string();
    case KeyType::kFlag:
      return value.is_boolean();
    case KeyType::kList:
      return value.is_array();
    case KeyType::kObject:
      return value.is_object();
  }
  return false;
}

void ExpectSharedNames(const Json& json, const std::string& command, const std::string& place) {
  if (json.is_array()) {
    for (const Json& element : json) ExpectSharedNames(element, command, place + "[]");
    return;
  }
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    std::string at = place.empty() ? key : place + "." + key;
    EXPECT_FALSE(kOtherNames.contains(key)) << command << ": " << at;
    auto shared = kSharedKeys.find(key);
    bool list_of_stage = place == "stages[]" && key == "devices";
    if (shared != kSharedKeys.end() && !value.is_null() && !list_of_stage) {
      EXPECT_TRUE(HasType(value, shared->second)) << command << ": " << at << ": " << value.dump();
    }
    ExpectSharedNames(value, command, at);
  }
}

TEST(JsonKeys, OneThingHasOneName) {
  TempFolder folder;
  const std::string gpt = "gpt:layers=2,hidden=32,heads=2,seq=16,vocab=64,batch=4";
  const std::string plan = folder / "plan.json", jobs = folder / "jobs.yaml";
  WriteText(jobs, "cluster: local:2\njobs: [{name: a, model: '" + gpt + "', steps: 2}]\n");
  std::vector<std::string> commands = {"plan " + gpt + " --cluster local:2 -o " + plan,
                                       "simulate " + plan,
                                       "explain " + plan,
                                       "space " + gpt + " --cluster local:2",
                                       "inspect " + gpt,
                                       "cluster local:2",
                                       "cluster",
                                       "fleet " + jobs + " --simulate"};
  if (std::filesystem::exists(std::string(HEDDLE_BINARY) + "-torch")) {
    commands.push_back("train " + gpt + " --steps 1");
    commands.push_back("fleet " + jobs);
  }
  for (const std::string& command : commands) {
    RunOutput run = RunHeddle(command + " --json");
    ASSERT_EQ(run.status, 0) << command << run.err;
    ExpectSharedNames(ParseJson(run.out, "output"), command.substr(0, command.find(' ')), "");
  }
}

}  // namespace
}  // namespace heddle
