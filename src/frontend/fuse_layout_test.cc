// Linear layers between reshapes and splits. fuse_test.cc tests consecutive transposes and reshapes.
#include <gtest/gtest.h>

#include "frontend/fuse.h"
#include "frontend/fuse_passes.h"
#include "frontend/fuse_patterns.h"
#include "ops/op.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

Graph LayOut(Graph graph) {
  graph = RunPasses(std::move(graph), LayoutPasses());
  EXPECT_EQ(VerifyModel(graph), std::vector<std::string>());
  EXPECT_NO_THROW(CheckTypes(graph));
  return graph;
}

ValueId Reshape(PatternModel& m, ValueId x, Shape shape) {
  return m("Reshape", {x}, {{"shape", std::move(shape)}});
}

// Flattens, multiplies, and restores to `shape`.
Graph Flattened(const Shape& from, const Shape& flat, int64_t features, const Shape& shape) {
  PatternModel m;
  ValueId x = Reshape(m, m.Activation(from), flat);
  return m.Finish({Reshape(m, m("Linear", {x, m.Parameter({flat.back(), features})}), shape)});
}

TEST(UnflattenLinear, TakesTokensAsTheyAre) {
  EXPECT_EQ(PatternOps(LayOut(Flattened({2, 3, 4}, {6, 4}, 5, {2, 3, 5}))), "Linear");
}

TEST(UnflattenLinear, LeavesTheReshapeOfHeads) {
  Graph graph = LayOut(Flattened({2, 3, 2, 2}, {6, 4}, 5, {2, 3, 5}));
  EXPECT_EQ(PatternOps(graph), "Reshape Linear");
}

TEST(UnflattenLinear, LeavesWhatIsNoUnflattening) {
  EXPECT_EQ(PatternOps(LayOut(Flattened({2, 3, 4}, {6, 4}, 5, {3, 10}))), "Reshape Linear Reshape");
  EXPECT_EQ(PatternOps(LayOut(Flattened({6, 2, 2}, {6, 4}, 6, {6, 2, 3}))),
            "Reshape Linear Reshape");
}

TEST(UnflattenLinear, LeavesWhatHasNoFeatures) {
  EXPECT_EQ(PatternOps(LayOut(Flattened({2, 3, 4}, {6, 4}, 0, {5, 7, 0}))),
            "Reshape Linear Reshape");
}

TEST(UnflattenLinear, LeavesWhatOthersReadFlat) {
  PatternModel m;
  ValueId x = Reshape(m, m.Activation({2, 3, 4}), {6, 4});
  ValueId flat = m("Linear", {x, m.Parameter({4, 4})});
  Graph graph = m.Finish({m("Relu", {flat}), Reshape(m, flat, {2, 3, 4})});
  EXPECT_EQ(PatternOps(LayOut(graph)), PatternOps(graph));
}

// The pieces of the only Linear after layout, in a model that splits its features.
struct Cut {
  Ints sizes;
  int64_t axis = -1;
  bool read_otherwise = false;
};
Ints PiecesOf(const Cut& cut) {
  PatternModel m;
  int64_t total = 0;
  for (int64_t size : cut.sizes) total += size;
  ValueId y = m("Linear", {m.Activation({total, 4}), m.Parameter({4, total})});
  std::vector<ValueId> read = {m("Split", {y}, {{"axis", cut.axis}, {"sizes", cut.sizes}})};
  if (cut.read_otherwise) read.push_back(m("Relu", {y}));
  Graph graph = LayOut(m.Finish(read));
  for (const Node& node : graph.nodes) {
    if (node.op == "Linear") return IntsAttr(node.attributes, "pieces", Ints{});
  }
  return {};
}

TEST(MarkPieces, SaysWhatIsCut) {
  EXPECT_EQ(PiecesOf({{4, 4, 4}}), (Ints{4, 4, 4}));
  EXPECT_EQ(PiecesOf({{32, 8, 8}, 1}), (Ints{32, 8, 8}));
}

TEST(MarkPieces, NothingInCommonIsNoPieces) {
  EXPECT_EQ(PiecesOf({{3, 4}}), Ints{});
  EXPECT_EQ(PiecesOf({{4}}), Ints{});
  EXPECT_EQ(PiecesOf({{4, 0}}), Ints{});
  EXPECT_EQ(PiecesOf({{4, 4}, 0}), Ints{});  // a split along the tokens
  EXPECT_EQ(PiecesOf({{4, 4}, -1, true}), Ints{});
}

}  // namespace
}  // namespace heddle
