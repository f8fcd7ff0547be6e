#include "runtime/executor/not_finite.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace heddle {
namespace {

// Places in the model's list of parameters; its length: none.
struct FirstBad {
  int64_t weights = 0, gradients = 0;
};

bool HasReducedGradients(const DeviceState& state, BufferId id, const DeviceParameters::Key& key) {
  const Buffer& buffer = state.run.buffers[id];
  bool reduced = buffer.kind == BufferKind::kReduced || buffer.kind == BufferKind::kWeightGradients;
  return reduced && buffer.stage == key.first && buffer.group() == key.second &&
         state.buffers[id].defined();
}

FirstBad FindHere(const DeviceState& state, const std::vector<ValueId>& parameters) {
  const int64_t none = static_cast<int64_t>(parameters.size());
  FirstBad first{none, none};
  for (const auto& [key, store] : state.parameters->stores()) {
    const std::vector<ParameterSlot>& slots = store.group().slots;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      int64_t at = std::find(parameters.begin(), parameters.end(), slots[slot].parameter) -
                   parameters.begin();
      if (!IsFinite(store.layout(), slot, store.MasterFlat()))
        first.weights = std::min(first.weights, at);
      if (!store.gradients().IsFinite(slot)) first.gradients = std::min(first.gradients, at);
      for (BufferId id : state.run.buffers.ids()) {
        if (!HasReducedGradients(state, id, key)) continue;
        if (!IsFinite(store.layout(), slot, state.buffers[id]))
          first.gradients = std::min(first.gradients, at);
      }
    }
  }
  return first;
}

FirstBad FindAnywhere(const DeviceState& state, const std::vector<ValueId>& parameters) {
  FirstBad here = FindHere(state, parameters);
  at::Tensor first = at::tensor({-here.weights, -here.gradients}, at::kLong);
  state.communicators->MaximumOverAll(state.program, first);
  return {-first[0].item<int64_t>(), -first[1].item<int64_t>()};
}

}  // namespace

void ThrowNotFinite(const DeviceState& state, int64_t step, double loss, double lr) {
  state.parameters->WaitForCopies();
  const Graph& graph = state.program.model.graph;
  const std::vector<ValueId> parameters = graph.ValuesOf(ValueKind::kParameter);
  const int64_t none = static_cast<int64_t>(parameters.size());
  FirstBad first = FindAnywhere(state, parameters);
  auto name = [&](int64_t at) { return graph.value(parameters[static_cast<size_t>(at)]).name; };
  std::string where = "every weight and gradient is finite: look at the data";
  if (first.gradients < none) {
    where =
        fmt::format("the first gradient that is not finite is that of '{}'", name(first.gradients));
  }
  if (first.weights < none)
    where = fmt::format("the first weights that are not finite are '{}'", name(first.weights));
  if (step == 0)
    throw CommonRunError(fmt::format("the loss is {} before any update; {}", loss, where));
  throw CommonRunError(
      fmt::format("the loss is {} at step {}; {}; lower the learning rate (--lr {})", loss, step,
                  where, lr / 10));
}

}  // namespace heddle
