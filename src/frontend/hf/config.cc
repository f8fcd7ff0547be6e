#include "frontend/hf/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "frontend/families/built_in.h"
#include "frontend/hf/model_types.h"

namespace heddle {
namespace {

constexpr int64_t kDefaultBatch = 8;
constexpr int64_t kDefaultGroup =
    // Tokens among which the capacity of experts is divided; a small group makes dispatch cheap.
    64;

const ModelType& TypeOf(const ConfigFile& config) {
  std::string name = config.Text("model_type");
  std::vector<std::string> names;
  for (const ModelType& known : ModelTypes()) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  // In single quotes below, so JSON's double quotes are removed.
  std::string shown = ShortText(Json(name));
  config.Refuse(
      fmt::format("'model_type' is '{}'; supported types are {}; export other models to ONNX",
                  shown.substr(1, shown.size() - 2), fmt::join(names, ", ")));
}

// The saved class determines the head and the loss of the model. Where it is missing, the supported class is assumed.
void CheckArchitectures(const ConfigFile& config, const ModelType& type) {
  const Json* classes = config.Find("architectures");
  if (classes == nullptr) return;
  bool known = classes->is_array() && !classes->empty() &&
               std::ranges::all_of(*classes, [&](const Json& name) {
                 return name.is_string() &&
                        std::ranges::count(type.architectures, name.get<std::string>()) > 0;
               });
  if (known) return;
  config.Refuse("architectures", *classes,
                fmt::format("but heddle builds {} of a {} model; set the key to that to train this "
                            "model, or export the model to ONNX "
                            "instead",
                            type.architectures.front(), type.name));
}

// Every key of the file must be read, fixed, irrelevant or refused.
Translation Translate(const ConfigFile& config) {
  const ModelType& type = TypeOf(config);
  CheckArchitectures(config, type);
  Translation translation = type.translate(config);
  AccountFor(config, type.fixed);
  AccountFor(config, type.irrelevant);
  AccountFor(config, CommonFixedKeys());
  AccountFor(config, CommonIrrelevantKeys());
  config.RefuseUnread(type.name);
  return translation;
}

// Checks the sequence length, which the command line may set, against the limits of the model.
void CheckSequence(const ConfigFile& config, const Translation& t) {
  int64_t seq = static_cast<int64_t>(t.Number("seq", 1));
  if (t.window > 0 && seq > t.window) {
    config.Refuse(
        fmt::format("'sliding_window' is {}, less than the {} tokens of a sequence, and sliding "
                    "attention is not "
                    "supported; give --dim seq={} or less, or export the model to ONNX instead",
                    t.window, seq, t.window));
  }
  for (const char* key :
       {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"}) {
    config.PassOver(key, "every layer attends to the whole sequence");
  }
  if (t.longest > 0 && seq > t.longest) {
    LogWarn(
        "{}: --dim seq={} is more than 'max_position_embeddings', which is {}: rotary positions "
        "continue beyond the range that the model was trained with",
        config.path(), seq, t.longest);
  }
}

Translation Complete(const ConfigFile& config, const ImportOptions& options) {
  Translation t = Translate(config);
  // With a window as long as the sequence, all tokens see each other.
  if (t.window > 0) t.Set("seq", std::min(t.window, static_cast<int64_t>(t.Number("seq", 1))));
  t.Set("batch", kDefaultBatch);
  for (const auto& [name, size] : options.dims) t.Set(name, size);
  CheckSequence(config, t);
  if (t.needs_unfused_attention && t.Number("attention_dropout", 0) > 0)
    t.Set("attention", "unfused");
  if (t.Number("experts", 1) > 1) {
    LogWarn(
        "{}: experts have static capacity (capacity_factor) and drop tokens beyond it, and the "
        "weights of the chosen "
        "experts are not normalised to 1: plans are valid, but losses differ from those of "
        "transformers",
        config.path());
    if (!options.dims.contains("group")) {
      t.Set("group", std::gcd(static_cast<int64_t>(t.Number("seq", 1)), kDefaultGroup));
    }
  }
  return t;
}

// The name of the folder is used where the file is just "config.json".
std::string GraphName(const std::string& path) {
  std::filesystem::path file(path);
  std::string stem = file.stem().string();
  std::string folder = file.parent_path().filename().string();
  return stem == "config" && !folder.empty() && folder != "." && folder != ".." ? folder : stem;
}

}  // namespace

Graph ParseHfConfig(std::string_view text, const std::string& path, const ImportOptions& options) {
  ConfigFile config(ParseJson(text, path), path);
  Translation translation = Complete(config, options);
  for (const auto& [key, reason] : config.passed_over()) {
    LogDebug("{}: '{}' is not read: {}", path, key, reason);
  }
  try {
    return BuildFamily(translation.family, translation.values, GraphName(path));
  } catch (const InputError& error) {
    config.Refuse(error.what());
  }
}

std::map<std::string, std::string, std::less<>> PassedOverKeys(std::string_view text,
                                                               const std::string& path,
                                                               const ImportOptions& options) {
  ConfigFile config(ParseJson(text, path), path);
  Complete(config, options);
  return config.passed_over();
}

Graph LoadHfConfig(const std::string& path, const ImportOptions& options) {
  return ParseHfConfig(ReadFile(path, kMaxJsonBytes), path, options);
}

}  // namespace heddle
