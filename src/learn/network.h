// The graph network behind Prior: heterogeneous attention over the units of a model and the device groups of a cluster
// (after TAG, Zhang et al., IEEE TPDS 2023), and a score for every action of the next decision.
//
//   unit, group       features -> tanh
//   layer             per edge type  a = softmax_s LeakyReLU(u.h_s + e.e_sd + t.h_d),  m_d = sum_s a (V h_s + E e_sd)
//                     types: unit-prev-unit, unit-next-unit, group-serve-unit; group-link-group, unit-place-group
//                     h_d += ELU(mean of m_d over the types that end there); the last layer without ELU
//   action            mean over groups of MLP(h_g | whether g is in the set), with the embedding of the units to
//                     decide, the kind of the action and its features -> MLP -> a score; softmax over actions
//
// Nothing depends on the numbering of groups or actions. It runs on the CPU; equal inputs give bitwise equal results
// for an equal number of libtorch threads (the command line uses one).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "learn/features.h"

namespace heddle {

struct NetworkSizes {
  int64_t hidden = 64;
  int64_t heads = 4;  // divides hidden
  int64_t layers = 3;
  bool operator==(const NetworkSizes&) const = default;
};

// Features of several states of one or several problems, as tensors. Smaller ones are padded.
struct NetworkBatch {
  at::Tensor unit, group, flow, flows, link, place, next, member, action;
  at::Tensor unit_mask, group_mask, action_mask;  // 1: present, 0: padding
};
NetworkBatch BatchOf(const std::vector<const Features*>& features);

class PriorNetwork {
 public:
  // Draws initial weights from the seed.
  PriorNetwork(const NetworkSizes& sizes, uint64_t seed);

  const NetworkSizes& sizes() const { return sizes_; }
  // Logarithms of the priors: states x actions. Differentiable if weights require gradients.
  at::Tensor LogPriors(const NetworkBatch& batch) const;

  // Calls a function with every weight and its name, always in the same order.
  void Visit(const std::function<void(const std::string& name, at::Tensor& weight)>& function);
  std::vector<at::Tensor> Weights();

 private:
  struct Linear {
    at::Tensor weight, bias;  // in x out
    at::Tensor operator()(const at::Tensor& x) const { return at::matmul(x, weight) + bias; }
  };
  struct Attention {
    Linear value;                     // of the source
    at::Tensor source, edge, target;  // scores per head
    at::Tensor edge_value;            // edge features x heads x hidden / heads
  };
  struct Layer {
    std::array<Attention, 5> types;  // prev, next, serve, link, place
  };

  at::Tensor Attend(const Attention& by, const at::Tensor& source, const at::Tensor& target,
                    const at::Tensor& edge, const at::Tensor& mask) const;

  NetworkSizes sizes_;
  Linear unit_, group_;
  std::vector<Layer> layers_;
  Linear member1_, member2_;
  at::Tensor set_, to_decide_;  // hidden x hidden each
  Linear action_;
  at::Tensor score_;     // hidden x 1
  at::Tensor shortcut_;  // features of an action x 1
};

// The probability of each action for each state. Thread-safe.
std::vector<std::vector<double>> PriorsOf(const PriorNetwork& network, const PlacementGraph& graph,
                                          const std::vector<PrefixState>& states);

}  // namespace heddle
