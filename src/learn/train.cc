#include "learn/train.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/parallel.h"
#include "base/rng.h"

namespace heddle {
namespace {

constexpr double kClip = 1.0;  // largest norm of all gradients together
constexpr double kSharp =
    0.02;  // a strategy that is slower by this fraction is less likely by the factor e
constexpr double kVisits =
    0.3;  // weight of visits in the target; the rest is given by simulated strategies

class NetworkView : public Prior {
 public:
  explicit NetworkView(const PriorNetwork& network) : network_(network) {}
  std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                      const std::vector<PrefixState>& states) override {
    return PriorsOf(network_, graph, states);
  }

 private:
  const PriorNetwork& network_;
};

// The target for a prefix: visit counts, and which actions lead to the best simulated strategies.
std::vector<float> TargetOf(const PlacementGame& game, const std::vector<PlacementStrategy>& known,
                            const PrefixVisits& at) {
  size_t next = at.prefix.size();
  std::vector<double> leads(at.visits.size(), 0);
  double best = 0, sum = 0, visits = 0;
  for (const PlacementStrategy& strategy : known) {  // the fastest first
    if (!std::equal(at.prefix.begin(), at.prefix.end(), strategy.begin())) continue;
    double seconds = game.Of(strategy).seconds;
    if (best == 0) best = seconds;
    double& lead = leads[static_cast<size_t>(strategy[next])];
    if (lead > 0) continue;
    lead = std::exp(-std::log(seconds / best) / kSharp);
    sum += lead;
  }
  for (int64_t count : at.visits) visits += static_cast<double>(count);
  std::vector<float> target;
  for (size_t a = 0; a < leads.size(); ++a) {
    double visited = static_cast<double>(at.visits[a]) / visits;
    target.push_back(
        static_cast<float>(sum > 0 ? kVisits * visited + (1 - kVisits) * leads[a] / sum : visited));
  }
  return target;
}

int SampleOf(const std::vector<int64_t>& visits, double uniform) {
  int64_t all = 0;
  for (int64_t count : visits) all += count;
  double left = uniform * static_cast<double>(all);
  for (size_t a = 0; a < visits.size(); ++a) {
    left -= static_cast<double>(visits[a]);
    if (left < 0) return static_cast<int>(a);
  }
  return 0;
}

}  // namespace

std::vector<Example> Play(const Lesson& lesson, const PriorNetwork& network,
                          const LearnOptions& options, uint64_t seed) {
  Contest contest(lesson);
  if (!contest.IsOpen()) return {};
  NetworkView prior(network);
  std::map<Prefix, PrefixVisits> seen;
  TreeOptions tree;
  tree.noise = options.noise;
  tree.playouts = options.playouts;
  for (int s = 0; s < options.searches; ++s) {
    tree.seed = RandomBits(seed, 1, static_cast<uint64_t>(s));
    tree.record = std::max<int64_t>(8, tree.playouts / 8);
    TreeResult found = contest.Run(prior, tree);
    for (PrefixVisits& at : found.recorded) {
      Prefix prefix = at.prefix;
      seen.insert_or_assign(std::move(prefix), std::move(at));
    }
    if (tree.root.size() + 1 >= contest.game().decisions()) break;
    tree.root.push_back(
        SampleOf(found.root_visits, RandomUniform(seed, 2, static_cast<uint64_t>(s))));
    tree.playouts = options.playouts / 2;
  }
  const PlacementGame& game = contest.game();
  std::vector<PlacementStrategy> known = contest.game().Best(SIZE_MAX);
  RoughPrices prices(game.graph());
  std::vector<Example> examples;
  for (const auto& [prefix, at] : seen) {
    examples.push_back(
        {FeaturesOf(game.graph(), prices, game.StateOf(prefix)), TargetOf(game, known, at)});
  }
  return examples;
}

Learner::Learner(PriorNetwork& network) : network_(network), weights_(network.Weights()) {
  for (at::Tensor& weight : weights_) {
    weight.requires_grad_(true);
    first_.push_back(at::zeros_like(weight));
    second_.push_back(at::zeros_like(weight));
  }
}

double Learner::Step(const std::vector<const Example*>& batch, double lr) {
  std::vector<const Features*> features;
  for (const Example* example : batch) features.push_back(&example->features);
  NetworkBatch in = BatchOf(features);
  at::Tensor target = at::zeros_like(in.action_mask);
  for (size_t b = 0; b < batch.size(); ++b) {
    std::copy(batch[b]->target.begin(), batch[b]->target.end(),
              target.data_ptr<float>() + static_cast<int64_t>(b) * target.size(1));
  }
  auto count = static_cast<double>(batch.size());
  at::Tensor loss = -(target * network_.LogPriors(in) * in.action_mask).sum() / count;
  double least = -(target * at::log(target + 1e-12)).sum().item<double>() / count;
  std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, weights_);
  at::NoGradGuard no_gradients;
  double norm = 0;
  for (const at::Tensor& gradient : gradients) {
    norm += gradient.square().sum().item<double>();
  }
  norm = std::sqrt(norm);
  double scale = norm > kClip ? kClip / norm : 1;
  ++steps_;
  constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8;
  double correct1 = 1 - std::pow(kBeta1, static_cast<double>(steps_));
  double correct2 = 1 - std::pow(kBeta2, static_cast<double>(steps_));
  for (size_t w = 0; w < weights_.size(); ++w) {
    at::Tensor gradient = gradients[w] * scale;
    first_[w].mul_(kBeta1).add_(gradient, 1 - kBeta1);
    second_[w].mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
    at::Tensor divisor = (second_[w] / correct2).sqrt_().add_(kEps);
    weights_[w].addcdiv_(first_[w], divisor, -lr / correct1);
  }
  return loss.item<double>() - least;
}

PriorNetwork LearnPrior(const LessonMaker& lesson, const LearnOptions& options) {
  PriorNetwork network(options.sizes, options.seed);
  Learner learner(network);
  std::deque<Example> recent;
  RoundReport report;
  uint64_t drawn = 0, updates = 0;
  for (int64_t round = 0; round < options.rounds; ++round) {
    std::vector<std::vector<Example>> played(options.games);
    InParallel(options.games, [&](size_t g) {
      uint64_t seed = RandomBits(options.seed, 3, static_cast<uint64_t>(round) * options.games + g);
      played[g] = Play(lesson(seed), network, options, seed);
    });
    for (std::vector<Example>& examples : played) {
      report.examples += static_cast<int64_t>(examples.size());
      for (Example& example : examples) recent.push_back(std::move(example));
    }
    while (recent.size() > options.recent_examples) recent.pop_front();
    report.loss = 0;
    for (int u = 0; u < options.updates && !recent.empty(); ++u) {
      std::vector<const Example*> batch;
      for (size_t b = 0; b < options.batch; ++b) {
        batch.push_back(&recent[RandomBelow(recent.size(), options.seed, 4, drawn++)]);
      }
      double lr = options.lr / std::sqrt(1 + static_cast<double>(updates++) / 400);
      report.loss += learner.Step(batch, lr) / options.updates;
    }
    report.round = round + 1;
    if (options.after && !options.after(report, network)) break;
  }
  return network;
}

}  // namespace heddle
