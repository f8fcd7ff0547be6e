#include "runtime/single_device.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "ops/analysis.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"
#include "runtime/weights.h"

namespace heddle {
namespace {

std::vector<std::vector<ValueId>> LastUses(const Graph& graph) {
  std::vector<std::vector<ValueId>> last(graph.nodes.size());
  std::vector<std::vector<NodeId>> readers = Readers(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    ValueId id = ValueId::FromIndex(v);
    NodeId producer = graph.values[v].producer;
    bool output = std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
    if (output || !producer.valid()) continue;
    NodeId end = readers[v].empty() ? producer : readers[v].back();
    last[end.index()].push_back(id);
  }
  return last;
}

at::Tensor CheckedInput(const Batch& batch, const Value& value) {
  auto found = batch.find(value.name);
  if (found == batch.end()) ThrowInput("the data has no tensor for input '{}'", value.name);
  const at::Tensor& tensor = found->second;
  if (tensor.sizes() != at::IntArrayRef(value.type.shape)) {
    ThrowInput("input '{}' is {} in the data but {} in the model", value.name,
               ToString(tensor.sizes().vec()), ToString(value.type.shape));
  }
  return tensor.to(ToTorch(value.type.dtype));
}

}  // namespace

SingleDevice::SingleDevice(const Graph& graph, Options options)
    : graph_(graph),
      options_(options),
      rules_(MakeRules(graph)),
      last_use_(LastUses(graph)),
      fixed_(graph.values.size()) {
  for (size_t n = 0; n < rules_.size(); ++n) blocks_.push_back(WholeBlocks(rules_[n]));
  WeightOptions start{options.seed, options.seeded, options.fill_constants};
  ConstantSource constants = MakeConstants(graph, start);
  WeightSource weights = MakeWeights(graph, rules_, start);
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant))
    fixed_[id.index()] = constants(graph.value(id));
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    fixed_[id.index()] = weights(value.name).to(ToTorch(value.type.dtype)).set_requires_grad(true);
    parameters_.push_back(fixed_[id.index()]);
    names_.push_back(value.name);
  }
}

at::Tensor SingleDevice::Forward(const Batch& batch, int64_t step) {
  std::vector<at::Tensor> values = fixed_;
  for (ValueId id : graph_.ValuesOf(ValueKind::kInput)) {
    values[static_cast<size_t>(id.value)] = CheckedInput(batch, graph_.value(id));
  }
  std::vector<at::Tensor> operands;
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    operands.clear();
    for (ValueId id : node.operands) operands.push_back(values[static_cast<size_t>(id.value)]);
    RandomState random{options_.seed, static_cast<uint64_t>(step), n};
    std::vector<at::Tensor> results =
        FindKernel(node.op)({node.attributes, rules_[n], blocks_[n], operands, random});
    for (size_t r = 0; r < results.size(); ++r) {
      values[static_cast<size_t>(node.results[r].value)] = std::move(results[r]);
    }
    for (ValueId id : last_use_[n]) values[static_cast<size_t>(id.value)].reset();
  }
  return values[static_cast<size_t>(graph_.outputs.front().value)];
}

StepResult SingleDevice::Run(const Batch& batch, int64_t step) {
  at::Tensor loss = Forward(batch, step);
  StepResult result;
  result.loss = loss.item<double>();
  if (!loss.requires_grad())
    ThrowInput("the loss depends on no parameter: there is nothing to train");
  result.gradients = torch::autograd::grad({loss}, parameters_, {}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (!result.gradients[p].defined()) result.gradients[p] = at::zeros_like(parameters_[p]);
  }
  return result;
}

}  // namespace heddle
