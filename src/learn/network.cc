#include "learn/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"

namespace heddle {
namespace {

constexpr double kHidden = 1e9;  // subtracted from the scores of padding
constexpr std::array<const char*, 5> kEdgeNames = {"prev", "next", "serve", "link", "place"};
constexpr std::array<size_t, 5> kEdgeFeatures = {Features::kFlow, Features::kFlow, Features::kPlace,
                                                 Features::kLink, Features::kPlace};

// A field of all states as states x rows x columns x inner, padded with zeros. `columns` may be null, which means one
// column.
at::Tensor Padded(const std::vector<const Features*>& all, std::vector<float> Features::*field,
                  size_t Features::*rows, size_t Features::*columns, size_t inner) {
  auto columns_of = [&](const Features& features) {
    return columns == nullptr ? size_t{1} : features.*columns;
  };
  size_t most_rows = 0, most_columns = 0;
  for (const Features* features : all) {
    most_rows = std::max(most_rows, features->*rows);
    most_columns = std::max(most_columns, columns_of(*features));
  }
  auto size = [](size_t n) { return static_cast<int64_t>(n); };
  at::Tensor out = at::zeros({size(all.size()), size(most_rows), size(most_columns), size(inner)});
  for (size_t b = 0; b < all.size(); ++b) {
    const std::vector<float>& from = all[b]->*field;
    size_t row = columns_of(*all[b]) * inner;
    HEDDLE_CHECK_EQ(from.size(), all[b]->*rows * row);
    for (size_t r = 0; r < all[b]->*rows; ++r) {
      float* to = out.data_ptr<float>() + (b * most_rows + r) * most_columns * inner;
      std::memcpy(to, from.data() + r * row, row * sizeof(float));
    }
  }
  return out;
}

at::Tensor MaskOf(const std::vector<const Features*>& all, size_t Features::*count) {
  size_t most = 0;
  for (const Features* features : all) most = std::max(most, features->*count);
  at::Tensor out = at::zeros({static_cast<int64_t>(all.size()), static_cast<int64_t>(most)});
  for (size_t b = 0; b < all.size(); ++b) {
    std::fill_n(out.data_ptr<float>() + b * most, all[b]->*count, 1.0F);
  }
  return out;
}

}  // namespace

NetworkBatch BatchOf(const std::vector<const Features*>& all) {
  using F = Features;
  NetworkBatch out;
  out.unit = Padded(all, &F::unit, &F::units, nullptr, F::kUnit).squeeze(2);
  out.group = Padded(all, &F::group, &F::groups, nullptr, F::kGroup).squeeze(2);
  out.action = Padded(all, &F::action, &F::actions, nullptr, F::kAction).squeeze(2);
  out.next = Padded(all, &F::next, &F::units, nullptr, 1).squeeze(3).squeeze(2);
  out.flow = Padded(all, &F::flow, &F::units, &F::units, F::kFlow);
  out.flows = Padded(all, &F::flows, &F::units, &F::units, 1).squeeze(3);
  out.link = Padded(all, &F::link, &F::groups, &F::groups, F::kLink);
  out.place = Padded(all, &F::place, &F::units, &F::groups, F::kPlace);
  out.member = Padded(all, &F::member, &F::actions, &F::groups, 1).squeeze(3);
  out.unit_mask = MaskOf(all, &F::units);
  out.group_mask = MaskOf(all, &F::groups);
  out.action_mask = MaskOf(all, &F::actions);
  return out;
}

void PriorNetwork::Visit(
    const std::function<void(const std::string& name, at::Tensor& weight)>& function) {
  auto linear = [&](const std::string& name, Linear& at) {
    function(name + ".weight", at.weight);
    function(name + ".bias", at.bias);
  };
  linear("unit", unit_);
  linear("group", group_);
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (size_t t = 0; t < kEdgeNames.size(); ++t) {
      std::string name = fmt::format("layer{}.{}.", l, kEdgeNames[t]);
      Attention& at = layers_[l].types[t];
      linear(name + "value", at.value);
      function(name + "source", at.source);
      function(name + "edge", at.edge);
      function(name + "target", at.target);
      function(name + "edge_value", at.edge_value);
    }
  }
  linear("member1", member1_);
  linear("member2", member2_);
  function("set", set_);
  function("to_decide", to_decide_);
  linear("action", action_);
  function("score", score_);
  function("shortcut", shortcut_);
}

std::vector<at::Tensor> PriorNetwork::Weights() {
  std::vector<at::Tensor> weights;
  Visit([&](const std::string&, at::Tensor& weight) { weights.push_back(weight); });
  return weights;
}

