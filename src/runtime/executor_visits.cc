// Steps in pieces: visits to the shards of a program that is spilled, between which the executor may leave its device.
#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "program/text.h"
#include "runtime/executor_internal.h"

namespace heddle {

std::pair<size_t, size_t> Executor::VisitRange(int visit) const {
  auto first = std::partition_point(run_.instructions.begin(), run_.instructions.end(),
                                    [&](const Instruction& i) { return i.visit < visit; });
  auto last = std::partition_point(first, run_.instructions.end(),
                                   [&](const Instruction& i) { return i.visit == visit; });
  return {static_cast<size_t>(first - run_.instructions.begin()),
          static_cast<size_t>(last - run_.instructions.begin())};
}

void Executor::Prefetch(int visit, AllocationMeter& meter) {
  AllocationMeter::Scope metered(meter);
  if (state_on_host_ && host_.fetches) BringAhead(touched_[static_cast<size_t>(visit)]);
  state_on_host_ = false;
  StreamScope streamed(stream_);
  auto [first, last] = VisitRange(visit);
  for (size_t i = first; i < last; ++i) {
    if (run_.instructions[i].op != Opcode::kFetch || fetched_[i]) continue;
    HEDDLE_CHECK(run_.instructions[i].frees.empty(), "what it frees is not evicted yet");
    Execute(i);
    fetched_[i] = 1;
  }
}

void Executor::RunVisit(int visit) {
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(stream_);
  charged_until_ = SteadySeconds();
  auto [first, last] = VisitRange(visit);
  RunInstructions(first, last);
  if (stream_) WaitFor(*stream_);
  for (size_t b : released_after_visit_) ReleaseFetched(run_.buffers[b]);
  released_after_visit_.clear();
  Charge(Opcode::kRun);
}

// What is fetched next may have the memory, and waits for who still uses it: where devices are shared only when nobody
// does, or what others fetch would wait as well.
void Executor::ReleaseFetched(const Buffer& buffer) {
  if (buffer.kind == BufferKind::kGathered) store(buffer.stage, buffer.index).ReleaseWhole();
  if (buffer.kind == BufferKind::kOptimizer) store(buffer.stage, buffer.index).ReleaseRows();
}

void Executor::ShareDevice() {
  MakeKeptMovable();
  for (auto& [key, held] : stores_) {
    size_t slots = stage(key.first).groups[static_cast<size_t>(key.second)].slots.size();
    for (size_t p = 0; p < slots; ++p)
      parameter_storages_.insert(held->leaf(p).storage().unsafeGetStorageImpl());
  }
  on_host_.assign(buffers_.size(), 0);
  host_copies_.resize(buffers_.size());
  touched_.resize(run_.visits.size());
  leaves_ = NewStream(options_.device);
  for (const Instruction& i : run_.instructions) {
    std::vector<size_t>& touched = touched_[static_cast<size_t>(i.visit)];
    for (const auto* list : {&i.reads, &i.adds, &i.writes}) {
      for (BufferId id : *list) {
        if (id.valid()) touched.push_back(id.index());
      }
    }
  }
  for (std::vector<size_t>& touched : touched_) {
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  }
  for (BufferId id : run_.persistent) {
    if (At(id).defined()) host_copies_[id.index()] = ToHost(At(id), host_.meter);
  }
  LeaveDevice();
}

void Executor::RunVisit(int visit, AllocationMeter& meter) {
  metered_ = &meter;
  state_on_host_ = false;
  {
    StreamScope streamed(stream_);
    brought_.Wait(options_.device);
    SendAway(touched_[static_cast<size_t>(visit)]);
    Bring(touched_[static_cast<size_t>(visit)]);
  }
  RunVisit(visit);
}

// The device may be at work for others, whom nobody waits for here: all of this was done when its last visit returned.
void Executor::LeaveDevice() {
  StreamScope streamed(leaves_);
  brought_.Wait(options_.device);
  std::vector<at::Tensor> leaving = SendAway({});
  Bring({});
  for (auto& [key, held] : stores_) held->LeaveFetched();
  if (leaves_) WaitFor(*leaves_);  // before the memory of what leaves goes
  state_on_host_ = true;
}

// Of what roams, what is made and kept once a step for all visits: it does not count for any device.
bool Executor::IsKeptAway(const Instruction& i) const {
  return !touched_.empty() && i.op == Opcode::kRun && i.microbatch < 0 && i.half == Half::kF;
}

// Buffers of an executor that is away, behind what its device does for others: their memory is that of another stream.
void Executor::BringAhead(const std::vector<size_t>& wanted) {
  StreamScope copying(host_.fetches);
  at::NoGradGuard no_grad;
  auto bring = [&](const at::Tensor& host) {
    at::Tensor there = FromHost(host, options_.device);
    there.record_stream(*stream_);
    return there;
  };
  for (size_t b : wanted) {
    if (!buffers_[b].defined() || !on_host_[b]) continue;
    buffers_[b] = bring(buffers_[b]);
    on_host_[b] = 0;
  }
  MoveSaved(false, wanted, bring);
  brought_.Set(host_.fetches);
}

// Buffers that are not in that list go to the host; returns them as they were, which the current stream still reads.
std::vector<at::Tensor> Executor::SendAway(const std::vector<size_t>& wanted) {
  HEDDLE_CHECK(pending_.empty(), "an executor that waits for {} transfers cannot leave its device",
               pending_.size());
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> leaving;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].defined() || on_host_[b] ||
        std::binary_search(wanted.begin(), wanted.end(), b))
      continue;
    leaving.push_back(buffers_[b]);
    buffers_[b] = host_copies_[b].defined() ? host_copies_[b] : ToHost(buffers_[b], host_.meter);
    on_host_[b] = 1;
  }
  std::vector<at::Tensor> kept =
      MoveSaved(true, wanted, [&](const at::Tensor& there) { return ToHost(there, host_.meter); });
  leaving.insert(leaving.end(), kept.begin(), kept.end());
  return leaving;
}

