#include "frontend/rewriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const TensorType kVector = {DType::kF32, {4}};

ValueId Input(Graph& graph, std::string name, TensorType type = kVector) {
  return graph.AddValue(std::move(name), std::move(type), ValueKind::kInput);
}
ValueId Op(Graph& graph, std::string_view op, std::vector<ValueId> operands, std::string_view name,
           Attributes attributes = {}) {
  return AddOp(graph, op, std::move(attributes), std::move(operands), name).front();
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}
std::vector<std::string> ValueNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) names.push_back(value.name);
  return names;
}

Graph Finished(Rewriter& rw) {
  Graph graph = rw.Finish();
  EXPECT_THAT(Verify(graph), IsEmpty());
  EXPECT_NO_THROW(CheckTypes(graph));
  return graph;
}

// x -> Exp (a) -> Tanh (b) -> Neg (c), the output.
Graph Chain() {
  Graph graph;
  graph.name = "chain";
  ValueId a = Op(graph, "Exp", {Input(graph, "x")}, "a");
  ValueId b = Op(graph, "Tanh", {a}, "b");
  graph.outputs = {Op(graph, "Neg", {b}, "c")};
  return graph;
}
ValueId ValueNamed(const Graph& graph, std::string_view name) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return ValueId{static_cast<int32_t>(v)};
  }
  ADD_FAILURE() << "no value " << name;
  return {};
}

TEST(Rewriter, WithoutChangesGivesTheSameGraph) {
  Graph graph = Chain();
  Rewriter rw(graph);
  EXPECT_EQ(rw.Nodes().size(), 3u);
  EXPECT_EQ(rw.replaced(), 0);
  Graph same = Finished(rw);
  EXPECT_EQ(same.name, "chain");
  EXPECT_EQ(StableHash(same), StableHash(graph));
}

TEST(Rewriter, DropsWhatOutputsDoNotNeed) {
  Graph graph = Chain();
  Op(graph, "Sin", {Input(graph, "unread")}, "dead");
  Op(graph, "Cos", {ValueNamed(graph, "a")}, "dead too");
  graph.AddValue("w", kVector, ValueKind::kParameter);
  graph.AddValue("k", kVector, ValueKind::kConstant,
                 std::make_shared<const HostTensor>(DType::kF32, Shape{4}));
  Graph left = DropDead(graph);
  EXPECT_THAT(Verify(left), IsEmpty());
  EXPECT_THAT(ValueNames(left), ElementsAre("x", "a", "b", "c"));
}

TEST(Rewriter, KeepsUnreadResultsOfNeededNodes) {
  Graph graph;
  ValueId x = Input(graph, "x");
  std::vector<ValueId> parts = AddOp(
      graph, "Split", {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{1, 3}}}, {x}, "part");
  graph.outputs = {parts[1]};
  Graph left = DropDead(graph);
  EXPECT_THAT(Verify(left), IsEmpty());
  EXPECT_THAT(ValueNames(left), ElementsAre("x", "part.0", "part.1"));
}

TEST(Rewriter, KeepsDataAndHashes) {
  Graph graph;
  auto data = std::make_shared<const HostTensor>(DType::kF32, Shape{4});
  ValueId w = graph.AddValue("w", kVector, ValueKind::kParameter, data);
  ValueId k = graph.AddValue("k", kVector, ValueKind::kConstant);
  graph.value(k).data_hash = 77;
  graph.outputs = {Op(graph, "Add", {w, k}, "y")};
  Graph left = DropDead(graph);
  EXPECT_EQ(left.value(ValueNamed(left, "w")).data, data);
  EXPECT_EQ(left.value(ValueNamed(left, "k")).data_hash, 77u);
}

