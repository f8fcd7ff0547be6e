#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "cluster/random_topology.h"
#include "learn/file.h"
#include "learn/train.h"
#include "search/prices/random_model.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// A random problem in which every unit has an edge to all later ones.
PlacementGraph RandomGraph(uint64_t seed, size_t units, size_t groups) {
  std::mt19937_64 rng(seed);
  auto draw = [&] { return static_cast<float>(rng() % 1000 + 1) / 1000.0F; };
  auto fill = [&](size_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = draw();
    return numbers;
  };
  PlacementGraph graph;
  graph.units = units;
  graph.groups = groups;
  graph.decisions = units - 1;  // the first and the last unit share a decision
  graph.unit_times = fill(units * PlacementGraph::kUnitFeatures);
  graph.unit_sizes = fill(units * PlacementGraph::kSizeFeatures);
  graph.group_sizes = fill(groups * PlacementGraph::kGroupFeatures);
  for (size_t g = 0; g < groups; ++g) {
    graph.group_sizes[g * PlacementGraph::kGroupFeatures] = static_cast<float>(1 + g) / 2;
  }
  graph.links = fill(groups * groups);
  for (size_t place = 0; place < units * groups; ++place) {
    float seconds = draw();
    for (float part : {1.0F, 0.5F, 0.25F, 0.125F}) graph.places.push_back(seconds * (part + 0.01F));
  }
  graph.flows.assign(units * units, 0);
  for (size_t u = 0; u < units; ++u) {
    for (size_t v = u + 1; v < units; ++v) graph.flows[u * units + v] = draw();
    graph.decision_of.push_back(static_cast<int>(u % (units - 1)));
  }
  for (uint32_t set = 1; set < uint32_t{1} << groups; ++set) {
    for (size_t w = 0; w < kWayNames.size(); ++w) {
      graph.actions.push_back({set, static_cast<Way>(w)});
    }
  }
  return graph;
}

PrefixState StateOf(const PlacementGraph& graph, Prefix prefix) {
  PrefixState state;
  state.strategy = prefix;
  state.strategy.resize(graph.decisions, prefix.empty() ? 0 : prefix.front());
  state.prefix = std::move(prefix);
  for (size_t g = 0; g < graph.groups; ++g) {
    state.group_busy.push_back(0.1F * static_cast<float>(g + 1));
    state.group_memory.push_back(0.2F * static_cast<float>(g + 1));
  }
  state.value = 0.3F;
  return state;
}

// The same problem with its groups in another order. Actions keep their numbers and mean the same devices.
PlacementGraph Permuted(const PlacementGraph& graph, const std::vector<size_t>& from) {
  PlacementGraph out = graph;
  size_t groups = graph.groups;
  constexpr size_t kGroup = PlacementGraph::kGroupFeatures, kPlace = PlacementGraph::kPlaceFeatures;
  for (size_t g = 0; g < groups; ++g) {
    std::copy_n(&graph.group_sizes[from[g] * kGroup], kGroup, &out.group_sizes[g * kGroup]);
    for (size_t h = 0; h < groups; ++h) {
      out.links[g * groups + h] = graph.links[from[g] * groups + from[h]];
    }
    for (size_t u = 0; u < graph.units; ++u) {
      std::copy_n(&graph.places[(u * groups + from[g]) * kPlace], kPlace,
                  &out.places[(u * groups + g) * kPlace]);
    }
  }
  for (size_t a = 0; a < graph.actions.size(); ++a) {
    out.actions[a].groups = 0;
    for (size_t g = 0; g < groups; ++g) {
      out.actions[a].groups |= (graph.actions[a].groups >> from[g] & 1) << g;
    }
  }
  return out;
}

double Sum(const std::vector<double>& numbers) {
  double sum = 0;
  for (double number : numbers) sum += number;
  return sum;
}

TEST(PriorNetwork, DoesNotDependOnTheOrderOfGroups) {
  PriorNetwork network({}, 1);
  PlacementGraph graph = RandomGraph(1, 5, 3);
  std::vector<size_t> from = {2, 0, 1};
  PrefixState state = StateOf(graph, {7, 3});
  PrefixState other = state;
  for (size_t g = 0; g < from.size(); ++g) {
    other.group_busy[g] = state.group_busy[from[g]];
    other.group_memory[g] = state.group_memory[from[g]];
  }
  std::vector<double> here = PriorsOf(network, graph, {state})[0];
  std::vector<double> there = PriorsOf(network, Permuted(graph, from), {other})[0];
  EXPECT_NEAR(Sum(here), 1, 1e-5);
  double largest = *std::max_element(here.begin(), here.end());
  double least = *std::min_element(here.begin(), here.end());
  EXPECT_GT(largest, 1.01 * least);  // the network distinguishes actions
  for (size_t a = 0; a < here.size(); ++a) EXPECT_NEAR(here[a], there[a], 1e-6) << a;
}

