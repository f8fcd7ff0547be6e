#include "frontend/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/fuse_passes.h"
#include "frontend/fuse_patterns.h"
#include "ops/op.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;
using testing::IsEmpty;

void ExpectSound(const Graph& graph) {
  ASSERT_THAT(VerifyModel(graph), IsEmpty());
  ASSERT_NO_THROW(CheckTypes(graph));
}

// Runs the passes one by one; the graph must be sound after each.
Graph Fuse(Graph graph) {
  ExpectSound(graph);
  for (const Pass& pass : FusionPasses()) {
    graph = RunPasses(std::move(graph), {&pass, 1});
    SCOPED_TRACE(std::string(pass.name));
    ExpectSound(graph);
  }
  return graph;
}

Graph Model(ValueId (*build)(PatternModel&)) {
  PatternModel model;
  ValueId value = build(model);
  return model.Finish({value});
}

const FusePattern& Named(std::string_view name) {
  for (const FusePattern& pattern : AllFusePatterns()) {
    if (pattern.name == name) return pattern;
  }
  ADD_FAILURE() << "no pattern " << name;
  return AllFusePatterns()[0];
}

// The only node of an op after fusion.
Node FusedNode(std::string_view pattern, std::string_view op) {
  Graph graph = Fuse(Model(Named(pattern).build));
  std::optional<Node> found;
  for (const Node& node : graph.nodes) {
    if (node.op != op) continue;
    EXPECT_FALSE(found) << "two of " << op;
    found = node;
  }
  EXPECT_TRUE(found) << PatternOps(graph);
  return found.value_or(Node{});
}

class Patterns : public testing::TestWithParam<FusePattern> {};

TEST_P(Patterns, BecomeTheseOps) {
  Graph graph = Fuse(Model(GetParam().build));
  EXPECT_EQ(PatternOps(graph), GetParam().ops);
}

TEST_P(Patterns, AreAFixedPoint) {
  Graph once = Fuse(Model(GetParam().build));
  EXPECT_EQ(StableHash(Fuse(once)), StableHash(once));
}

// Passes leave no nodes that the loss does not need.
TEST_P(Patterns, LeaveNothingDead) {
  Graph graph = Fuse(Model(GetParam().build));
  std::vector<std::vector<NodeId>> readers = Readers(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    bool output = graph.outputs[0] == ValueId{static_cast<int32_t>(v)};
    EXPECT_TRUE(output || !readers[v].empty()) << graph.values[v].name;
  }
}

