// Compares built-in models with ONNX files that PyTorch exported of the same models: parameters, FLOPs, kept
// activations and ops are the same.
#include <gtest/gtest.h>

#include <map>

#include "fold/fold.h"
#include "frontend/families/built_in.h"
#include "frontend/load.h"
#include "graph/text.h"
#include "known_models.h"
#include "ops/analysis.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

struct Pair {
  std::string file;
  std::string expression;
};

const std::vector<Pair>& Pairs() {
  static const std::vector<Pair> pairs = {
      {"gpt2", "gpt2:seq=512,positions=1024"},
      {"gpt3-2.7b", "gpt3-2.7b:batch=4"},
      {"gpt3-175b", "gpt3-175b:batch=4"},
      {"llama3-8b", "llama3-8b:batch=4,seq=2048"},
      {"bert-base", "bert-base"},
      {"t5-small", "t5-small"},
      {"vit-base", "vit-base"},
      {"resnet50", "resnet50"},
      {"resnet50-100k", "resnet50:classes=100000"},
      {"vgg19", "vgg19"},
      {"inception_v3", "inception_v3"},
      {"moe-16e", "moe-16e"},
  };
  return pairs;
}

std::map<std::string, int> OpCounts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  return counts;
}

// Parameter shapes by name, without the prefix that the exporter's wrapper adds.
std::map<std::string, Shape> ParameterShapes(const Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    std::string name = graph.value(id).name;
    shapes[name.starts_with("m.") ? name.substr(2) : name] = graph.value(id).type.shape;
  }
  return shapes;
}

class FamilyAgainstFile : public testing::TestWithParam<Pair> {};

TEST_P(FamilyAgainstFile, IsTheSameModel) {
  Graph file = LoadModel(std::string(HEDDLE_TEST_DATA "/models/") + GetParam().file + ".onnx.gz");
  Graph built = LoadModel(GetParam().expression);
  ModelSize expected = Measure(file), size = Measure(built);
  EXPECT_EQ(size.parameters, expected.parameters);
  EXPECT_EQ(size.parameter_tensors, expected.parameter_tensors);
  EXPECT_EQ(size.work.forward.contraction_flops, expected.work.forward.contraction_flops);
  EXPECT_EQ(size.work.forward.flops, expected.work.forward.flops);
  EXPECT_EQ(size.work.backward.flops, expected.work.backward.flops);
  EXPECT_EQ(size.work.weight.flops, expected.work.weight.flops);
  EXPECT_EQ(size.activation_bytes, expected.activation_bytes);

  EXPECT_EQ(OpCounts(built), OpCounts(file));
}

// Both have the same blocks with the same counts.
TEST_P(FamilyAgainstFile, FoldsIntoTheSameBlocks) {
  auto chains = [](const Graph& graph) {
    std::vector<std::pair<size_t, std::map<std::string, int>>> found;
    for (const Chain& chain : Fold(graph, MakeRules(graph)).chains) {
      std::map<std::string, int> ops;
      for (NodeId id : chain.copies[0]) ++ops[graph.node(id).op];
      found.emplace_back(chain.count(), std::move(ops));
    }
    return found;
  };
  EXPECT_EQ(
      chains(LoadModel(GetParam().expression)),
      chains(LoadModel(std::string(HEDDLE_TEST_DATA "/models/") + GetParam().file + ".onnx.gz")));
}

// A model built at a batch equals a model that is rebatched to it.
TEST_P(FamilyAgainstFile, RebatchesToWhatItBuilds) {
  const std::string& expression = GetParam().expression;
  Graph built = BuildModel(expression, {{"batch", "6"}});
  Graph rebatched = Rebatch(BuildModel(expression), 6);
  rebatched.name = built.name;
  EXPECT_EQ(ToText(rebatched), ToText(built));
}

// A tied weight has two names, of which the file and the built-in model may use different ones.
TEST_P(FamilyAgainstFile, HasItsParameterNames) {
  std::map<std::string, Shape> file = ParameterShapes(
      LoadModel(std::string(HEDDLE_TEST_DATA "/models/") + GetParam().file + ".onnx.gz"));
  std::map<std::string, Shape> built = ParameterShapes(LoadModel(GetParam().expression));
  std::vector<std::string> missing;
  for (const auto& [name, shape] : file) {
    auto found = built.find(name);
    if (found == built.end()) {
      missing.push_back(name);
    } else {
      EXPECT_EQ(found->second, shape) << name;
    }
  }
  std::vector<std::string> allowed;
  if (GetParam().file.starts_with("gpt") || GetParam().file == "t5-small")
    allowed = {"lm_head.weight"};
  if (GetParam().file == "bert-base") {
    allowed = {"cls.predictions.decoder.bias", "cls.predictions.decoder.weight"};
  }
  EXPECT_EQ(missing, allowed);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyAgainstFile, testing::ValuesIn(Pairs()),
                         [](const auto& info) { return TestName(info.param.file); });

}  // namespace
}  // namespace heddle
