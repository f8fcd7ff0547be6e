// The weights of a group that is spilled: they live on the host, in the form that is kept, and visit the device for
// passes that read them.
//
//   SpilledWeights weights(layout, form, flat, host);   // copies `flat` to the host and gives up its memory
//   weights.Fetch();          // starts on the stream of fetches; `flat` has memory again
//   weights.Arrived();        // the current stream goes on when they are there
//   weights.Evict();          // starts on the stream of evictions once the current stream has passed
//   weights.Release();        // the memory of `flat` is given up
//
// Copies to the device are on one stream, copies from it on another. Three rules keep them in order:
//
//   - an eviction begins once the current stream has passed, which updated what it reads
//   - a fetch waits for the last eviction of the same weights: the numbers on the host are whole then
//   - memory on the device belongs to the stream of fetches. It goes back once that stream has been told to wait for all
//     that still reads it: the current stream and the eviction. The program says when
//
// The host waits for none of it after construction. On the CPU, where there are no streams, each call is done when it
// returns.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/accelerator.h"
#include "runtime/host_tensors.h"
#include "runtime/parameters/group_layout.h"
#include "runtime/parameters/packed_form.h"

namespace heddle {

class SpilledWeights {
 public:
  // `flat` are the dense weights on the device. Layout, form and host outlive it. The indices of pruned parameters go
  // to the host and come with the weights: `form` has them where they are.
  SpilledWeights(const GroupLayout& layout, PackedForm& form, const at::Tensor& flat,
                 const HostSide& host);

  const at::Tensor& on_host() const { return kept_; }
  void Fetch();
  void Arrived() { arrived_.Wait(flat_.device()); }
  void Evict();
  void Release();

  // Of a job that leaves its device between passes: weights that are there are given up, and fetched again.
  void LeaveFetched();
  void ReturnFetched();

 private:
  const GroupLayout& layout_;
  PackedForm& form_;
  at::Tensor flat_;
  const HostSide& host_;
  HostShare share_;
  at::Tensor kept_;  // on the host: all weights, or those that are kept of pruned ones
  std::vector<at::Tensor> index_;  // on the host, per slot, of pruned parameters
  StreamMark arrived_, evicted_;   // behind the last fetch, and the last eviction
  bool returns_ = false;           // LeaveFetched gave up weights
};

}  // namespace heddle