TEST(Rewriter, ReplacementTakesTheName) {
  Rewriter rw(Chain());
  ValueId b = ValueNamed(rw.graph(), "b");
  ValueId made = rw.Add(NodeId{1}, "Silu", {}, {rw.Operand(NodeId{1}, 0)});
  rw.Replace(b, made);
  EXPECT_EQ(rw.replaced(), 1);
  EXPECT_EQ(rw.Resolve(b), made);
  EXPECT_EQ(rw.value(b).name, "b");
  EXPECT_EQ(rw.Operand(NodeId{2}, 0), made);
  EXPECT_TRUE(rw.Producer(b, "Silu"));
  EXPECT_FALSE(rw.Producer(b, "Tanh"));
  Graph graph = Finished(rw);
  EXPECT_THAT(Ops(graph), ElementsAre("Exp", "Silu", "Neg"));
  EXPECT_THAT(ValueNames(graph), ElementsAre("x", "a", "b", "c"));
}

TEST(Rewriter, OutputsAreReplacedToo) {
  Rewriter rw(Chain());
  ValueId c = ValueNamed(rw.graph(), "c");
  rw.Replace(c, rw.Add(NodeId{2}, "Abs", {}, {ValueNamed(rw.graph(), "a")}));
  Graph graph = Finished(rw);
  EXPECT_THAT(Ops(graph), ElementsAre("Exp", "Abs"));
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "c");
}

TEST(Rewriter, ReplacingByWhatHasANameKeepsIt) {
  Rewriter rw(Chain());
  rw.Replace(ValueNamed(rw.graph(), "b"), ValueNamed(rw.graph(), "x"));
  Graph graph = Finished(rw);
  EXPECT_THAT(ValueNames(graph), ElementsAre("x", "c"));
}

TEST(Rewriter, ReplacementsFollowEachOther) {
  Rewriter rw(Chain());
  ValueId a = ValueNamed(rw.graph(), "a"), b = ValueNamed(rw.graph(), "b"),
          x = ValueNamed(rw.graph(), "x");
  ValueId first = rw.Add(NodeId{1}, "Silu", {}, {a});
  rw.Replace(b, first);
  ValueId second = rw.Add(NodeId{1}, "Relu", {}, {b});  // reads the replacement of b
  EXPECT_EQ(rw.node(rw.graph().value(second).producer).operands[0], first);
  rw.Replace(a, x);
  ValueId third = rw.Add(NodeId{1}, "Abs", {}, {a});
  EXPECT_EQ(rw.node(rw.graph().value(third).producer).operands[0], x);
  rw.Replace(first, third);
  EXPECT_EQ(rw.Resolve(b), third);
  rw.Replace(b, third);  // it already stands for that value
  EXPECT_EQ(rw.replaced(), 3);
  Graph graph = Finished(rw);
  EXPECT_THAT(Ops(graph), ElementsAre("Abs", "Neg"));
  EXPECT_THAT(ValueNames(graph), ElementsAre("x", "b", "c"));
}

TEST(Rewriter, TwoValuesMayBecomeOne) {
  Graph graph;
  ValueId x = Input(graph, "x");
  ValueId a = Op(graph, "Exp", {x}, "a"), b = Op(graph, "Exp", {x}, "b");
  graph.outputs = {Op(graph, "Add", {a, b}, "y")};
  Rewriter rw(std::move(graph));
  rw.Replace(b, a);
  Graph left = Finished(rw);
  EXPECT_THAT(Ops(left), ElementsAre("Exp", "Add"));
  EXPECT_EQ(left.nodes[1].operands[0], left.nodes[1].operands[1]);
}

TEST(Rewriter, OrderIsStable) {
  // Four chains that meet at the end, with their nodes interleaved; every Exp is replaced by two nodes.
  Graph graph;
  std::vector<ValueId> heads;
  for (int i = 0; i < 4; ++i) {
    ValueId x = Input(graph, "x" + std::to_string(i));
    heads.push_back(Op(graph, "Exp", {x}, "e" + std::to_string(i)));
  }
  for (int i = 3; i >= 0; --i) {
    ValueId& head = heads[static_cast<size_t>(i)];
    head = Op(graph, "Neg", {head}, "n" + std::to_string(i));
  }
  graph.outputs = {Op(graph, "Concat", heads, "y", {{"axis", int64_t{0}}})};
  Rewriter rw(std::move(graph));
  for (NodeId id : rw.Nodes()) {
    if (rw.node(id).op != "Exp") continue;
    ValueId inner = rw.Add(id, "Tanh", {}, {rw.Operand(id, 0)});
    rw.Replace(rw.node(id).results[0], rw.Add(id, "Silu", {}, {inner}));
  }
  Graph left = Finished(rw);
  EXPECT_THAT(Ops(left), ElementsAre("Tanh", "Silu", "Tanh", "Silu", "Tanh", "Silu", "Tanh", "Silu",
                                     "Neg", "Neg", "Neg", "Neg", "Concat"));
  EXPECT_EQ(left.value(left.nodes[1].results[0]).name, "e0");
  EXPECT_EQ(left.value(left.nodes[8].results[0]).name, "n3");
  EXPECT_EQ(left.value(left.nodes[11].results[0]).name, "n0");
}