PriorNetwork::PriorNetwork(const NetworkSizes& sizes, uint64_t seed) : sizes_(sizes) {
  uint64_t stream = 0;
  auto draw = [&](std::vector<int64_t> shape, double in) {
    at::Tensor weight = at::empty(shape);
    auto* at = weight.data_ptr<float>();
    double scale = 1 / std::sqrt(in);
    for (int64_t i = 0; i < weight.numel(); ++i) {
      at[i] = static_cast<float>(scale * RandomNormal(seed, stream, static_cast<uint64_t>(i)));
    }
    ++stream;
    return weight;
  };
  auto linear = [&](size_t in, int64_t out) {
    auto n = static_cast<int64_t>(in);
    return Linear{draw({n, out}, static_cast<double>(in)), at::zeros({out})};
  };
  int64_t h = sizes.hidden;
  auto hidden = static_cast<size_t>(h);
  auto width = static_cast<double>(h);
  unit_ = linear(Features::kUnit, h);
  group_ = linear(Features::kGroup, h);
  layers_.resize(static_cast<size_t>(sizes.layers));
  for (Layer& layer : layers_) {
    for (size_t t = 0; t < layer.types.size(); ++t) {
      auto features = static_cast<int64_t>(kEdgeFeatures[t]);
      auto edge = static_cast<double>(features);
      layer.types[t] = {linear(hidden, h), draw({h, sizes.heads}, width),
                        draw({features, sizes.heads}, edge), draw({h, sizes.heads}, width),
                        draw({features, sizes.heads, h / sizes.heads}, edge)};
    }
  }
  member1_ = linear(hidden + 1, h);
  member2_ = linear(hidden, h);
  set_ = draw({h, h}, width);
  to_decide_ = draw({h, h}, width);
  action_ = linear(Features::kAction, h);
  score_ = draw({h, 1}, width).mul_(0.1);  // the initial prior is nearly uniform
  shortcut_ = draw({static_cast<int64_t>(Features::kAction), 1}, Features::kAction).mul_(0.1);
}

// source: states x S x hidden; target: states x D x hidden; edge: states x D x S x features; mask: states x D x S.
at::Tensor PriorNetwork::Attend(const Attention& by, const at::Tensor& source,
                                const at::Tensor& target, const at::Tensor& edge,
                                const at::Tensor& mask) const {
  int64_t states = source.size(0), from = source.size(1), to = target.size(1);
  at::Tensor score = at::matmul(source, by.source).unsqueeze(1) + at::matmul(edge, by.edge) +
                     at::matmul(target, by.target).unsqueeze(2);
  at::Tensor there = mask.unsqueeze(3);
  score = at::leaky_relu(score, 0.2) + (there - 1) * kHidden;
  at::Tensor part = at::softmax(score, 2) * there;  // states x D x S x heads
  at::Tensor value = by.value(source).view({states, from, sizes_.heads, -1}).permute({0, 2, 1, 3});
  at::Tensor nodes = at::matmul(part.permute({0, 3, 1, 2}), value).permute({0, 2, 1, 3});
  at::Tensor edges = at::matmul(part.transpose(2, 3), edge);  // states x D x heads x features
  edges = at::matmul(edges.unsqueeze(3), by.edge_value.transpose(0, 1)).squeeze(3);
  return (nodes + edges).reshape({states, to, sizes_.hidden});
}

at::Tensor PriorNetwork::LogPriors(const NetworkBatch& in) const {
  at::Tensor unit = at::tanh(unit_(in.unit)), group = at::tanh(group_(in.group));
  at::Tensor both = in.group_mask.unsqueeze(1) * in.group_mask.unsqueeze(2);
  at::Tensor to_unit = in.group_mask.unsqueeze(1).expand({-1, unit.size(1), -1});
  at::Tensor to_group = in.unit_mask.unsqueeze(1).expand({-1, group.size(1), -1});
  at::Tensor back = in.flow.transpose(1, 2), backs = in.flows.transpose(1, 2);
  at::Tensor serve = in.place, place = in.place.transpose(1, 2);
  for (size_t l = 0; l < layers_.size(); ++l) {
    const std::array<Attention, 5>& by = layers_[l].types;
    at::Tensor units =
        (Attend(by[0], unit, unit, back, backs) + Attend(by[1], unit, unit, in.flow, in.flows) +
         Attend(by[2], group, unit, serve, to_unit)) /
        3;
    at::Tensor groups =
        (Attend(by[3], group, group, in.link, both) + Attend(by[4], unit, group, place, to_group)) /
        2;
    bool last = l + 1 == layers_.size();
    unit = unit + (last ? units : at::elu(units));
    group = group + (last ? groups : at::elu(groups));
  }
  // Computes each group as member and as non-member of the set, then takes the mean of those that apply.
  auto member = [&](double bit) {
    at::Tensor with = at::cat({group, at::full({group.size(0), group.size(1), 1}, bit)}, 2);
    return at::tanh(member2_(at::tanh(member1_(with)))) * in.group_mask.unsqueeze(2);
  };
  at::Tensor out = member(0), inside = member(1);
  at::Tensor count = in.group_mask.sum(1).view({-1, 1, 1});
  at::Tensor set = (at::matmul(in.member, inside - out) + out.sum(1, true)) / count;
  at::Tensor deciding = at::matmul(in.next.unsqueeze(1), unit);  // states x 1 x hidden
  at::Tensor hidden =
      at::tanh(at::matmul(set, set_) + at::matmul(deciding, to_decide_) + action_(in.action));
  at::Tensor scores = (at::matmul(hidden, score_) + at::matmul(in.action, shortcut_)).squeeze(2);
  return at::log_softmax(scores + (in.action_mask - 1) * kHidden, 1);
}

std::vector<std::vector<double>> PriorsOf(const PriorNetwork& network, const PlacementGraph& graph,
                                          const std::vector<PrefixState>& states) {
  at::NoGradGuard no_gradients;
  RoughPrices prices(graph);
  std::vector<Features> features;
  std::vector<const Features*> all;
  features.reserve(states.size());
  for (const PrefixState& state : states) {
    features.push_back(FeaturesOf(graph, prices, state));
    all.push_back(&features.back());
  }
  at::Tensor priors = network.LogPriors(BatchOf(all)).exp().contiguous();
  const auto* at = priors.data_ptr<float>();
  size_t actions = graph.actions.size();
  std::vector<std::vector<double>> out;
  for (size_t s = 0; s < states.size(); ++s) {
    out.emplace_back(at + s * actions, at + (s + 1) * actions);
  }
  return out;
}

}  // namespace heddle
