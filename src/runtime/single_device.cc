#include "runtime/single_device.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "ops/analysis.h"
#include "runtime/initialise.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

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

// For a constant of unknown content.
at::Tensor StandIn(const Value& value, uint64_t seed) {
  at::TensorOptions options(ToTorch(value.type.dtype));
  if (value.type.dtype == DType::kBool) return at::ones(value.type.shape, options);
  if (!IsFloat(value.type.dtype)) return at::zeros(value.type.shape, options);
  return SeededNormal(value.type.shape, seed, HashString(value.name)).mul_(0.02).to(options);
}

// Does the graph bring its weights? Some of them would be an accident.
bool HasWeights(const Graph& graph) {
  std::vector<ValueId> parameters = graph.ValuesOf(ValueKind::kParameter);
  int64_t missing = 0;
  std::string first;
  for (ValueId id : parameters) {
    if (graph.value(id).data) continue;
    if (missing++ == 0) first = graph.value(id).name;
  }
  int64_t count = static_cast<int64_t>(parameters.size());
  if (missing != 0 && missing != count) {
    ThrowInput("{} of {} parameters have no weights in the file, '{}' first: give --weights, or --init seeded",
               missing, count, first);
  }
  return missing == 0;
}

}  // namespace

SingleDevice::SingleDevice(const Graph& graph, Options options)
    : graph_(graph), options_(options), rules_(MakeRules(graph)), last_use_(LastUses(graph)),
      fixed_(graph.values.size()) {
  for (const Rule& rule : rules_) blocks_.push_back(WholeBlocks(rule));
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    const Value& value = graph.value(id);
    if (!value.data && !options_.fill_constants) {
      ThrowInput("constant '{}' has no data in the file: give --weights, or --fill-constants to run with "
                 "made-up ones",
                 value.name);
    }
    fixed_[static_cast<size_t>(id.value)] =
        value.data ? ToTorchTensor(*value.data) : StandIn(value, options_.seed);
  }
  bool seeded = options_.seeded || !HasWeights(graph);
  if (seeded && !options_.seeded) LogInfo("the model brings no weights: starting from seed {}", options_.seed);
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    const Value& value = graph.value(id);
    at::Tensor weights = !seeded ? ToTorchTensor(*value.data)
                                    : InitialWeights(graph, id, rules_, options_.seed);
    weights.set_requires_grad(true);
    fixed_[static_cast<size_t>(id.value)] = weights;
    parameters_.push_back(weights);
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
  if (!loss.requires_grad()) ThrowInput("the loss depends on no parameter: there is nothing to train");
  result.gradients = torch::autograd::grad({loss}, parameters_, {}, /*retain_graph=*/false,
                                           /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (!result.gradients[p].defined()) result.gradients[p] = at::zeros_like(parameters_[p]);
  }
  return result;
}

}  // namespace heddle
