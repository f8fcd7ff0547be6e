#include "frontend/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "frontend/families/built_in.h"
#include "frontend/format.h"
#include "graph/safetensors.h"
#include "graph/text.h"

namespace heddle {
namespace {

// Joins words to "a, b or c", where `last` is " or ".
std::string Join(std::span<const std::string_view> words, std::string_view last) {
  if (words.size() < 2) return fmt::format("{}", fmt::join(words, ""));
  return fmt::format("{}{}{}", fmt::join(words.first(words.size() - 1), ", "), last, words.back());
}

}  // namespace

Graph LoadModel(const std::string& model, const ImportOptions& options) {
  if (const FormatDef* format = FindFormat(model)) return format->load(model, options);
  std::vector<std::string_view> files;
  for (const FormatDef& format : AllFormats()) {
    if (!format.file.empty()) files.push_back(format.file);
  }
  ThrowInput("model '{}' is neither an {} file nor a built-in{} ('heddle models' lists these)",
             model, Join(files, " or "), NearestBuiltIns(model));
}

bool IsModelFile(const std::string& model) {
  const FormatDef* format = FindFormat(model);
  return format != nullptr && !format->file.empty();
}

std::string ModelHelp() {
  std::vector<std::string_view> help;
  for (const FormatDef& format : AllFormats()) help.push_back(format.help);
  return Join(help, ", or ");
}

void LoadWeights(Graph& graph, const std::string& path) {
  std::map<std::string, HostTensor> tensors = SafetensorsFile::Open(path).LoadAll();
  bool any = std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& value) {
    bool holds = value.kind == ValueKind::kParameter || value.kind == ValueKind::kConstant;
    return holds && tensors.contains(value.name);
  });
  if (!any)
    ThrowInput("{}: none of its {} tensors is a parameter of the model", path, tensors.size());
  std::set<std::string> known;
  for (const Value& value : graph.values) known.insert(value.name);
  std::vector<std::string> extra;
  for (const auto& [name, tensor] : tensors) {
    if (!known.contains(name)) extra.push_back(name);
  }
  if (!extra.empty()) {
    ThrowInput("{}: {} of its {} tensors do not belong to the model: {}; leave them out", path,
               extra.size(), tensors.size(), fmt::join(extra, ", "));
  }
  AttachData(graph, std::move(tensors), path);
}

}  // namespace heddle
