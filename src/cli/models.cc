#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/checked_math.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/shared_options.h"
#include "frontend/families/built_in.h"

namespace heddle {
namespace {

// Builds the model with a batch of one, because the number of parameters does not depend on the batch.
int64_t CountParameters(const BuiltInInfo& info) {
  Graph graph = BuildModel(info.name, {{"batch", "1"}});
  int64_t count = 0;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    count =
        CheckedAdd(count, ElementCount(value.type.shape, value.name), "the number of parameters");
  }
  return count;
}

std::string Kind(const Key& key) {
  switch (key.kind) {
    case Key::Kind::kInt:
      return "int";
    case Key::Kind::kReal:
      return "real";
    case Key::Kind::kFlag:
      return "0|1";
    case Key::Kind::kChoice:
      return fmt::format("{}", fmt::join(key.choices, "|"));
  }
  return "";
}

Json ToJson() {
  Json json;
  json["families"] = Json::array();
  for (const Family& family : Families()) {
    Json keys = Json::array();
    for (const Key& key : family.keys) {
      keys.push_back(
          {{"name", key.name}, {"kind", Kind(key)}, {"default", key.fallback}, {"help", key.help}});
    }
    json["families"].push_back({{"name", family.name}, {"about", family.about}, {"keys", keys}});
  }
  json["models"] = Json::array();
  for (const BuiltInInfo& info : BuiltInModels()) {
    if (info.name == info.family) continue;
    json["models"].push_back({{"name", info.name},
                              {"family", info.family},
                              {"expression", info.expression},
                              {"parameters", CountParameters(info)}});
  }
  return json;
}

void PrintFamily(const Family& family) {
  fmt::print("{}: {}\n", family.name, family.about);
  for (const BuiltInInfo& info : BuiltInModels()) {
    if (info.family != family.name || info.name == family.name) continue;
    fmt::print("  {:<18} {:>8}   {}\n", info.name,
               FormatCount(static_cast<double>(CountParameters(info))), info.expression);
  }
}

void PrintKeys(const Family& family) {
  fmt::print("{}: {}\n", family.name, family.about);
  for (const Key& key : family.keys) {
    fmt::print("  {:<16} {:<14} {}", key.name, key.fallback, key.help);
    if (key.kind == Key::Kind::kChoice) fmt::print(" ({})", fmt::join(key.choices, ", "));
    fmt::print("\n");
  }
}

void List(const std::string& name, bool json) {
  if (!name.empty()) CheckExpression(name);
  if (json) {
    PrintJson(ToJson());
    return;
  }
  if (!name.empty()) {
    std::string_view head = std::string_view(name).substr(0, name.find(':'));
    for (const BuiltInInfo& info : BuiltInModels()) {
      if (info.name != head) continue;
      for (const Family& family : Families()) {
        if (family.name == info.family) PrintKeys(family);
      }
    }
    return;
  }
  for (const Family& family : Families()) {
    PrintFamily(family);
    fmt::print("\n");
  }
  fmt::print(
      "Any name or family takes keys: gpt3-175b:batch=4,seq=1024. 'heddle models FAMILY' lists "
      "them.\n");
}

struct ModelsArgs {
  std::string family;
  bool json = false;
};

}  // namespace

void AddModels(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("models", "list the built-in models, or the keys of a family");
  auto args = std::make_shared<ModelsArgs>();
  command->add_option("FAMILY", args->family, "a family or model, to list its keys");
  AddJsonFlag(*command, args->json);
  command->footer("Example:\n  heddle models gpt");
  command->callback([args] { List(args->family, args->json); });
}

}  // namespace heddle
