// Built-in models: families with keys, and names for published members of them.
//
//   Graph gpt3 = BuildModel("gpt3-175b");
//   Graph same = BuildModel("gpt3-175b:batch=4,seq=1024");   // a name with other keys
//   Graph own = BuildModel("gpt:layers=24,hidden=2304,heads=24,vocab=51200");
//
// The graph is the forward pass with its loss, as an ONNX export of the model is after fusion. Every layer has the same
// ops. Parameters have the names of Hugging Face and no data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/families/settings.h"
#include "graph/graph.h"

namespace heddle {

struct Family {
  std::string name;
  std::string about;  // one line
  std::vector<Key> keys;
  std::function<Graph(const Settings& settings, const std::string& name)> build;
};

// A published model: a name for an expression.
struct NamedModel {
  std::string name;
  std::string expression;
};

struct BuiltInInfo {
  std::string name;
  std::string family;
  std::string expression;  // the expression of a name; for a family its own name
};

// All families, and all names, in the order in which they are listed.
const std::vector<Family>& Families();
const std::vector<NamedModel>& NamedModels();

// Families first, each followed by its names.
const std::vector<BuiltInInfo>& BuiltInModels();

// Whether the part before the first ':' is the name of a family or a model.
bool IsBuiltIn(std::string_view expression);

// "; did you mean 'gpt2' or 'gpt3-13b'?", or an empty text where no name is similar.
std::string NearestBuiltIns(std::string_view expression);

// Builds a model. `overrides` replace settings of the expression (--dim batch=8). Throws an InputError of one line with
// the expression, the key, the value and what is allowed; an unknown name is answered with similar ones.
Graph BuildModel(const std::string& expression, const std::vector<KeyValue>& overrides = {});

// Checks an expression without building it. The sizes checked here bound the work of BuildModel.
Settings CheckExpression(const std::string& expression);

// Builds a model from checked parts, as a config.json gives them. `name` becomes the name of the graph.
Graph BuildFamily(std::string_view family, const std::vector<KeyValue>& values,
                  const std::string& name);

}  // namespace heddle