std::string PatternName(const testing::TestParamInfo<FusePattern>& info) {
  return std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(Fuse, Patterns, testing::ValuesIn(AllFusePatterns()), PatternName);
INSTANTIATE_TEST_SUITE_P(Leave, Patterns, testing::ValuesIn(AllNearPatterns()), PatternName);

// --- Attributes and operands ---------------------------------------------------------------------

TEST(FuseActivations, TellsTheTwoFormsOfGelu) {
  for (const FusePattern& pattern : AllFusePatterns()) {
    if (!pattern.name.starts_with("Gelu")) continue;
    bool tanh = pattern.name.starts_with("GeluTanh");
    EXPECT_EQ(StringAttr(FusedNode(pattern.name, "Gelu").attributes, "approximate"),
              tanh ? "tanh" : "none")
        << pattern.name;
  }
}

TEST(FuseNorms, KeepEpsilon) {
  for (std::string_view name : {"RMSNormDiv", "RMSNormReciprocal", "RMSNormOneOverRoot"}) {
    Node norm = FusedNode(name, "RMSNorm");
    EXPECT_FLOAT_EQ(static_cast<float>(FloatAttr(norm.attributes, "epsilon")), 1e-5f) << name;
    EXPECT_EQ(norm.operands.size(), 2u);
  }
  Node norm = FusedNode("LayerNormDiv", "LayerNorm");
  EXPECT_FLOAT_EQ(static_cast<float>(FloatAttr(norm.attributes, "epsilon")), 1e-5f);
  EXPECT_EQ(norm.operands.size(), 3u);
}

struct AttentionForm {
  std::string_view pattern;
  double scale;
  int64_t causal;
  size_t operands;
};

class AttentionForms : public testing::TestWithParam<AttentionForm> {};

TEST_P(AttentionForms, HaveTheseAttributes) {
  Node node = FusedNode(GetParam().pattern, "Attention");
  EXPECT_NEAR(FloatAttr(node.attributes, "scale"), GetParam().scale, 1e-6);
  EXPECT_EQ(IntAttr(node.attributes, "causal"), GetParam().causal);
  EXPECT_EQ(node.operands.size(), GetParam().operands);
}

INSTANTIATE_TEST_SUITE_P(Fuse, AttentionForms,
                         testing::Values(AttentionForm{"AttentionScaleMul", 0.4, 0, 3},
                                         AttentionForm{"AttentionScaleDiv", 0.4, 0, 3},
                                         AttentionForm{"AttentionNoScale", 1, 0, 3},
                                         AttentionForm{"AttentionScaledQuery", 0.4, 0, 3},
                                         AttentionForm{"AttentionBothScaled", 0.36, 0, 3},
                                         AttentionForm{"AttentionScaledKey", 0.5, 0, 3},
                                         AttentionForm{"AttentionBias", 0.4, 0, 4},
                                         AttentionForm{"AttentionBiasFirst", 0.4, 0, 4},
                                         AttentionForm{"AttentionBiasOfWholeSize", 0.4, 0, 4},
                                         AttentionForm{"AttentionTwoBiases", 0.4, 0, 4},
                                         AttentionForm{"AttentionCausal", 0.4, 1, 3},
                                         AttentionForm{"AttentionCausalInfinite", 0.4, 1, 3},
                                         AttentionForm{"AttentionCausalAndBias", 0.4, 1, 4},
                                         AttentionForm{"AttentionConstantMask", 0.4, 0, 4},
                                         AttentionForm{"AttentionWhereKept", 0.4, 1, 3},
                                         AttentionForm{"AttentionMaskedFill", 0.4, 1, 3},
                                         AttentionForm{"AttentionMaskedFillThenBias", 0.4, 1, 4},
                                         AttentionForm{"AttentionConstantPadding", 0.4, 0, 4},
                                         AttentionForm{"AttentionNaNGuard", 0.4, 1, 3},
                                         AttentionForm{"AttentionGroupedQueryScaledKeys", 0.5, 1,
                                                       3}),
                         [](const auto& info) { return std::string(info.param.pattern); });

TEST(FuseAttention, AbsorbsTheRepeatedHeads) {
  Graph graph = Fuse(Model(Named("AttentionGroupedQuery").build));
  for (const Node& node : graph.nodes) {
    if (node.op != "Attention") continue;
    EXPECT_EQ(graph.value(node.operands[0]).type.shape[1], 4);
    EXPECT_EQ(graph.value(node.operands[1]).type.shape[1], 2);
    EXPECT_EQ(graph.value(node.operands[2]).type.shape[1], 2);
  }
}

// A condition becomes an additive constant of the same shape.
TEST(FuseAttention, MakesABiasOfAConstantCondition) {
  Graph graph = Fuse(Model(Named("AttentionConstantPadding").build));
  for (const Node& node : graph.nodes) {
    if (node.op != "Attention") continue;
    const Value& bias = graph.value(node.operands[3]);
    ASSERT_EQ(bias.type, (TensorType{DType::kF32, {1, 1, 1, 5}}));
    EXPECT_THAT(bias.data->as<float>(), testing::ElementsAre(0, 0, -1e9f, 0, -1e9f));
  }
}

// Masks that are almost causal are treated as biases.
TEST(FuseAttention, TellsCausalMasksFromOthers) {
  auto causal = [](const Shape& shape, std::vector<double> numbers) {
    PatternModel m;
    int64_t rows = shape[shape.size() - 2], columns = shape.back();
    ValueId scores = m("MatMul", {m.Activation({2, rows, 4}), m.Activation({2, 4, columns})});
    ValueId biased = m("Add", {scores, m.Constant(shape, numbers)});
    ValueId p = m("Softmax", {biased}, {{"axis", int64_t{-1}}});
    Graph graph = Fuse(m.Finish({m("MatMul", {p, m.Activation({2, columns, 3})})}));
    for (const Node& node : graph.nodes) {
      if (node.op == "Attention") return IntAttr(node.attributes, "causal");
    }
    return int64_t{-1};
  };
  EXPECT_EQ(causal({2, 2}, {0, -1e9, 0, 0}), 1);
  EXPECT_EQ(causal({1, 2, 2}, {0, -1e9, 0, 0}), 1);
  EXPECT_EQ(causal({3, 3}, {0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0}), 1);
  EXPECT_EQ(causal({2, 2}, {0, 0, 0, 0}), 0);
  EXPECT_EQ(causal({2, 2}, {0, 0, -1e9, 0}), 0);                 // the other triangle
  EXPECT_EQ(causal({2, 2}, {0, -1e9, 0, 0.5}), 0);               // an offset below the diagonal
  EXPECT_EQ(causal({2, 2}, {0, -5, 0, 0}), 0);                   // not low enough
  EXPECT_EQ(causal({2, 2}, {-1e9, -1e9, 0, 0}), 0);              // strictly below the diagonal
  EXPECT_EQ(causal({2, 3}, {0, -1e9, -1e9, 0, 0, -1e9}), 0);     // keys of another sequence
  EXPECT_EQ(causal({1, 1}, {0}), 0);                             // nothing to mask
  EXPECT_EQ(causal({2, 2, 2}, {0, -1e9, 0, 0, 0, 0, 0, 0}), 0);  // only one head is masked
}

TEST(FuseLinear, SaysHowTheWeightLies) {
  EXPECT_EQ(IntAttr(FusedNode("Linear", "Linear").attributes, "transpose_weight"), 0);
  EXPECT_EQ(IntAttr(FusedNode("LinearTurned", "Linear").attributes, "transpose_weight"), 1);
  EXPECT_EQ(FusedNode("LinearTurned", "Linear").operands.size(), 2u);
  EXPECT_EQ(FusedNode("LinearBias", "Linear").operands.size(), 3u);
  EXPECT_EQ(FusedNode("LinearBiasFirst", "Linear").operands.size(), 3u);
}

// A transposition that moves no dimension is not treated as a swap.
TEST(FuseLinear, LooksAtThePermutation) {
  PatternModel m;
  ValueId weight = m("Transpose", {m.Parameter({4, 4})}, {{"perm", Ints{0, 1}}});
  Graph graph = m.Finish({m("MatMul", {m.Activation({2, 4}), weight})});
  EXPECT_EQ(PatternOps(FuseLinear(graph)), "Transpose MatMul");
  graph = Fuse(std::move(graph));
  EXPECT_EQ(PatternOps(graph), "Linear");
}

// A product that is itself an output is not merged with the sum.
TEST(FuseLinear, LeavesTheBiasOfAnOutput) {
  PatternModel m;
  ValueId product = m("MatMul", {m.Activation({2, 4}), m.Parameter({4, 3})});
  ValueId sum = m("Add", {product, m.Parameter({3})});
  Graph graph = m.Finish({sum});
  graph.outputs = {product, sum};
  graph = FuseLinear(std::move(graph));
  ASSERT_THAT(Verify(graph), IsEmpty());
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  EXPECT_THAT(ops, testing::ElementsAre("Sub", "Linear", "Add"));
}

// A long chain of squares would have exponentially many factors.
TEST(Flatten, StopsInTime) {
  PatternModel m;
  ValueId x = m.Activation({2});
  for (int i = 0; i < 100; ++i) x = m("Mul", {x, x});
  Rewriter rw(m.Finish({x}));
  EXPECT_LE(Flatten(rw, x).factors.size(), 16u);
}

TEST(Flatten, TakesBothBranchesApart) {
  PatternModel m;
  ValueId a = m.Activation({2}), b = m.Activation({2}), c = m.Activation({2});
  ValueId left = m("Mul", {a, m.Scalar(3)}), right = m("Div", {m("Mul", {b, c}), m.Scalar(2)});
  ValueId root = m("Mul", {left, right});
  Rewriter rw(m.Finish({root}));
  FlatProduct product = Flatten(rw, root);
  EXPECT_EQ(product.scale, 1.5);
  EXPECT_THAT(product.factors, testing::ElementsAre(a, b, c));
  EXPECT_EQ(product.nodes.size(), 4u);
}

TEST(Flatten, LeavesWhatOthersRead) {
  PatternModel m;
  ValueId a = m.Activation({2}), b = m.Activation({2});
  ValueId shared = m("Mul", {a, b});
  ValueId root = m("Mul", {shared, m.Scalar(4)});
  Rewriter rw(m.Finish({root, shared}));
  EXPECT_THAT(Flatten(rw, root).factors, testing::ElementsAre(shared));
}

// --- Clean-up ------------------------------------------------------------------------------------

Graph Transposed(const std::vector<Ints>& perms) {
  PatternModel m;
  ValueId x = m.Activation({2, 3, 4});
  for (const Ints& perm : perms) x = m("Transpose", {x}, {{"perm", perm}});
  return m.Finish({x});
}

TEST(MergeTransposes, Composes) {
  Graph graph = MergeTransposes(Transposed({{1, 2, 0}, {0, 2, 1}}));
  ExpectSound(graph);
  ASSERT_EQ(PatternOps(graph), "Transpose");
  EXPECT_EQ(IntsAttr(graph.nodes[1].attributes, "perm"), (Ints{1, 0, 2}));
}

TEST(MergeTransposes, ComposesChains) {
  Graph graph = MergeTransposes(Transposed({{1, 2, 0}, {2, 1, 0}, {1, 0, 2}}));
  ExpectSound(graph);
  ASSERT_EQ(PatternOps(graph), "Transpose");
  EXPECT_EQ(IntsAttr(graph.nodes[1].attributes, "perm"), (Ints{2, 0, 1}));
}

TEST(MergeTransposes, CancelsOut) {
  for (const std::vector<Ints>& perms : std::vector<std::vector<Ints>>{
           {{0, 1, 2}}, {{1, 2, 0}, {2, 0, 1}}, {{1, 2, 0}, {1, 2, 0}, {1, 2, 0}}}) {
    Graph graph = MergeTransposes(Transposed(perms));
    ExpectSound(graph);
    EXPECT_EQ(PatternOps(graph), "");
  }
}

TEST(MergeTransposes, KeepsWhatOthersRead) {
  PatternModel m;
  ValueId once = m("Transpose", {m.Activation({2, 3, 4})}, {{"perm", Ints{1, 2, 0}}});
  ValueId twice = m("Transpose", {once}, {{"perm", Ints{0, 2, 1}}});
  Graph graph = MergeTransposes(m.Finish({twice, once}));
  ExpectSound(graph);
  std::vector<Ints> perms;
  for (const Node& node : graph.nodes) {
    if (node.op == "Transpose") perms.push_back(IntsAttr(node.attributes, "perm"));
  }
  EXPECT_THAT(perms, testing::ElementsAre(Ints{1, 2, 0}, Ints{1, 0, 2}));
}

Graph Reshaped(const std::vector<Ints>& shapes) {
  PatternModel m;
  ValueId x = m.Activation({2, 3, 4});
  for (const Ints& shape : shapes) x = m("Reshape", {x}, {{"shape", shape}});
  return m.Finish({x});
}

TEST(MergeReshapes, KeepsTheLastShape) {
  Graph graph = MergeReshapes(Reshaped({{6, 4}, {24}, {4, 6}}));
  ExpectSound(graph);
  ASSERT_EQ(PatternOps(graph), "Reshape");
  EXPECT_EQ(IntsAttr(graph.nodes[1].attributes, "shape"), (Ints{4, 6}));
}

TEST(MergeReshapes, DropsThoseToTheSameShape) {
  for (const std::vector<Ints>& shapes : std::vector<std::vector<Ints>>{
           {{2, 3, 4}}, {{6, 4}, {2, 3, 4}}, {{24}, {6, 4}, {2, 3, 4}}}) {
    Graph graph = MergeReshapes(Reshaped(shapes));
    ExpectSound(graph);
    EXPECT_EQ(PatternOps(graph), "");
  }
}

TEST(MergeReshapes, KeepsWhatOthersRead) {
  PatternModel m;
  ValueId once = m("Reshape", {m.Activation({2, 3, 4})}, {{"shape", Ints{6, 4}}});
  ValueId twice = m("Reshape", {once}, {{"shape", Ints{24}}});
  Graph graph = MergeReshapes(m.Finish({once, twice}));
  ExpectSound(graph);
  EXPECT_EQ(graph.nodes[1].op, "Reshape");
  EXPECT_EQ(graph.nodes[2].op, "Reshape");
  EXPECT_EQ(graph.nodes[2].operands[0], graph.nodes[0].results[0]);
}

TEST(RunPasses, RunsTheCleanUp) {
  Graph graph = RunPasses(Transposed({{1, 2, 0}, {2, 0, 1}}), CleanUpPasses());
  ExpectSound(graph);
  EXPECT_EQ(PatternOps(graph), "");
}

}  // namespace
}  // namespace heddle