TEST(PriorNetwork, PaddingChangesNothing) {
  PriorNetwork network({}, 2);
  PlacementGraph small = RandomGraph(2, 3, 2), large = RandomGraph(3, 7, 4);
  Features one = FeaturesOf(small, RoughPrices(small), StateOf(small, {1}));
  Features two = FeaturesOf(large, RoughPrices(large), StateOf(large, {5, 9, 2}));
  at::NoGradGuard no_gradients;
  at::Tensor alone = network.LogPriors(BatchOf({&one}));
  at::Tensor padded = network.LogPriors(BatchOf({&two, &one}));
  EXPECT_LT((padded[1].slice(0, 0, alone.size(1)) - alone[0]).abs().max().item<float>(), 1e-4);
}

TEST(PriorNetwork, GradientsReachEveryWeight) {
  PriorNetwork network({}, 3);
  PlacementGraph graph = RandomGraph(4, 6, 3);
  Features features = FeaturesOf(graph, RoughPrices(graph), StateOf(graph, {4, 1}));
  std::vector<std::string> names;
  std::vector<at::Tensor> weights;
  network.Visit([&](const std::string& name, at::Tensor& weight) {
    weight.requires_grad_(true);
    names.push_back(name);
    weights.push_back(weight);
  });
  at::Tensor loss = network.LogPriors(BatchOf({&features})).select(1, 3).sum();
  std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, weights);
  for (size_t w = 0; w < weights.size(); ++w) {
    EXPECT_GT(gradients[w].abs().max().item<float>(), 0) << names[w];
  }
}

TEST(RoughPrices, SayWhatIsCheap) {
  PlacementGraph graph = RandomGraph(5, 4, 2);
  RoughPrices prices(graph);
  auto all = [&](uint32_t set, Way way) {
    auto found = std::find(graph.actions.begin(), graph.actions.end(), Action{set, way});
    return prices.Of(
        PlacementStrategy(graph.decisions, static_cast<int>(found - graph.actions.begin())));
  };
  RoughCost spread = all(3, Way::kReplicate), copies = all(3, Way::kDuplicate);
  EXPECT_GT(spread.sync, 0);
  EXPECT_EQ(copies.sync, 0);
  EXPECT_GT(copies.serial, spread.serial);
  EXPECT_GT(all(1, Way::kReplicate).serial, spread.serial);
  EXPECT_EQ(spread.transfer, 0);  // one stage
  PlacementStrategy mixed(graph.decisions, 0);
  mixed[1] = static_cast<int>(graph.actions.size()) - 1;
  EXPECT_GT(prices.Of(mixed).transfer, 0);
}

class NetworkFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("heddle-prior-{}", getpid()))
                .string();
    PriorNetwork network({16, 2, 1}, 4);
    SaveNetwork(path_, network, {4, "by hand"});
    bytes_ = ReadFile(path_, 1 << 24);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // The error of reading the file after replacing `text` by `with`.
  std::string ErrorWith(const std::string& text, const std::string& with) {
    std::string changed = bytes_;
    size_t at = changed.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    changed.replace(at, text.size(), with);
    return ErrorOf(changed);
  }
  static std::string ErrorOf(const std::string& bytes) {
    try {
      ParseNetwork(bytes, "x.safetensors");
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "";
  }

  std::string path_, bytes_;
};

TEST_F(NetworkFile, ComesBackAsItWas) {
  PlacementGraph graph = RandomGraph(6, 4, 2);
  PriorNetwork network({16, 2, 1}, 4);
  PrefixState state = StateOf(graph, {});
  EXPECT_EQ(LoadPrior(path_)->Of(graph, {state}), PriorsOf(network, graph, {state}));
}

