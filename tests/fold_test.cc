// Folding finds the layers of real models by structure alone.
#include "fold/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "fold/recompute.h"
#include "frontend/load.h"
#include "known_models.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

// The same graph with other names and another order of nodes and values. Sets `origin` to the original node of each
// node.
Graph Scramble(const Graph& graph, uint64_t seed, std::vector<NodeId>* origin) {
  std::mt19937_64 rng(seed);
  Graph result;
  std::vector<ValueId> moved(graph.values.size());
  std::vector<size_t> sources;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!graph.values[v].producer.valid()) sources.push_back(v);
  }
  std::shuffle(sources.begin(), sources.end(), rng);
  for (size_t v : sources) {
    const Value& value = graph.values[v];
    moved[v] = result.AddValue(fmt::format("s{}", result.values.size()), value.type, value.kind,
                               value.data);
  }
  // Any node whose operands exist may be next.
  std::vector<std::vector<NodeId>> readers = Readers(graph);
  std::vector<int> missing(graph.nodes.size(), 0);
  std::vector<NodeId> ready;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    std::set<ValueId> made;
    for (ValueId id : graph.nodes[n].operands) {
      if (graph.value(id).producer.valid()) made.insert(id);
    }
    missing[n] = static_cast<int>(made.size());
    if (missing[n] == 0) ready.push_back(NodeId{static_cast<int32_t>(n)});
  }
  while (!ready.empty()) {
    std::swap(ready[rng() % ready.size()], ready.back());
    NodeId id = ready.back();
    ready.pop_back();
    const Node& node = graph.node(id);
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(moved[operand.index()]);
    NodeId made = result.AddNode(node.op, node.attributes, operands);
    origin->push_back(id);
    for (ValueId old : node.results) {
      moved[old.index()] =
          result.AddResult(made, fmt::format("v{}", result.values.size()), graph.value(old).type);
      for (NodeId reader : readers[old.index()]) {
        if (--missing[reader.index()] == 0) ready.push_back(reader);
      }
    }
  }
  for (ValueId output : graph.outputs) result.outputs.push_back(moved[output.index()]);
  return result;
}

TEST(FoldRealModels, RecomputationNeverKeepsMore) {
  for (const KnownModel& model : KnownModels()) {
    Graph graph = LoadModel(model.path);
    Rules rules = MakeRules(graph);
    GradientFlow flow = FindGradients(graph, rules);
    double all =
        KeptBytes(graph, FindKept(graph, rules, flow, Storages(graph, rules), AllNodes(graph)));
    double less = KeptBytes(graph, FindRecomputed(graph, rules, flow, Fold(graph, rules)));
    EXPECT_LE(less, all) << model.name;
    if (model.name == "gpt3-175b") {
      EXPECT_LT(less, 0.1 * all);
    }
  }
}

class FoldRealModel : public testing::TestWithParam<KnownModel> {};

TEST_P(FoldRealModel, NamesAndOrderDoNotMatter) {
  Graph graph = LoadModel(GetParam().path);
  Folding folding = Fold(graph, MakeRules(graph));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<NodeId> origin;
    Graph other = Scramble(graph, seed, &origin);
    ASSERT_EQ(Verify(other), std::vector<std::string>{});
    Folding again = Fold(other, MakeRules(other));
    ASSERT_EQ(again.chains.size(), folding.chains.size());
    for (size_t c = 0; c < folding.chains.size(); ++c) {
      std::vector<std::vector<NodeId>> copies = again.chains[c].copies;
      for (auto& copy : copies) {
        for (NodeId& id : copy) id = origin[id.index()];
      }
      EXPECT_EQ(copies, folding.chains[c].copies) << "chain " << c << ", seed " << seed;
    }
  }
}

TEST_P(FoldRealModel, BlocksAreDisjointAlikeAndFeedEachOther) {
  Graph graph = LoadModel(GetParam().path);
  Rules rules = MakeRules(graph);
  std::set<NodeId> seen;
  for (const Chain& chain : Fold(graph, rules).chains) {
    std::map<NodeId, size_t> block;
    for (size_t i = 0; i < chain.count(); ++i) {
      for (size_t n = 0; n < chain.nodes_per_block(); ++n) {
        NodeId id = chain.copies[i][n], first = chain.copies[0][n];
        EXPECT_TRUE(seen.insert(id).second);
        EXPECT_EQ(graph.node(id).op, graph.node(first).op);
        EXPECT_EQ(rules[id.index()], rules[first.index()]);
        block[id] = i;
      }
    }
    for (const auto& [id, i] : block) {
      for (ValueId operand : graph.node(id).operands) {
        auto from = block.find(graph.value(operand).producer);
        if (from != block.end()) {
          EXPECT_LE(from->second, i);
          EXPECT_GE(from->second + 1, i);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FoldRealModel, testing::ValuesIn(KnownModels()),
                         [](const auto& info) { return TestName(info.param.name); });

TEST(FoldRealModels, LayersAreFound) {
  std::map<std::string, std::vector<size_t>> expected = {{"gpt3-175b", {96}},
                                                         {"gpt3-2.7b", {32}},
                                                         {"llama3-8b", {32}},
                                                         {"bert-base", {12}},
                                                         {"vit-base", {12}},
                                                         {"gpt2", {12}},
                                                         {"moe-16e", {12}},
                                                         {"t5-small", {6, 6}},
                                                         {"resnet50", {2, 2, 3, 5, 2}},
                                                         {"gpt2.default-export", {12}},
                                                         {"bert-base.default-export", {12}}};
  for (const KnownModel& model : KnownModels()) {
    if (!expected.contains(model.name)) continue;
    for (bool fuse : {true, false}) {
      ImportOptions options;
      options.fuse = fuse;
      Graph graph = LoadModel(model.path, options);
      std::vector<size_t> counts;
      for (const Chain& chain : Fold(graph, MakeRules(graph)).chains)
        counts.push_back(chain.count());
      EXPECT_EQ(counts, expected[model.name]) << model.name << (fuse ? " fused" : " unfused");
    }
  }
}

}  // namespace
}  // namespace heddle
