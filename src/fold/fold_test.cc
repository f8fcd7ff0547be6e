#include "fold/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "base/testing.h"
#include "fold/recompute.h"
#include "ops/analysis.h"
#include "ops/op.h"

namespace heddle {
namespace {

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

ValueId Parameter(Graph& graph, const std::string& name, Shape shape) {
  return graph.AddValue(name, F32(std::move(shape)), ValueKind::kParameter);
}

// x + W2 relu(W1 x), with `hidden` columns in between.
ValueId Layer(Graph& graph, ValueId x, int64_t hidden, const std::string& name) {
  int64_t width = graph.value(x).type.shape[1];
  ValueId w1 = Parameter(graph, name + ".w1", {width, hidden});
  ValueId w2 = Parameter(graph, name + ".w2", {hidden, width});
  ValueId y = AddOp(graph, "Linear", {}, {x, w1}, name + ".a")[0];
  y = AddOp(graph, "Relu", {}, {y}, name + ".r")[0];
  y = AddOp(graph, "Linear", {}, {y, w2}, name + ".b")[0];
  return AddOp(graph, "Add", {}, {x, y}, name + ".out")[0];
}

Graph Stack(const std::vector<int64_t>& hidden) {
  Graph graph;
  ValueId x = graph.AddValue("x", F32({4, 8}), ValueKind::kInput);
  x = AddOp(graph, "Exp", {}, {x}, "first")[0];  // a block that read the input would have no B half
  for (size_t i = 0; i < hidden.size(); ++i) x = Layer(graph, x, hidden[i], fmt::format("l{}", i));
  ValueId loss =
      AddOp(graph, "ReduceSum", {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}},
            {x}, "loss")[0];
  graph.outputs = {loss};
  return graph;
}

std::vector<std::pair<size_t, size_t>> Counts(const Graph& graph) {
  std::vector<std::pair<size_t, size_t>> counts;
  for (const Chain& chain : Fold(graph, MakeRules(graph)).chains) {
    counts.emplace_back(chain.count(), chain.nodes_per_block());
  }
  return counts;
}

using Expected = std::vector<std::pair<size_t, size_t>>;

TEST(Fold, EqualLayersAreOneBlock) {
  EXPECT_EQ(Counts(Stack({16, 16, 16, 16, 16})), (Expected{{5, 4}}));
  EXPECT_EQ(Counts(Stack({16, 16})), (Expected{{2, 4}}));
  EXPECT_EQ(Counts(Stack({16})), Expected{});
  EXPECT_EQ(Counts(Stack({16, 24, 32})), Expected{});
}

// Of three layers each has one value that many of its nodes read: pairing every reader with every other takes quadratic time.
TEST(Fold, AValueThatManyNodesReadIsFoldedInLinearTime) {
  auto seconds = [](int readers) {
    Graph graph;
    ValueId x = graph.AddValue("x", F32({4}), ValueKind::kInput);
    x = AddOp(graph, "Exp", {}, {x}, "first")[0];
    for (int layer = 0; layer < 3; ++layer) {
      x = AddOp(graph, "Tanh", {}, {x}, fmt::format("t{}", layer))[0];
      ValueId read = AddOp(graph, "Relu", {}, {x}, fmt::format("r{}", layer))[0];
      for (int i = 0; i < readers; ++i) {
        ValueId one = AddOp(graph, "Exp", {}, {read}, fmt::format("e{}.{}", layer, i))[0];
        x = AddOp(graph, "Add", {}, {x, one}, fmt::format("a{}.{}", layer, i))[0];
      }
    }
    graph.outputs =
        AddOp(graph, "ReduceSum", {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}},
              {x}, "loss");
    Rules rules = MakeRules(graph);
    double begin = ProcessorSeconds();  // Fold has one thread
    Fold(graph, rules);
    return ProcessorSeconds() - begin;
  };
  double few = std::min({seconds(1'250), seconds(1'250), seconds(1'250)});
  // 16 times the readers; quadratic time is 75 times. Instrumented code takes more time per byte where there are many.
  EXPECT_LT(seconds(20'000), (kInstrumented ? 60 : 40) * few);
}

TEST(Fold, TheSmallestPeriodIsTheBlock) {
  EXPECT_EQ(Counts(Stack({16, 24, 16, 24, 16, 24})), (Expected{{3, 8}}));
}

TEST(Fold, SeveralChainsComeInTheOrderOfTheData) {
  EXPECT_EQ(Counts(Stack({16, 16, 16, 24, 24})), (Expected{{3, 4}, {2, 4}}));
}

TEST(Fold, CopiesCorrespondNodeByNode) {
  Graph graph = Stack({16, 16, 16});
  Chain chain = Fold(graph, MakeRules(graph)).chains.at(0);
  for (const auto& copy : chain.copies) {
    ASSERT_EQ(copy.size(), 4u);
    for (size_t n = 0; n < copy.size(); ++n) {
      EXPECT_EQ(graph.node(copy[n]).op, graph.node(chain.copies[0][n]).op);
    }
    EXPECT_TRUE(std::is_sorted(copy.begin(), copy.end())) << "topological";
  }
  // Cut at the residual stream: one tensor crosses.
  EXPECT_EQ(chain.crossing_bytes, 4 * 8 * 4);
}

// x[4,8] -> Linear(16) -> Relu -> Linear(8) -> Add keeps x, relu (the second Linear's operand and Relu's
// result): 4*8 + 4*16 floats a block, x being the block's input. Recomputing, only the inputs of the blocks
// stay, and all of the one at work.
TEST(Fold, RecomputationKeepsWhatCrossesAndOneBlock) {
  Graph graph = Stack({16, 16, 16, 16});
  Rules rules = MakeRules(graph);
  GradientFlow flow = FindGradients(graph, rules);
  KeptSet all = FindKept(graph, rules, flow, Storages(graph, rules), AllNodes(graph));
  KeptSet less = FindRecomputed(graph, rules, flow, Fold(graph, rules));
  EXPECT_EQ(KeptBytes(graph, all), 4 * (4 * 8 + 4 * 16) * 4);
  EXPECT_EQ(KeptBytes(graph, less), 4 * (4 * 8) * 4 + 4 * 16 * 4);
  EXPECT_EQ(KeptBytes(graph, less, 2), KeptBytes(graph, less) / 2);
}

TEST(Fold, TiedWeightsAndValuesThatEveryBlockReadsDoNotHide) {
  Graph graph;
  ValueId x = graph.AddValue("x", F32({4, 8}), ValueKind::kInput);
  ValueId w = Parameter(graph, "w", {8, 8});
  ValueId shared = AddOp(graph, "Exp", {}, {x}, "shared")[0];
  ValueId y = AddOp(graph, "Neg", {}, {x}, "first")[0];
  for (int i = 0; i < 6; ++i) {
    y = AddOp(graph, "Linear", {}, {y, w}, fmt::format("l{}", i))[0];
    y = AddOp(graph, "Mul", {}, {y, shared}, fmt::format("m{}", i))[0];
    y = AddOp(graph, "Tanh", {}, {y}, fmt::format("t{}", i))[0];
  }
  graph.outputs = {AddOp(graph, "ReduceSum",
                         {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}}, {y},
                         "loss")[0]};
  EXPECT_EQ(Counts(graph), (Expected{{6, 3}}));
}

TEST(Fold, AttributesThatChangeNoRuleDoNotCount) {
  Graph graph;
  ValueId x = graph.AddValue("x", F32({4, 8}), ValueKind::kInput);
  x = AddOp(graph, "Neg", {}, {x}, "first")[0];
  for (int i = 0; i < 4; ++i) {
    ValueId scale = Parameter(graph, fmt::format("s{}", i), {8});
    x = AddOp(graph, "RMSNorm", {{"axis", int64_t{-1}}, {"epsilon", 1e-5 * (i + 1)}}, {x, scale},
              fmt::format("n{}", i))[0];
    x = AddOp(graph, "Tanh", {}, {x}, fmt::format("t{}", i))[0];
  }
  graph.outputs = {AddOp(graph, "ReduceSum",
                         {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}}, {x},
                         "loss")[0]};
  EXPECT_EQ(Counts(graph), (Expected{{4, 2}}));
}

}  // namespace
}  // namespace heddle
