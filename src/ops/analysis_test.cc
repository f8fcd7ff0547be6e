// Closed forms: what small graphs cost, counted by hand.
#include "ops/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/op.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class Builder {
 public:
  ValueId Input(Shape shape, DType dtype = DType::kF32) {
    return graph_.AddValue(Fresh("x"), {dtype, std::move(shape)}, ValueKind::kInput);
  }
  ValueId Parameter(Shape shape) {
    return graph_.AddValue(Fresh("w"), {DType::kF32, std::move(shape)}, ValueKind::kParameter);
  }
  ValueId Frozen(Shape shape) {
    return graph_.AddValue(Fresh("c"), {DType::kF32, std::move(shape)}, ValueKind::kConstant);
  }
  std::vector<ValueId> All(std::string_view op, std::vector<ValueId> operands,
                           Attributes attributes = {}) {
    return AddOp(graph_, op, std::move(attributes), std::move(operands), Fresh("v"));
  }
  ValueId operator()(std::string_view op, std::vector<ValueId> operands,
                     Attributes attributes = {}) {
    return All(op, std::move(operands), std::move(attributes)).front();
  }
  ModelSize Size() { return Measure(graph()); }
  // Whatever nothing reads is an output: gradients come from there.
  const Graph& graph() {
    std::vector<std::vector<NodeId>> readers = Readers(graph_);
    graph_.outputs.clear();
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].producer.valid() && readers[v].empty()) {
        graph_.outputs.push_back(ValueId::FromIndex(v));
      }
    }
    return graph_;
  }

 private:
  std::string Fresh(std::string_view stem) { return fmt::format("{}{}", stem, next_++); }

  Graph graph_;
  int next_ = 0;
};

using Ints = std::vector<int64_t>;
constexpr double m = 8, k = 16, h = 32, n = 4;  // sizes of the perceptrons below

TEST(AnalysisTest, ALinearChainCostsTwiceForwardBackwardLessTheFirstLayer) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})});
  x = b("Linear", {x, b.Parameter({32, 32})});
  b("Linear", {x, b.Parameter({32, 4})});
  ModelSize size = b.Size();
  EXPECT_EQ(size.nodes, 3);
  EXPECT_EQ(size.parameter_tensors, 3);
  EXPECT_EQ(size.parameters, 16 * 32 + 32 * 32 + 32 * 4);
  double first = 2 * m * k * h, others = 2 * m * h * h + 2 * m * h * n;
  EXPECT_EQ(size.work.forward.contraction_flops, first + others);
  EXPECT_EQ(size.work.forward.flops, first + others);
  EXPECT_EQ(size.work.backward.contraction_flops, others) << "the input needs no gradient";
  EXPECT_EQ(size.work.weight.contraction_flops, first + others);
}

TEST(AnalysisTest, ABiasAddsNoContraction) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32}), b.Parameter({32})});
  b("Linear", {x, b.Parameter({32, 4}), b.Parameter({4})});
  Halves work = b.Size().work;
  double contraction = 2 * m * k * h + 2 * m * h * n, bias = m * h + m * n;
  EXPECT_EQ(work.forward.contraction_flops, contraction);
  EXPECT_EQ(work.forward.flops, contraction + bias);
  EXPECT_EQ(work.backward.flops, 2 * m * h * n);
  EXPECT_EQ(work.weight.contraction_flops, contraction);
  EXPECT_EQ(work.weight.flops, contraction + bias);
}

TEST(AnalysisTest, AConvolutionCountsEveryMultiplyAdd) {
  Builder b;
  ValueId x = b("Conv", {b.Input({2, 3, 8, 8}), b.Parameter({6, 3, 3, 3}), b.Parameter({6})});
  b("Conv", {x, b.Parameter({4, 3, 3, 3})}, {{"group", int64_t{2}}});
  Halves work = b.Size().work;
  double first =
      2.0 * 2 * 6 * 6 * 6 * 3 * 9;  // batch, channels out, 6x6 positions, channels in, 3x3
  double second = 2.0 * 2 * 4 * 4 * 4 * 3 * 9;  // 4x4 positions; a group has 3 channels in
  EXPECT_EQ(work.forward.contraction_flops, first + second);
  EXPECT_EQ(work.forward.flops, first + second + 2 * 6 * 6 * 6);
  EXPECT_EQ(work.backward.contraction_flops, second);
  EXPECT_EQ(work.weight.contraction_flops, first + second);
}

