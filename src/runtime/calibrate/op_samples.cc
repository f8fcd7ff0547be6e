#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "ops/analysis.h"
#include "ops/moved_bytes.h"
#include "ops/traits.h"
#include "runtime/calibrate/sample.h"
#include "runtime/data/data_source.h"
#include "runtime/kernels/kernel.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

// A graph whose nodes have been run once, so that every operand has values that fit.
struct Captured {
  const Graph& graph;
  Rules rules;
  GradientFlow flow;
  std::vector<at::Tensor> values;
};

std::shared_ptr<Captured> Capture(const Graph& graph, at::Device device) {
  Rules rules = MakeRules(graph);
  auto made = std::make_shared<Captured>(Captured{graph, rules, FindGradients(graph, rules),
                                                  std::vector<at::Tensor>(graph.values.size())});
  WeightOptions start{.seed = 0, .seeded = true, .fill_constants = true};
  ConstantSource constants = MakeConstants(graph, start);
  Batch batch = OpenData(graph, {})->Rows(0, {0, BatchOf(graph)});
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    at::Tensor tensor;
    if (value.kind == ValueKind::kConstant) tensor = constants(value);
    if (value.kind == ValueKind::kParameter)
      tensor = 0.02 * at::randn(value.type.shape, at::TensorOptions(device));
    if (value.kind == ValueKind::kInput) tensor = batch.at(value.name);
    if (tensor.defined()) made->values[v] = tensor.to(device, ToTorch(value.type.dtype));
  }
  at::NoGradGuard no_grad;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::vector<at::Tensor> operands;
    for (ValueId id : node.operands) operands.push_back(made->values[id.index()]);
    std::vector<Block> blocks = WholeBlocks(rules[n]);
    std::vector<at::Tensor> results =
        FindKernel(node.op)({node.attributes, rules[n], blocks, operands, {}});
    for (size_t r = 0; r < results.size(); ++r) made->values[node.results[r].index()] = results[r];
  }
  return made;
}

struct OpCall {
  std::shared_ptr<Captured> in;
  size_t node = 0;
  std::vector<Block> blocks;
  std::vector<at::Tensor> operands, leaves;

  std::vector<at::Tensor> operator()() const {
    const Node& at = in->graph.nodes[node];
    return FindKernel(at.op)({at.attributes, in->rules[node], blocks, operands, {}});
  }
};

// Leaves are the operands that have a gradient.
std::shared_ptr<OpCall> CallOf(const std::shared_ptr<Captured>& in, size_t n) {
  auto call = std::make_shared<OpCall>();
  call->in = in;
  call->node = n;
  call->blocks = WholeBlocks(in->rules[n]);
  const Node& node = in->graph.nodes[n];
  const std::vector<int>& differentiable = in->rules[n].differentiable;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    at::Tensor operand = in->values[node.operands[o].index()].detach();
    bool wanted = in->flow.needed[node.operands[o].index()] &&
                  std::find(differentiable.begin(), differentiable.end(), static_cast<int>(o)) !=
                      differentiable.end();
    if (wanted) call->leaves.push_back(operand.set_requires_grad(true));
    call->operands.push_back(operand);
  }
  return call;
}

std::function<void()> BackwardOf(const std::shared_ptr<OpCall>& call) {
  std::vector<at::Tensor> ends, seeds;
  for (const at::Tensor& result : (*call)()) {
    if (!result.requires_grad()) continue;
    ends.push_back(result);
    seeds.push_back(at::ones_like(result));
  }
  if (ends.empty()) return [] {};
  return [=] {
    torch::autograd::grad(ends, call->leaves, seeds, /*retain_graph=*/true, /*create_graph=*/false,
                          /*allow_unused=*/true);
  };
}

// Sums hand gradients on as they are.
bool HandsOn(const Captured& in, size_t n) {
  const Node& node = in.graph.nodes[n];
  return !TraitsOf(node.op).signs.empty() &&
         std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
           return in.graph.value(id).type.shape == in.graph.value(node.results[0]).type.shape;
         });
}

}  // namespace

void AddOpSamples(at::Device device, const Graph& graph, SeenOps& seen,
                  std::vector<Sample>& samples) {
  std::shared_ptr<Captured> in = Capture(graph, device);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Rule& rule = in->rules[n];
    std::vector<std::pair<DType, Shape>> types;
    for (ValueId id : node.operands)
      types.emplace_back(graph.value(id).type.dtype, graph.value(id).type.shape);
    std::vector<Block> blocks = WholeBlocks(rule);
    Halves work = NodeWork(node, rule, in->flow, blocks);
    bool window = TraitsOf(node.op).kind == OpKind::kConvolution;
    bool product = work.forward.contraction_flops > 0 && !window;
    if (rule.view || product || !seen.insert({node.op, types}).second) continue;
    std::string dtype(Name(IsFloat(graph.value(node.results[0]).type.dtype)
                               ? graph.value(node.results[0]).type.dtype
                               : DType::kF32));
    auto store = [=, op = node.op](bool backward, double size, double part) {
      return [=](RawTimes& times, double seconds) {
        OpTimes& to = times.load.kernels[dtype].ops[op];
        (backward ? to.backward : to.forward).points.push_back({size, seconds * part});
      };
    };
    double flops = work.forward.contraction_flops;
    double size = window ? flops : MovedBytes(graph, node, rule, blocks, false);
    samples.push_back({"ops",
                       [=]() -> std::function<void()> {
                         std::shared_ptr<OpCall> call = CallOf(in, n);
                         return [=] { (*call)(); };
                       },
                       store(false, size, 1)});
    bool gradient = !CallOf(in, n)->leaves.empty() && in->flow.needed[node.results[0].index()];
    if (!gradient || HandsOn(*in, n)) continue;
    // Of a convolution a curve is for each of its gradients.
    double halves = (work.backward.flops > 0 ? 1 : 0) + (work.weight.flops > 0 ? 1 : 0);
    double part = window && halves > 0 ? 1 / halves : 1;
    size = window ? flops : MovedBytes(graph, node, rule, blocks, true);
    samples.push_back({"ops", [=] { return BackwardOf(CallOf(in, n)); }, store(true, size, part)});
  }
}

}  // namespace heddle