TEST_F(NetworkFile, RefusesWhatIsNoNetwork) {
  EXPECT_THAT(ErrorWith("\"version\":\"1\"", "\"version\":\"7\""), HasSubstr("version: '7'"));
  EXPECT_THAT(ErrorWith("\"format\":\"heddle-prior\"", "\"format\":\"middle-prior\""),
              HasSubstr("middle-prior"));
  EXPECT_THAT(ErrorWith("\"hidden\":\"16\"", "\"hidden\":\"32\""), HasSubstr("expected f32["));
  EXPECT_THAT(ErrorWith("\"heads\":\"2\"", "\"heads\":\"5\""), HasSubstr("do not divide"));
  EXPECT_THAT(ErrorWith("\"layers\":\"1\"", "\"layers\":\"2\""), HasSubstr("is missing"));
  EXPECT_THAT(ErrorWith("\"layers\":\"1\"", "\"layers\":\"x\""), HasSubstr("expected 1 to"));
  EXPECT_THAT(ErrorOf(bytes_.substr(0, bytes_.size() - 4)), HasSubstr("x.safetensors"));
  EXPECT_THAT(ErrorOf(bytes_.substr(0, 20)), HasSubstr("x.safetensors"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("x.safetensors"));
  std::string nan = bytes_;
  float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&nan[nan.size() - 4], &bad, 4);
  EXPECT_THAT(ErrorOf(nan), HasSubstr("not finite"));
  EXPECT_THROW(LoadPrior(path_ + "-not-there"), InputError);
}

TEST(BundledNetwork, IsOne) {
  PlacementGraph graph = RandomGraph(7, 6, 4);
  std::vector<double> priors = BundledPrior()->Of(graph, {StateOf(graph, {3})})[0];
  EXPECT_NEAR(Sum(priors), 1, 1e-5);
  EXPECT_LT(BundledNetworkBytes().size(), 2'000'000u);
}

TEST(Learner, LowersTheLossOfAFewExamples) {
  PriorNetwork network({32, 2, 2}, 5);
  std::vector<Example> examples;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    PlacementGraph graph = RandomGraph(10 + seed, 4, 2 + seed % 2);
    Features features = FeaturesOf(graph, RoughPrices(graph), StateOf(graph, {2}));
    std::vector<float> target(features.actions, 0);
    target[seed] = 0.75F;
    target[seed + 4] = 0.25F;
    examples.push_back({std::move(features), std::move(target)});
  }
  std::vector<const Example*> batch;
  for (const Example& example : examples) batch.push_back(&example);
  Learner learner(network);
  double first = learner.Step(batch, 5e-3), last = first;
  for (int step = 0; step < 60; ++step) last = learner.Step(batch, 5e-3);
  EXPECT_GT(first, 1);
  EXPECT_LT(last, first / 2);
}

// A small model on unlike machines.
Lesson TinyLesson(uint64_t seed) {
  std::mt19937_64 rng(seed % 4);
  Model model = RandomModel(rng, 6, 4);
  return {std::move(model), TagTestbed()};
}

LearnOptions TinyOptions() {
  LearnOptions options;
  options.sizes = {16, 2, 1};
  options.seed = 9;
  options.rounds = 2;
  options.games = 2;
  options.playouts = 16;
  options.updates = 2;
  options.batch = 4;
  return options;
}

TEST(LearnPrior, IsTheSameTwice) {
  auto learn = [&](uint64_t seed) {
    LearnOptions options = TinyOptions();
    options.seed = seed;
    int64_t examples = 0;
    options.after = [&](const RoundReport& report, PriorNetwork&) {
      examples = report.examples;
      return true;
    };
    PriorNetwork network = LearnPrior(TinyLesson, options);
    EXPECT_GT(examples, 0);
    return network.Weights();
  };
  std::vector<at::Tensor> first = learn(9), second = learn(9), other = learn(10);
  PriorNetwork fresh(TinyOptions().sizes, 9);
  double changed = 0, differs = 0;
  for (size_t w = 0; w < first.size(); ++w) {
    EXPECT_TRUE(at::equal(first[w], second[w])) << w;
    changed += (first[w] - fresh.Weights()[w]).abs().sum().item<double>();
    differs += (first[w] - other[w]).abs().sum().item<double>();
  }
  EXPECT_GT(changed, 0);
  EXPECT_GT(differs, 0);
}

TEST(Contest, CountsPlayoutsToTheBestOfAllRuns) {
  Lesson lesson = TinyLesson(1);
  Contest contest(lesson);
  ASSERT_TRUE(contest.IsOpen());
  TreeResult found = contest.Run(*UniformPrior(), 40);
  EXPECT_EQ(contest.PlayoutsToBest(found, 0, 800), std::max<int64_t>(1, found.found));
  EXPECT_LE(contest.PlayoutsToBest(found, 0.5, 800), std::max<int64_t>(1, found.found));
  TreeResult none;
  EXPECT_EQ(contest.PlayoutsToBest(none, 0.01, 800), 800);
}

}  // namespace
}  // namespace heddle