// The replacement of an early value may come late: then its readers move behind it.
TEST(Rewriter, ReadersComeAfterALateReplacement) {
  Graph graph;
  ValueId x = Input(graph, "x"), z = Input(graph, "z");
  ValueId early = Op(graph, "Exp", {x}, "early");
  ValueId reader = Op(graph, "Neg", {early}, "reader");
  ValueId late = Op(graph, "Tanh", {z}, "late");
  graph.outputs = {Op(graph, "Add", {reader, late}, "y")};
  Rewriter rw(std::move(graph));
  rw.Replace(early, rw.Add(NodeId{2}, "Silu", {}, {late}));
  Graph left = Finished(rw);
  EXPECT_THAT(Ops(left), ElementsAre("Tanh", "Silu", "Neg", "Add"));
  EXPECT_THAT(ValueNames(left), ElementsAre("z", "late", "early", "reader", "y"));
}

TEST(Rewriter, NamesMayBeginWithATilde) {
  Graph graph;
  ValueId a = Op(graph, "Exp", {Input(graph, "~x")}, "~a");
  ValueId b = Op(graph, "Tanh", {a}, "~0");
  graph.outputs = {Op(graph, "Neg", {b}, "~c")};
  EXPECT_THAT(ValueNames(DropDead(graph)), ElementsAre("~x", "~a", "~0", "~c"));

  // A new value takes the name of the one it replaces; a value that already has a name keeps it.
  Rewriter added(graph);
  added.Replace(b, added.Add(NodeId{1}, "Silu", {}, {a}));
  EXPECT_THAT(ValueNames(Finished(added)), ElementsAre("~x", "~a", "~0", "~c"));
  Rewriter known(graph);
  known.Replace(b, a);
  EXPECT_THAT(ValueNames(Finished(known)), ElementsAre("~x", "~a", "~c"));
}

TEST(Rewriter, NamesOfNewValuesAreNotTaken) {
  Graph graph;
  ValueId x = Input(graph, "fused.0"), z = Input(graph, "const.0");
  ValueId a = Op(graph, "Add", {x, z}, "fused.1");
  graph.outputs = {Op(graph, "Neg", {a}, "y")};
  Rewriter rw(std::move(graph));
  ValueId constant = rw.AddConstant(std::make_shared<const HostTensor>(DType::kF32, Shape{4}));
  ValueId other = rw.AddConstant(std::make_shared<const HostTensor>(DType::kF32, Shape{4}));
  ValueId sum = rw.Add(NodeId{1}, "Add", {}, {a, constant});
  ValueId more = rw.Add(NodeId{1}, "Add", {}, {sum, other});
  rw.Replace(rw.graph().outputs[0], rw.Add(NodeId{1}, "Tanh", {}, {more}));
  Graph left = Finished(rw);
  EXPECT_THAT(ValueNames(left), UnorderedElementsAre("fused.0", "const.0", "const.1", "const.2",
                                                     "fused.1", "fused.2", "fused.3", "y"));
}

