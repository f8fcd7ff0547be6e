// The blocks of models with one and several chains. Layers are in an order in which every value flows forward.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "frontend/load.h"
#include "ops/op.h"
#include "plan/model.h"

namespace heddle {
namespace {

struct BlocksCase {
  std::string model;
  // The lengths of the chains of layers, in the order of blocks.
  std::vector<int> layers;
};
void PrintTo(const BlocksCase& at, std::ostream* out) { *out << at.model; }

std::vector<int> LayersInARow(const Model& model) {
  std::vector<int> layers;
  int chain = -1;
  for (const ModelBlock& block : model.blocks) {
    if (block.chain < 0) continue;
    if (block.chain != chain) layers.push_back(0);
    chain = block.chain;
    EXPECT_EQ(block.copy, layers.back()) << "copies of a chain come one after the other";
    ++layers.back();
  }
  return layers;
}

void ExpectForwardFlow(const Model& model) {
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    if (model.block_of[n] < 0) continue;
    for (ValueId id : model.graph.nodes[n].operands) {
      NodeId producer = model.graph.value(id).producer;
      if (!producer.valid()) continue;
      EXPECT_LE(model.block_of[producer.index()], model.block_of[n]) << model.graph.value(id).name;
    }
  }
}

class Blocks : public testing::TestWithParam<BlocksCase> {};

TEST_P(Blocks, AreLayersInTheOrderOfTheData) {
  std::string name = GetParam().model;
  if (name.starts_with("data/")) name = HEDDLE_TEST_DATA + name.substr(4);
  Model model = Analyse(LoadModel(name));
  EXPECT_EQ(LayersInARow(model), GetParam().layers);
  ExpectForwardFlow(model);
}

INSTANTIATE_TEST_SUITE_P(
    All, Blocks,
    testing::Values(
        BlocksCase{"t5-small", {6, 6}}, BlocksCase{"data/models/t5-small.onnx.gz", {6, 6}},
        BlocksCase{"t5:layers=3,decoder_layers=7,hidden=64,heads=4,vocab=512,seq=32", {3, 7}},
        BlocksCase{"t5:layers=7,decoder_layers=3,hidden=64,heads=4,mlp=gated_gelu,dropout=0.1,"
                   "vocab=512,seq=32",
                   {7, 3}},
        BlocksCase{"moe:layers=8,dense_layers=3,hidden=64,heads=4,vocab=512,seq=64", {3, 5}},
        BlocksCase{"vit:layers=5,hidden=64,heads=4", {5}}, BlocksCase{"resnet50", {2, 2, 3, 5, 2}},
        // Parallel branches with few repetitions, so every node is a block.
        BlocksCase{"data/models/inception_v3.onnx.gz", {}}),
    [](const auto& info) {
      std::string name = info.param.model;
      name = name.starts_with("data/") ? "file" : name.substr(0, name.find_first_of(":-"));
      return name + std::to_string(info.index);
    });

// No layer of the encoder reads the embedding of the decoder, so it comes after all of them, and stages of the encoder
// do not forward it.
TEST(BlocksOfT5, TheDecodersEmbeddingIsNextToTheDecoder) {
  Model model = Analyse(LoadModel("t5-small"));
  std::vector<int> embeddings;
  int first_decoder_layer = -1;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const ModelBlock& block = model.blocks[b];
    if (block.chain >= 0) {
      if (block.chain == 1 && first_decoder_layer < 0) first_decoder_layer = static_cast<int>(b);
    } else if (model.graph.node(block.nodes[0]).op == "Gather") {
      embeddings.push_back(static_cast<int>(b));
    }
  }
  ASSERT_EQ(embeddings.size(), 2u);
  EXPECT_EQ(embeddings[0], 0);
  EXPECT_GT(embeddings[1], 6);
  EXPECT_LT(embeddings[1], first_decoder_layer);
}

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

ValueId Layer(Graph& graph, ValueId x, ValueId other, const std::string& op,
              const std::string& name) {
  ValueId w = graph.AddValue(name + ".w", F32({8, 8}), ValueKind::kParameter);
  x = AddOp(graph, "Linear", {}, {x, w}, name + ".linear")[0];
  x = AddOp(graph, op, {}, {x}, name + ".act")[0];
  return other.valid() ? AddOp(graph, "Mul", {}, {x, other}, name + ".mul")[0] : x;
}

// Each layer of the second chain reads a layer of the first, so the layers of both chains alternate.
TEST(BlocksOfSeveralChains, MayTakeTurns) {
  Graph graph;
  ValueId x = graph.AddValue("x", F32({4, 8}), ValueKind::kInput);
  ValueId w = graph.AddValue("w", F32({8, 8}), ValueKind::kParameter);
  ValueId a = AddOp(graph, "Linear", {}, {x, w}, "first")[0],
          b = AddOp(graph, "Neg", {}, {a}, "b")[0];
  for (int i = 0; i < 6; ++i) {
    a = Layer(graph, a, {}, "Relu", fmt::format("a{}", i));
    b = Layer(graph, b, a, "Tanh", fmt::format("b{}", i));
  }
  graph.outputs = {AddOp(graph, "ReduceSum",
                         {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}}, {b},
                         "loss")[0]};
  Model model = Analyse(graph);
  ExpectForwardFlow(model);
  int layers = 0;
  for (const ModelBlock& block : model.blocks) layers += block.chain >= 0 ? 1 : 0;
  EXPECT_GE(layers, 5);
}

}  // namespace
}  // namespace heddle
