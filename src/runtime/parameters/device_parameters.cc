#include "runtime/parameters/device_parameters.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "runtime/accelerator.h"
#include "runtime/tensor.h"

namespace heddle {

DeviceParameters::DeviceParameters(const Program& program, int64_t device, at::Device on,
                                   const OptimizerOptions& optimizer, const WeightSource& weights,
                                   const HostPlace& place, const Mask* mask) {
  host_.fetches = place.fetches;
  host_.evictions = place.evictions;
  host_.budget = place.budget;
  StoreInputs inputs{program, device, on, optimizer, weights, host_, mask};
  for (StageId stage : program.RunOf(device).stages) {
    for (ParameterGroupId group : program.stages[stage].groups.ids()) {
      stores_.emplace(std::piecewise_construct, std::tuple(stage, group),
                      std::tuple(std::cref(inputs), stage, group));
    }
  }
}

void DeviceParameters::WaitForCopies() const {
  if (host_.fetches) WaitFor(*host_.fetches);
  if (host_.evictions) WaitFor(*host_.evictions);
}

StateBytes DeviceParameters::Memory() const {
  StateBytes sum;
  for (const auto& [key, store] : stores_) sum += store.Memory();
  return sum;
}

std::vector<StatePart> DeviceParameters::State(int64_t& updates) const {
  WaitForCopies();
  updates = 0;
  std::vector<StatePart> parts;
  for (const auto& [key, store] : stores_) {
    for (StatePart& part : store.State()) parts.push_back(std::move(part));
    updates = std::max(updates, store.updates());
  }
  return parts;
}

void DeviceParameters::Restore(CheckpointReader& from, int64_t updates,
                               const std::string& optimizer) {
  const Json& run = from.manifest().run;
  const Json::json_pointer pointer("/optimizer/name");
  const Json saved = run.contains(pointer) ? run.at(pointer) : Json(optimizer);
  // The moments of Adam and AdamW are the same.
  if (saved.is_string() && MomentsOf(saved.get<std::string>()) != MomentsOf(optimizer)) {
    for (auto& [key, store] : stores_) store.Restore(0, nullptr, nullptr);
    return;
  }
  auto source = [&](StateKind kind, bool needed) -> WeightSource {
    if (!needed) return nullptr;
    return [&from, kind, &optimizer](const std::string& parameter) {
      std::optional<HostTensor> whole = from.Whole(kind, parameter);
      if (!whole) {
        ThrowInput("{}: it was trained by another optimizer: no {} moments of '{}', which {} needs",
                   from.path(), kStateNames[static_cast<size_t>(kind)], parameter, optimizer);
      }
      return ToTorchTensor(*whole);
    };
  };
  for (auto& [key, store] : stores_) {
    store.Restore(updates, source(StateKind::kFirst, MomentsOf(optimizer) >= 1),
                  source(StateKind::kSecond, MomentsOf(optimizer) == 2));
  }
}

}  // namespace heddle
