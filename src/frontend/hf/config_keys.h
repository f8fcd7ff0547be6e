// What heddle knows of the keys that transformers writes into every `config.json`: those that do not change
// what a training step computes, each with the reason, and those that are accepted with certain values only,
// because heddle builds the model with these. What the keys of one model type mean stands in model_types.cc.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "frontend/hf/config_file.h"

namespace heddle {

// A key that does not change what a training step computes.
struct IrrelevantKey {
  std::string_view name;
  std::string_view reason;
};

// A key that is accepted with these values only: with them the model computes what heddle builds. A missing
// key is accepted, so one of the values must be the default of transformers.
struct FixedKey {
  std::string_view name;
  std::vector<Json> values;
  std::string_view meaning;  // what heddle builds, as in "heddle builds all heads of a layer"
};

// Of the base class of all configurations, versions 2 to 5.
const std::vector<IrrelevantKey>& CommonIrrelevantKeys();
const std::vector<FixedKey>& CommonFixedKeys();

// Reads the fixed keys and passes over the irrelevant ones. Where a type has a fixed key that is also common, its own
// comes first and decides; keys that were already read are left alone.
void AccountFor(const ConfigFile& config, const std::vector<FixedKey>& fixed);
void AccountFor(const ConfigFile& config, const std::vector<IrrelevantKey>& irrelevant);

}  // namespace heddle
