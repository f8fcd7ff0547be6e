#include "runtime/weights.h"

#include <map>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "runtime/initialise.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tensor.h"

namespace heddle {
namespace {

// The value of a constant whose data the file does not hold.
at::Tensor StandIn(const Value& value, uint64_t seed) {
  at::TensorOptions options(ToTorch(value.type.dtype));
  if (value.type.dtype == DType::kBool) return at::ones(value.type.shape, options);
  if (!IsFloat(value.type.dtype)) return at::zeros(value.type.shape, options);
  return SeededNormal(value.type.shape, seed, HashString(value.name)).mul_(0.02).to(options);
}

// Does the graph have weights? Throws where it has only some of them.
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
    ThrowInput(
        "{} of {} parameters have no weights in the file, '{}' first: give --weights, or --init "
        "seeded",
        missing, count, first);
  }
  return missing == 0;
}

}  // namespace

WeightSource MakeWeights(const Graph& graph, const Rules& rules, const WeightOptions& options) {
  bool seeded = options.seeded || !HasWeights(graph);
  auto ids = std::make_shared<std::map<std::string, ValueId>>();
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) (*ids)[graph.value(id).name] = id;
  return [&graph, rules, ids, seeded, seed = options.seed](const std::string& name) {
    ValueId id = ids->at(name);
    return seeded ? InitialWeights(graph, id, rules, seed)
                  : ToTorchTensor(*graph.value(id).data).to(at::kFloat);
  };
}

ConstantSource MakeConstants(const Graph& graph, const WeightOptions& options) {
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    if (graph.value(id).data || options.fill_constants) continue;
    ThrowInput(
        "constant '{}' has no data in the file: give --weights, or --fill-constants to run with "
        "made-up ones",
        graph.value(id).name);
  }
  return [seed = options.seed](const Value& value) {
    return value.data ? ToTorchTensor(*value.data) : StandIn(value, seed);
  };
}

}  // namespace heddle
