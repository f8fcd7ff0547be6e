// Models exported by PyTorch. After import with and without fusion, they have the parameters and contraction FLOPs that
// PyTorch reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "frontend/load.h"
#include "graph/text.h"
#include "known_models.h"
#include "ops/analysis.h"
#include "ops/op.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

class RealModel : public testing::TestWithParam<KnownModel> {};

TEST_P(RealModel, CountsAreThoseOfPyTorch) {
  for (bool fuse : {true, false}) {
    ImportOptions options;
    options.fuse = fuse;
    Graph graph = LoadModel(GetParam().path, options);
    EXPECT_EQ(VerifyModel(graph), std::vector<std::string>{});
    EXPECT_NO_THROW(CheckTypes(graph));
    ModelSize size = Measure(graph);
    if (GetParam().parameters) {
      EXPECT_EQ(size.parameters, *GetParam().parameters);
      EXPECT_EQ(size.parameter_tensors, *GetParam().parameter_tensors);
    }
    if (GetParam().forward_contraction_flops) {
      EXPECT_NEAR(size.work.forward.contraction_flops / *GetParam().forward_contraction_flops, 1,
                  1e-4);
    }
    EXPECT_GT(size.activation_bytes, 0);
  }
}

TEST_P(RealModel, TextFormComesBack) {
  Graph graph = LoadModel(GetParam().path);
  std::string text = ToText(graph);
  Graph back = FromText(text, "model.heddle");
  EXPECT_EQ(ToText(back), text);
  EXPECT_NO_THROW(CheckTypes(back));
  EXPECT_EQ(StableHash(back), StableHash(graph));
}

// After rebatching, values with a batch dimension grow in proportion and parameters stay the same; rebatching back
// gives the original. For a model that cannot be rebatched, the error names the node and the reason.
TEST_P(RealModel, RebatchesOrNamesTheNode) {
  Graph graph = LoadModel(GetParam().path);
  ModelSize size = Measure(graph);
  int64_t batch = graph.value(graph.ValuesOf(ValueKind::kInput)[0]).type.shape[0];
  for (int64_t n : {1, 3, 64}) {
    Graph other;
    try {
      other = Rebatch(graph, n);
    } catch (const InputError& error) {
      EXPECT_EQ(GetParam().name,
                "gpt2.default-export");  // its masks are constants of unknown content
      EXPECT_THAT(error.what(), testing::HasSubstr("reads constant 'index'"));
      continue;
    }
    EXPECT_EQ(VerifyModel(other), std::vector<std::string>{});
    EXPECT_NO_THROW(CheckTypes(other));
    ModelSize scaled = Measure(other);
    double ratio = static_cast<double>(n) / static_cast<double>(batch);
    EXPECT_EQ(scaled.parameters, size.parameters);
    EXPECT_NEAR(scaled.work.forward.contraction_flops / size.work.forward.contraction_flops / ratio,
                1, 1e-9);
    if (n > 1) {
      EXPECT_EQ(ToText(Rebatch(other, batch)), ToText(graph));
    }
  }
}

std::string Histogram(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.op];
  std::string text;
  for (const auto& [op, count] : counts) text += op + " " + std::to_string(count) + "\n";
  return text;
}

TEST(RealModels, FusionLeavesOneOpPerIdea) {
  std::string folder = HEDDLE_TEST_DATA "/models/";
  Graph gpt = LoadModel(folder + "gpt2.onnx.gz");
  EXPECT_EQ(Histogram(gpt),
            "Add 25\nAttention 12\nCrossEntropy 1\nGather 2\nGelu 12\nLabelCount 1\nLayerNorm 25\n"
            "Linear 49\nReshape 50\nSplit 12\nTranspose 48\n");
  for (const Node& node : gpt.nodes) {
    if (node.op != "Attention") continue;
    EXPECT_EQ(node.operands.size(), 3u) << "the causal mask is an attribute";
    EXPECT_EQ(IntAttr(node.attributes, "causal"), 1);
  }
  Graph llama = LoadModel(folder + "llama3-8b.onnx.gz");
  for (const Node& node : llama.nodes) {
    EXPECT_NE(node.op, "Softmax");
    EXPECT_NE(node.op, "Pow");
    if (node.op != "Attention") continue;
    EXPECT_EQ(llama.value(node.operands[0]).type.shape, (Shape{4, 32, 2048, 128}));
    EXPECT_EQ(llama.value(node.operands[1]).type.shape, (Shape{4, 8, 2048, 128}))
        << "heads not repeated";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealModel, testing::ValuesIn(KnownModels()),
                         [](const auto& info) { return TestName(info.param.name); });

}  // namespace
}  // namespace heddle
