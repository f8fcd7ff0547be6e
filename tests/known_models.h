// The models in tests/data, with the figures of PyTorch for them (models.json).
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace heddle {

struct KnownModel {
  std::string name;
  std::string path;
  std::string reference;  // empty if there is none
  std::optional<int64_t> parameters, parameter_tensors;
  std::optional<double> forward_contraction_flops;
  std::map<std::string, std::string> aliases;
};

// Prints a model in messages of gtest.
inline void PrintTo(const KnownModel& model, std::ostream* out) { *out << model.name; }

inline std::vector<KnownModel> KnownModels() {
  std::string folder = HEDDLE_TEST_DATA "/";
  Json json = ParseJson(ReadFile(folder + "models.json", 1 << 20), "models.json");
  std::vector<KnownModel> models;
  for (const auto& [name, entry] : json["models"].items()) {
    KnownModel model;
    model.name = name;
    model.path = folder + entry["file"].get<std::string>();
    if (entry.contains("reference"))
      model.reference = folder + entry["reference"].get<std::string>();
    if (entry.contains("parameters")) model.parameters = entry["parameters"].get<int64_t>();
    if (entry.contains("parameter_tensors")) {
      model.parameter_tensors = entry["parameter_tensors"].get<int64_t>();
    }
    if (entry.contains("forward_contraction_flops")) {
      model.forward_contraction_flops = entry["forward_contraction_flops"].get<double>();
    }
    if (entry.contains("aliases")) {
      model.aliases = entry["aliases"].get<std::map<std::string, std::string>>();
    }
    models.push_back(std::move(model));
  }
  return models;
}

// A name that is valid in gtest.
inline std::string TestName(const std::string& name) {
  std::string clean;
  for (char c : name) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return clean;
}

}  // namespace heddle
