#include "checkpoint/experiment.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace heddle {
namespace {

struct Setting {
  std::string_view name;
  const char* pointer;          // JSON pointer in `run`
  const char* shown = nullptr;  // shown instead of the value if it differs, too
};

constexpr std::array<Setting, 18> kSettings = {{
    {"job", "/job"},
    {"model", "/model/experiment_hash", "/model/source"},
    {"batch", "/data/batch"},
    {"seed", "/seed"},
    {"data", "/data/hash", "/data/path"},
    {"weights", "/weights"},
    {"optimizer", "/optimizer/name"},
    {"lr", "/optimizer/lr"},
    {"betas", "/optimizer/betas"},
    {"eps", "/optimizer/eps"},
    {"weight decay", "/optimizer/weight_decay"},
    {"momentum", "/optimizer/momentum"},
    {"clip norm", "/optimizer/clip_norm"},
    {"lr schedule", "/lr_schedule/kind"},
    {"warmup", "/lr_schedule/warmup_steps"},
    {"precision", "/precision"},
    {"batch statistics", "/batch_statistics"},
    {"mask", "/mask"},
}};
// For schedules that decay towards the end of the run.
constexpr std::array<Setting, 2> kOfDecay = {{
    {"final lr", "/lr_schedule/final_fraction"},
    {"steps of the lr schedule", "/lr_schedule/total_steps"},
}};

const Json* Find(const Json& run, const char* pointer) {
  Json::json_pointer at(pointer);
  return run.contains(at) ? &run.at(at) : nullptr;
}

std::string Shown(const Json& value) {
  if (value.is_null()) return "none";
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.empty()) return "none";
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

void Compare(const Setting& setting, const Json& before, const Json& now,
             ExperimentChanges& found) {
  const Json* is = Find(now, setting.pointer);
  if (is == nullptr) return;
  const Json* was = Find(before, setting.pointer);
  if (was == nullptr) {
    found.unknown.emplace_back(setting.name);
    return;
  }
  if (*was == *is) return;
  if (setting.shown != nullptr) {
    const Json *shown_was = Find(before, setting.shown), *shown_is = Find(now, setting.shown);
    if (shown_was != nullptr && shown_is != nullptr && *shown_was != *shown_is) {
      was = shown_was;
      is = shown_is;
    }
  }
  found.changes.push_back({std::string(setting.name), Shown(*was), Shown(*is)});
}

}  // namespace

std::string ExperimentChanges::Describe() const {
  std::string text;
  for (const Change& change : changes) {
    text += fmt::format("{}{} was {} and is {}", text.empty() ? "" : "; ", change.setting,
                        change.before, change.now);
  }
  return text;
}

ExperimentChanges CompareExperiments(const Json& before, const Json& now) {
  ExperimentChanges found;
  for (const Setting& setting : kSettings) Compare(setting, before, now, found);
  const Json* kind = Find(now, "/lr_schedule/kind");
  if (kind != nullptr && *kind != "constant") {
    for (const Setting& setting : kOfDecay) Compare(setting, before, now, found);
  }
  return found;
}

}  // namespace heddle