// What autograd keeps of segments: to the host, or of those in the list from it. What is computed once a step from parameters
// alone stays. Returns it as it was.
template <typename Copy>
std::vector<at::Tensor> Executor::MoveSaved(bool to_host, const std::vector<size_t>& wanted,
                                            const Copy& copy) {
  TensorMover mover(copy, parameter_storages_);
  for (auto& [b, saved] : saved_) {
    bool here = std::binary_search(wanted.begin(), wanted.end(), b);
    if (run_.buffers[b].microbatch < 0 || saved.on_host == to_host || here == to_host) continue;
    for (const auto& kept : saved.kept) mover.Move(kept);
    saved.on_host = to_host;
  }
  return mover.TakeMoved();
}

// Buffers of that list come to the device, and of groups what belongs to them and nothing else.
void Executor::Bring(const std::vector<size_t>& wanted) {
  at::NoGradGuard no_grad;
  // Of groups: whether weights and gradients are wanted.
  std::map<std::pair<int, int>, std::pair<bool, bool>> groups;
  for (size_t b : wanted) {
    const Buffer& buffer = run_.buffers[b];
    auto& group = groups[{buffer.stage, buffer.index}];
    group.first |= buffer.kind == BufferKind::kWeights || buffer.kind == BufferKind::kGathered;
    group.second |= buffer.kind == BufferKind::kWeightGradients;
  }
  AllocationMeter::Scope counted(*metered_);
  for (auto& [key, held] : stores_) {
    auto found = groups.find(key);
    bool any = found != groups.end();
    held->Place(any && found->second.first, any && found->second.second);
    if (any && found->second.first) held->ReturnFetched();
  }
  auto bring = [&](const at::Tensor& host) { return FromHost(host, options_.device); };
  for (size_t b : wanted) {
    if (!buffers_[b].defined() || !on_host_[b]) continue;
    buffers_[b] = bring(buffers_[b]);
    on_host_[b] = 0;
  }
  MoveSaved(false, wanted, bring);
}

}  // namespace heddle