TEST(AnalysisTest, FrozenParametersNeedNoWork) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Frozen({16, 32})});
  x = b("Linear", {x, b.Parameter({32, 32})});
  b("Linear", {x, b.Frozen({32, 4})});
  ModelSize size = b.Size();
  EXPECT_EQ(size.parameters, 32 * 32);
  EXPECT_EQ(size.work.weight.flops, 2 * m * h * h);
  EXPECT_EQ(size.work.backward.flops, 2 * m * h * n) << "only through the last";
  // The input of the trained layer; the last, frozen layer needs its weight, not its input.
  EXPECT_EQ(size.activation_bytes, 4 * m * h);
}

TEST(AnalysisTest, WithoutParametersNothingGoesBackward) {
  Builder b;
  b("Relu", {b("Linear", {b.Input({8, 16}), b.Frozen({16, 32})})});
  ModelSize size = b.Size();
  EXPECT_EQ(size.work.forward.flops, 2 * m * k * h + m * h);
  EXPECT_EQ(size.work.backward.flops, 0);
  EXPECT_EQ(size.work.weight.flops, 0);
  EXPECT_EQ(size.activation_bytes, 0);
}

TEST(AnalysisTest, AttentionBackwardIsTwiceForward) {
  constexpr double batch = 2, heads = 4, rows = 8, keys = 10, width = 16, out = 6;
  Builder b;
  ValueId w = b.Parameter({16, 16});
  ValueId q = b("Linear", {b.Input({2, 4, 8, 16}), w}),
          key = b("Linear", {b.Input({2, 4, 10, 16}), w});
  ValueId v = b("Linear", {b.Input({2, 4, 10, 16}), b.Parameter({16, 6})});
  Halves before = b.Size().work;
  b("Attention", {q, key, v}, {{"scale", 0.25}});
  Halves after = b.Size().work;
  double forward = 2 * batch * heads * rows * keys * (width + out);
  double softmax = 5 * batch * heads * rows * keys;
  EXPECT_EQ(after.forward.contraction_flops - before.forward.contraction_flops, forward);
  EXPECT_EQ(after.forward.flops - before.forward.flops, forward + softmax);
  EXPECT_EQ(after.backward.contraction_flops - before.backward.contraction_flops, 2 * forward);
  EXPECT_EQ(after.weight.flops, before.weight.flops);
}

TEST(AnalysisTest, AttentionToValuesAloneSkipsTheScores) {
  Builder b;
  ValueId v = b("Linear", {b.Input({4, 10, 16}), b.Parameter({16, 6})});
  Halves before = b.Size().work;
  b("Attention", {b.Input({4, 8, 16}), b.Input({4, 10, 16}), v}, {{"scale", 0.25}});
  EXPECT_EQ(b.Size().work.backward.contraction_flops - before.backward.contraction_flops,
            2.0 * 4 * 8 * 10 * 6);
}

TEST(AnalysisTest, APerceptronKeepsInputsOfLayersAndResultsOfRelu) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32}), b.Parameter({32})});
  x = b("Relu", {x});                      // keeps its result, which is
  b("Linear", {x, b.Parameter({32, 4})});  // the input of this: counted once
  EXPECT_EQ(b.Size().activation_bytes, 4 * m * h) << "inputs are no activations";
}

TEST(AnalysisTest, GeluKeepsItsOperandBesides) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})});
  b("Linear", {b("Gelu", {x}), b.Parameter({32, 4})});
  EXPECT_EQ(b.Size().activation_bytes, 4 * (m * h + m * h));
}

