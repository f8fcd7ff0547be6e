// The keys that transformers writes into every `config.json`: keys that do not change what a training step computes,
// each with the reason, and keys that are accepted only with certain values, because heddle builds the model with
// these. model_types.cc has the keys of single model types.
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

// A key that is accepted only with these values, with which the model computes what heddle builds. A missing key is
// accepted, so one of the values must be the default of transformers.
struct FixedKey {
  std::string_view name;
  std::vector<Json> values;
  // What heddle builds, to continue "heddle builds", as in "all heads of a layer".
  std::string_view meaning;
};

// The keys of the base class of all configurations, versions 2 to 5.
const std::vector<IrrelevantKey>& CommonIrrelevantKeys();
const std::vector<FixedKey>& CommonFixedKeys();

// Reads the fixed keys and passes over the irrelevant ones. Where a type and the common list have the same fixed key,
// the type's key comes first and decides. Keys that were already read are not changed.
void AccountFor(const ConfigFile& config, const std::vector<FixedKey>& fixed);
void AccountFor(const ConfigFile& config, const std::vector<IrrelevantKey>& irrelevant);

}  // namespace heddle