TEST(Rewriter, ClosedMeansNothingElseReadsTheInside) {
  Graph graph = Chain();
  {
    Rewriter rw(graph);
    EXPECT_TRUE(rw.Closed({}, NodeId{2}));
    EXPECT_TRUE(rw.Closed({NodeId{0}, NodeId{1}}, NodeId{2}));
    EXPECT_TRUE(rw.Closed({NodeId{0}, NodeId{1}, NodeId{2}}, NodeId{2}));
    EXPECT_FALSE(rw.Closed({NodeId{0}}, NodeId{2})) << "a is read by a node outside";
    EXPECT_FALSE(rw.Closed({NodeId{1}, NodeId{2}}, NodeId{1})) << "c is an output";
  }
  Op(graph, "Sin", {ValueNamed(graph, "a")}, "other");
  EXPECT_FALSE(Rewriter(graph).Closed({NodeId{0}, NodeId{1}}, NodeId{2}));
}

TEST(Rewriter, ClosedSeesReplacements) {
  Graph graph = Chain();
  graph.outputs.push_back(ValueNamed(graph, "b"));
  Rewriter rw(std::move(graph));
  ValueId made = rw.Add(NodeId{1}, "Silu", {}, {ValueNamed(rw.graph(), "a")});
  NodeId silu = *rw.Producer(made, "Silu");
  EXPECT_TRUE(rw.Closed({silu}, NodeId{2})) << "nothing reads it yet";
  rw.Replace(ValueNamed(rw.graph(), "b"), made);
  EXPECT_FALSE(rw.Closed({silu}, NodeId{2})) << "it is an output now";
}

TEST(Rewriter, ClosedSeesReadersTakenOver) {
  Graph graph = Chain();
  Op(graph, "Sin", {ValueNamed(graph, "b")}, "other");
  Rewriter rw(std::move(graph));
  ValueId made = rw.Add(NodeId{1}, "Silu", {}, {ValueNamed(rw.graph(), "a")});
  rw.Replace(ValueNamed(rw.graph(), "b"), made);
  EXPECT_FALSE(rw.Closed({*rw.Producer(made, "Silu")}, NodeId{2}));
  EXPECT_TRUE(rw.Closed({*rw.Producer(made, "Silu"), NodeId{3}}, NodeId{2}));
}

TEST(Rewriter, SplatIsTheNumberAConstantRepeats) {
  Graph graph;
  auto constant = [&](std::string name, HostTensor tensor) {
    auto data = std::make_shared<const HostTensor>(std::move(tensor));
    return graph.AddValue(std::move(name), data->type(), ValueKind::kConstant, data);
  };
  auto numbers = [](DType dtype, Shape shape, std::vector<double> values) {
    return MakeTensor(dtype, std::move(shape), std::span<const double>(values));
  };
  ValueId scalar = constant("scalar", numbers(DType::kF32, {}, {0.5}));
  ValueId same = constant("same", numbers(DType::kF32, {2, 2}, {3, 3, 3, 3}));
  ValueId half = constant("half", numbers(DType::kF16, {2}, {1.5, 1.5}));
  ValueId ints = constant("ints", numbers(DType::kI64, {3}, {-7, -7, -7}));
  ValueId unlike = constant("unlike", numbers(DType::kF32, {3}, {1, 1, 2}));
  ValueId empty = constant("empty", HostTensor(DType::kF32, {0}));
  ValueId bare = graph.AddValue("bare", kVector, ValueKind::kConstant);
  ValueId weight = graph.AddValue("weight", kVector, ValueKind::kParameter,
                                  std::make_shared<const HostTensor>(DType::kF32, Shape{4}));
  ValueId activation = Op(graph, "Neg", {scalar}, "y");
  graph.outputs = {activation};
  Rewriter rw(std::move(graph));
  EXPECT_EQ(rw.Splat(scalar), 0.5);
  EXPECT_EQ(rw.Splat(same), 3.0);
  EXPECT_EQ(rw.Splat(half), 1.5);
  EXPECT_EQ(rw.Splat(ints), -7.0);
  for (ValueId none : {unlike, empty, bare, weight, activation}) {
    EXPECT_EQ(rw.Splat(none), std::nullopt) << rw.value(none).name;
  }
  rw.Replace(activation, scalar);
  EXPECT_EQ(rw.Splat(activation), 0.5) << "as replacements leave it";
}

}  // namespace
}  // namespace heddle
