// Steps in pieces: visits to the shards of a program that is spilled, between which the executor may leave its device.
#include <algorithm>

#include "base/check.h"
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
  StreamScope streamed(stream_);
  fetched_.resize(run_.instructions.size(), false);
  auto [first, last] = VisitRange(visit);
  for (size_t i = first; i < last; ++i) {
    if (run_.instructions[i].op != Opcode::kFetch || fetched_[i]) continue;
    Execute(i);
    fetched_[i] = true;
  }
}

void Executor::RunVisit(int visit) {
  HEDDLE_CHECK(!away_, "a visit of an executor that has left its device");
  AllocationMeter::Scope metered(*metered_);
  StreamScope streamed(stream_);
  charged_until_ = MonotonicSeconds();
  auto [first, last] = VisitRange(visit);
  RunInstructions(first, last);
  if (stream_) WaitFor(*stream_);
  Charge(Opcode::kRun);
}

void Executor::Vacate() {
  HEDDLE_CHECK(!away_, "an executor that is to leave its device twice");
  HEDDLE_CHECK(saved_.empty() && pending_.empty(),
               "an executor that keeps {} segments for backward, or waits for {} transfers, cannot leave its device",
               saved_.size(), pending_.size());
  away_ = true;
  StreamScope streamed(stream_);
  at::NoGradGuard no_grad;
  AllocationMeter::Scope counted(host_.meter);
  for (at::Tensor& buffer : buffers_) {
    if (buffer.defined()) buffer = ToHost(buffer);
  }
  for (auto& [key, held] : stores_) held->Vacate();
  if (stream_) WaitFor(*stream_);
}

void Executor::Return(AllocationMeter& meter) {
  HEDDLE_CHECK(away_, "an executor that has not left its device");
  away_ = false;
  metered_ = &meter;
  AllocationMeter::Scope counted(*metered_);
  StreamScope streamed(stream_);
  at::NoGradGuard no_grad;
  for (at::Tensor& buffer : buffers_) {
    if (buffer.defined()) buffer = FromHost(buffer, options_.device);
  }
  for (auto& [key, held] : stores_) held->Return();
}

}  // namespace heddle