TEST(AnalysisTest, DropoutKeepsAByteAndLossesTheirProbabilities) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 4})});
  x = b("Dropout", {x}, {{"ratio", 0.5}});
  EXPECT_EQ(b.Size().activation_bytes, m * n);
  b("CrossEntropy", {x, b.Input({8}, DType::kI64), b.Input({})});
  EXPECT_EQ(b.Size().activation_bytes, m * n + 4 * m * n);
}

TEST(AnalysisTest, ViewsShareTheStorageTheyLookAt) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})});
  ValueId view = b("Reshape", {x}, {{"shape", Ints({2, 4, 32})}});
  b("Exp", {view});  // keeps its result
  EXPECT_EQ(b.Size().activation_bytes, 4 * m * h);
  b("Gelu", {x});
  EXPECT_EQ(b.Size().activation_bytes, 4 * (m * h + m * h));
  b("Gelu", {view});
  b("Gelu", {b("Transpose", {view}, {{"perm", Ints({0, 2, 1})}})});
  b("Gelu",
    {b("Slice", {view}, {{"axes", Ints({0})}, {"ends", Ints({1})}, {"starts", Ints({0})}})});
  b("Gelu", {b.All("Split", {view}, {{"axis", int64_t{2}}, {"sizes", Ints({16, 16})}})[1]});
  EXPECT_EQ(b.Size().activation_bytes, 4 * (m * h + m * h)) << "all of them look at x";
}

TEST(AnalysisTest, AReshapeOfWhatIsTransposedMovesIt) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})});
  ValueId turned = b("Transpose", {x}, {{"perm", Ints({1, 0})}});
  b("Gelu", {turned});
  EXPECT_EQ(b.Size().activation_bytes, 4 * m * h);
  b("Gelu", {b("Reshape", {turned}, {{"shape", Ints({256})}})});
  EXPECT_EQ(b.Size().activation_bytes, 4 * (m * h + m * h));
}

TEST(AnalysisTest, ProductsKeepTheOtherOperand) {
  Builder b;
  ValueId x = b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})});
  b("Mul", {x, b.Input({8, 32})});
  EXPECT_EQ(b.Size().activation_bytes, 0) << "an input is there anyway, and x is not needed";
  b("Mul", {x, b("Relu", {b.Input({8, 32})})});
  EXPECT_EQ(b.Size().activation_bytes, 4 * m * h) << "the other operand";
  b("Mul", {x, x});
  EXPECT_EQ(b.Size().activation_bytes, 4 * (m * h + m * h));
}

TEST(AnalysisTest, IntegersNeedNoGradient) {
  Builder b;
  ValueId table = b.Parameter({100, 16});
  ValueId ids = b("Add", {b.Input({8}, DType::kI64), b.Input({8}, DType::kI64)});
  ValueId x = b("Gather", {table, ids});
  b.All("TopK", {x}, {{"k", int64_t{2}}});
  b("Cast", {b("Cast", {x}, {{"to", "i64"}})}, {{"to", "f32"}});
  Rules rules = MakeRules(b.graph());
  GradientFlow flow = FindGradients(b.graph(), rules);
  auto of = [&](size_t node, size_t result) {
    return flow.needed[b.graph().nodes[node].results[result].index()];
  };
  EXPECT_FALSE(of(0, 0)) << "ids";
  EXPECT_TRUE(of(1, 0)) << "rows of the table";
  EXPECT_TRUE(of(2, 0)) << "the largest";
  EXPECT_FALSE(of(2, 1)) << "where they are";
  EXPECT_FALSE(of(3, 0)) << "cast to integers";
  EXPECT_FALSE(of(4, 0)) << "and back";
  // Gather keeps its indices, TopK where its results came from.
  EXPECT_EQ(b.Size().activation_bytes, 8 * 8 + 8 * 8 * 2);
}

