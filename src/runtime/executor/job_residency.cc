#include "runtime/executor/job_residency.h"

#include <algorithm>
#include <map>
#include <utility>

namespace heddle {
namespace {

bool IsIn(const std::vector<BufferId>& ascending, BufferId id) {
  return std::binary_search(ascending.begin(), ascending.end(), id);
}

}  // namespace

JobResidency::JobResidency(DeviceState& state, SegmentHandlers& segments)
    : state_(state),
      segments_(segments),
      touched_(state.run.visits.size()),
      on_host_(state.buffers.size(), 0),
      host_copies_(state.buffers.size()),
      leaves_(NewStream(state.on)) {
  MakeKeptMovable();
  state_.shares_device = true;
  for (const auto& [key, store] : state.parameters->stores()) {
    for (size_t p = 0; p < store.group().slots.size(); ++p)
      parameter_storages_.insert(store.leaf(p).storage().unsafeGetStorageImpl());
  }
  FindTouched();
  for (BufferId id : state.run.persistent) {
    if (state.buffers[id].defined())
      host_copies_[id] = ToHost(state.buffers[id], state.parameters->host().meter);
  }
}

void JobResidency::FindTouched() {
  for (const Instruction& i : state_.run.instructions) {
    for (const auto* list : {&i.reads, &i.adds, &i.writes}) {
      for (BufferId id : *list) {
        if (id.valid()) touched_[i.visit].push_back(id);
      }
    }
  }
  for (BufferList& touched : touched_) {
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  }
}

void JobResidency::BringAhead(VisitId visit) {
  const std::optional<c10::Stream>& fetches = state_.parameters->host().fetches;
  if (away_ && fetches) {
    StreamScope copying(fetches);
    at::NoGradGuard no_grad;
    // Behind what the device does for others: this memory is that of another stream.
    auto bring = [&](const at::Tensor& host) {
      at::Tensor there = FromHost(host, state_.on);
      there.record_stream(*state_.stream);
      return there;
    };
    BringBuffers(touched_[visit], bring);
    MoveSaved(false, touched_[visit], bring);
    brought_.Set(fetches);
  }
  away_ = false;
}

void JobResidency::Arrive(VisitId visit, const AllocationMeter& meter) {
  away_ = false;
  brought_.Wait(state_.on);
  SendAway(touched_[visit]);
  Bring(touched_[visit], meter);
}

void JobResidency::Leave(const AllocationMeter& meter) {
  // All of the job's own work was done when its last visit returned.
  StreamScope streamed(leaves_);
  brought_.Wait(state_.on);
  std::vector<at::Tensor> leaving = SendAway({});
  Bring({}, meter);
  for (auto& [key, store] : state_.parameters->stores()) {
    if (store.group().spilled) store.spilled().LeaveFetched();
  }
  if (leaves_) WaitFor(*leaves_);  // before the memory of what leaves goes
  away_ = true;
}

// Buffers that are not in the list go to the host; returns them as they were, which the current stream still reads.
std::vector<at::Tensor> JobResidency::SendAway(const BufferList& wanted) {
  at::NoGradGuard no_grad;
  const AllocationMeter& meter = state_.parameters->host().meter;
  std::vector<at::Tensor> leaving;
  for (BufferId id : state_.buffers.ids()) {
    at::Tensor& tensor = state_.buffers[id];
    if (!tensor.defined() || on_host_[id] || IsIn(wanted, id)) continue;
    leaving.push_back(tensor);
    tensor = host_copies_[id].defined() ? host_copies_[id] : ToHost(tensor, meter);
    on_host_[id] = 1;
  }
  std::vector<at::Tensor> kept =
      MoveSaved(true, wanted, [&](const at::Tensor& there) { return ToHost(there, meter); });
  leaving.insert(leaving.end(), kept.begin(), kept.end());
  return leaving;
}

// Buffers of the list come to the device, and of groups what belongs to them and nothing else.
void JobResidency::Bring(const BufferList& wanted, const AllocationMeter& meter) {
  at::NoGradGuard no_grad;
  AllocationMeter::Scope counted(meter);
  PlaceGroups(wanted);
  auto bring = [&](const at::Tensor& host) { return FromHost(host, state_.on); };
  BringBuffers(wanted, bring);
  MoveSaved(false, wanted, bring);
}

void JobResidency::PlaceGroups(const BufferList& wanted) {
  struct Wanted {
    bool weights = false, gradients = false;
  };
  std::map<DeviceParameters::Key, Wanted> groups;
  for (BufferId id : wanted) {
    const Buffer& buffer = state_.run.buffers[id];
    bool weights = buffer.kind == BufferKind::kWeights || buffer.kind == BufferKind::kGathered;
    bool gradients = buffer.kind == BufferKind::kWeightGradients;
    if (!weights && !gradients) continue;
    Wanted& group = groups[{buffer.stage, buffer.group()}];
    group.weights |= weights;
    group.gradients |= gradients;
  }
  for (auto& [key, store] : state_.parameters->stores()) {
    auto found = groups.find(key);
    Wanted here = found != groups.end() ? found->second : Wanted();
    store.Place(here.weights, here.gradients);
    if (here.weights && store.group().spilled) store.spilled().ReturnFetched();
  }
}

template <typename Copy>
void JobResidency::BringBuffers(const BufferList& wanted, const Copy& copy) {
  for (BufferId id : wanted) {
    at::Tensor& tensor = state_.buffers[id];
    if (!tensor.defined() || !on_host_[id]) continue;
    tensor = copy(tensor);
    on_host_[id] = 0;
  }
}

// What autograd keeps of segments: to the host, or of those in the list from it. What is computed once a step from
// parameters alone stays. Returns it as it was.
template <typename Copy>
std::vector<at::Tensor> JobResidency::MoveSaved(bool to_host, const BufferList& wanted,
                                                const Copy& copy) {
  TensorMover mover(copy, parameter_storages_);
  for (auto& [id, saved] : segments_.saved()) {
    bool here = IsIn(wanted, id);
    if (state_.run.buffers[id].microbatch < 0 || saved.on_host == to_host || here == to_host)
      continue;
    for (const auto& kept : saved.kept) mover.Move(kept);
    saved.on_host = to_host;
  }
  return mover.TakeMoved();
}

}  // namespace heddle
