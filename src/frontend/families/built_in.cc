#include "frontend/families/built_in.h"

#include "base/check.h"
#include "base/error.h"
#include "base/nearest.h"
#include "frontend/families/families.h"

namespace heddle {
namespace {

const Family* FindFamily(std::string_view name) {
  for (const Family& family : Families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

const NamedModel* FindModel(std::string_view name) {
  for (const NamedModel& model : NamedModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

struct Resolved {
  const Family* family = nullptr;
  std::vector<KeyValue> values;
};

// The settings of a named model come first, so that given ones replace them.
Resolved Resolve(std::string_view text) {
  Expression expression = ParseExpression(text);
  Resolved resolved;
  if (const NamedModel* model = FindModel(expression.name)) {
    resolved = Resolve(model->expression);
  } else {
    resolved.family = FindFamily(expression.name);
  }
  if (resolved.family == nullptr) {
    ThrowInput("no built-in model '{}'{} ('heddle models' lists them)", expression.name,
               NearestBuiltIns(text));
  }
  resolved.values.insert(resolved.values.end(), expression.values.begin(), expression.values.end());
  return resolved;
}

// Calls `function`; errors begin with the expression, which is shortened where it is long.
template <class Function>
auto WithExpressionInErrors(std::string_view expression, Function function) {
  try {
    return function();
  } catch (const InputError& error) {
    std::string text(expression.substr(0, 100));
    if (text.size() < expression.size()) text += "...";
    ThrowInput("{}: {}", text, error.what());
  }
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      GptFamily(), LlamaFamily(),  MoeFamily(),        BertFamily(), T5Family(),
      VitFamily(), ResnetFamily(), WideResnetFamily(), VggFamily(),  InceptionFamily(),
  };
  return families;
}

const std::vector<BuiltInInfo>& BuiltInModels() {
  static const std::vector<BuiltInInfo> all = [] {
    std::vector<BuiltInInfo> list;
    for (const Family& family : Families()) {
      list.push_back({family.name, family.name, family.name});
      for (const NamedModel& model : NamedModels()) {
        if (Resolve(model.expression).family == &family) {
          list.push_back({model.name, family.name, model.expression});
        }
      }
    }
    return list;
  }();
  return all;
}

bool IsBuiltIn(std::string_view expression) {
  std::string_view name = expression.substr(0, expression.find(':'));
  return FindFamily(name) != nullptr || FindModel(name) != nullptr;
}

std::string NearestBuiltIns(std::string_view expression) {
  const std::vector<BuiltInInfo>& models = BuiltInModels();
  std::vector<std::string_view> names;
  for (const BuiltInInfo& info : models) names.push_back(info.name);
  std::string_view name = expression.substr(0, expression.find(':'));
  if (Nearest(name, names).empty()) return "";  // the list of all names would be long
  return "; " + DidYouMean(name, names);
}

Graph BuildModel(const std::string& expression, const std::vector<KeyValue>& overrides) {
  return WithExpressionInErrors(expression, [&] {
    Resolved resolved = Resolve(expression);
    resolved.values.insert(resolved.values.end(), overrides.begin(), overrides.end());
    return resolved.family->build(Settings(resolved.family->keys, resolved.values), expression);
  });
}

Settings CheckExpression(const std::string& expression) {
  return WithExpressionInErrors(expression, [&] {
    Resolved resolved = Resolve(expression);
    return Settings(resolved.family->keys, resolved.values);
  });
}

Graph BuildFamily(std::string_view name, const std::vector<KeyValue>& values,
                  const std::string& graph_name) {
  const Family* family = FindFamily(name);
  HEDDLE_CHECK(family != nullptr, "family {}", name);
  return family->build(Settings(family->keys, values), graph_name);
}

}  // namespace heddle