TEST(AnalysisTest, ARuleThatFailsNamesItsNode) {
  Graph graph;
  ValueId x = graph.AddValue("x", {DType::kF32, {2, 3}}, ValueKind::kInput);
  NodeId node = graph.AddNode("MatMul", {}, {x, x});
  graph.AddResult(node, "product", {DType::kF32, {2, 3}});
  try {
    Measure(graph);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'product': MatMul: operand 1 [2,3] has 2 in dimension 0"));
  }
}

TEST(AnalysisTest, WorkOfBlocksAddsUp) {
  Builder b;
  b("Linear",
    {b("Relu", {b("Linear", {b.Input({8, 16}), b.Parameter({16, 32})})}), b.Parameter({32, 4})});
  const Node& node = b.graph().nodes[2];
  Rules rules = MakeRules(b.graph());
  GradientFlow flow = FindGradients(b.graph(), rules);
  Halves whole = NodeWork(node, rules[2], flow, WholeBlocks(rules[2]));
  for (size_t f = 0; f < rules[2].factors.size(); ++f) {
    Work forward, backward, weight;
    for (int64_t rank = 0; rank < 3; ++rank) {
      std::vector<Block> blocks = WholeBlocks(rules[2]);
      blocks[f] = FactorBlock(rules[2].factors[f].size, 3, rank);
      Halves part = NodeWork(node, rules[2], flow, blocks);
      forward.flops += part.forward.flops;
      backward.flops += part.backward.flops;
      weight.flops += part.weight.flops;
    }
    EXPECT_EQ(forward.flops, whole.forward.flops);
    EXPECT_EQ(backward.flops, whole.backward.flops);
    EXPECT_EQ(weight.flops, whole.weight.flops);
  }
}

// Nodes share a rule where op, attributes and operand types are equal, and nowhere else.
TEST(AnalysisTest, NodesAlikeShareARule) {
  Graph graph;
  ValueId x = graph.AddValue("x", {DType::kF32, {8, 16}}, ValueKind::kInput);
  ValueId narrow = graph.AddValue("narrow", {DType::kBF16, {8, 16}}, ValueKind::kInput);
  ValueId wide = graph.AddValue("wide", {DType::kF32, {8, 32}}, ValueKind::kInput);
  auto softmax = [&](ValueId of, int64_t axis, std::string_view name) {
    AddOp(graph, "Softmax", {{"axis", axis}}, {of}, name);
  };
  softmax(x, 1, "first");
  softmax(x, 1, "again");
  softmax(x, 0, "axis");
  softmax(narrow, 1, "type");
  softmax(wide, 1, "shape");
  AddOp(graph, "Relu", {}, {x}, "op");
  Rules rules = MakeRules(graph);
  EXPECT_EQ(rules.shared(0), rules.shared(1));
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    EXPECT_EQ(rules[n], MakeRule(graph, graph.nodes[n])) << n;
    if (n > 1) {
      EXPECT_NE(rules.shared(0), rules.shared(n)) << n;
    }
  }
}

// Only what the loss depends on through gradients counts.
TEST(AnalysisTest, NoGradientComesBackThroughAnArgMax) {
  auto build = [](bool loss_reads_it) {
    Graph graph;
    ValueId x = graph.AddValue("x", {DType::kF32, {8, 16}}, ValueKind::kInput);
    ValueId w = graph.AddValue("w", {DType::kF32, {16, 32}}, ValueKind::kParameter);
    ValueId y = AddOp(graph, "Linear", {}, {x, w}, "y")[0];
    ValueId best = AddOp(graph, "ArgMax", {{"axis", int64_t{1}}}, {y}, "best")[0];
    ValueId cast = AddOp(graph, "Cast", {{"to", std::string("f32")}}, {best}, "cast")[0];
    graph.outputs = {loss_reads_it ? y : cast};
    return Measure(graph);
  };
  EXPECT_EQ(build(true).work.weight.flops, 2 * 8 * 16 * 32);
  EXPECT_EQ(build(false).work.weight.flops, 0);
  EXPECT_EQ(build(false).activation_bytes, 0);
}

}  // namespace
}  // namespace heddle
