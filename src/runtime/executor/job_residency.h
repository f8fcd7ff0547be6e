// What a job of a fleet has on its device while it shares it with others, and how it moves: between two visits to
// shards nothing of it need be there.
//
//   JobResidency residency(state, handlers);        // everything goes to the host
//   residency.BringAhead(visit);                    // while another job runs: copies start
//   residency.Arrive(visit, meter);                 // on the current stream: what the visit touches is here, nothing else
//   residency.Leave(meter);                         // everything goes to the host
//
// Moved are buffers, what autograd keeps for backward, weights that are not spilled and gradients. Spilled weights
// that are on the device are given up, and fetched again when they are needed.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <optional>
#include <set>
#include <vector>

#include "runtime/accelerator.h"
#include "runtime/allocation_meter.h"
#include "runtime/executor/device_state.h"
#include "runtime/executor/segment_handlers.h"

namespace heddle {

class JobResidency {
 public:
  // Both outlive it. No transfer may be in flight in any of the calls below.
  JobResidency(DeviceState& state, SegmentHandlers& segments);

  // Starts the copies of what a visit touches, on the stream of fetches. Does nothing for a job that is on its device,
  // or where there are no streams. Another thread may call it while no visit of this job runs.
  void BringAhead(VisitId visit);
  // What is made counts for `meter`.
  void Arrive(VisitId visit, const AllocationMeter& meter);
  // The host waits for these copies alone: the device may be at work for others.
  void Leave(const AllocationMeter& meter);

 private:
  using BufferList = std::vector<BufferId>;  // ascending
  void FindTouched();
  std::vector<at::Tensor> SendAway(const BufferList& wanted);
  void Bring(const BufferList& wanted, const AllocationMeter& meter);
  void PlaceGroups(const BufferList& wanted);
  template <typename Copy>
  void BringBuffers(const BufferList& wanted, const Copy& copy);
  template <typename Copy>
  std::vector<at::Tensor> MoveSaved(bool to_host, const BufferList& wanted, const Copy& copy);

  DeviceState& state_;
  SegmentHandlers& segments_;
  IdVector<VisitId, BufferList> touched_;
  IdVector<BufferId, char> on_host_;            // which buffers are there
  IdVector<BufferId, at::Tensor> host_copies_;  // of buffers that never change
  std::set<const c10::StorageImpl*> parameter_storages_;
  std::optional<c10::Stream> leaves_;  // of copies to the host when the job leaves its device
  StreamMark brought_;                 // behind what came ahead of its visit
  std::atomic<bool> away_ = false;
};

}  // namespace heddle
