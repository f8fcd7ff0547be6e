// The optimizer state of a group on one device: fp32 master weights and moments of this device's chunk, on the device
// or, offloaded, on the host between updates.
//
//   OptimizerState state(layout, options, master, MasterKind::kOwn);
//   state.Update(reduced, factors);          // the chunk's gradient, as a reduction left it
//   state.Offload(device, host);             // from now on updates stand between Fetch and Evict:
//   state.Fetch(); state.Update(reduced, factors); state.Evict(); state.Release();
//
// Moments are one tensor for the chunk, or one per slot: gradients that nothing reduces are used slot by slot, as
// backward left them, without a flat copy. One object sees only one of both kinds of updates.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/host_rows.h"
#include "runtime/optimizer.h"
#include "runtime/parameters/group_layout.h"

namespace heddle {

enum class MasterKind : uint8_t {
  kOwn,     // a tensor of its own: what nodes read has another type or form
  kShared,  // the weights that nodes read, or this device's chunk of them
};

class OptimizerState {
 public:
  // `layout` outlives it. `master` are the fp32 weights of this device's chunk. Throws InputError for options that the
  // optimizer refuses.
  OptimizerState(const GroupLayout& layout, const OptimizerOptions& options, at::Tensor master,
                 MasterKind kind);

  const at::Tensor& master() const { return master_; }
  bool owns_master() const { return kind_ == MasterKind::kOwn; }

  // One step of the optimizer on the master weights. The host waits for nothing.
  void Update(const at::Tensor& chunk_gradient, const UpdateFactors& factors);
  // `gradients` are flat, in fp32, one per slot; the chunk is the whole.
  void UpdateBySlot(const std::vector<at::Tensor>& gradients, const UpdateFactors& factors);

  // Moves the state to the host. Master weights that are shared stay where they are.
  void Offload(at::Device on, const HostSide& host);
  bool offloaded() const { return rows_ != nullptr; }
  // Of state that is offloaded: it comes for an update, goes back, and its memory on the device is given up.
  void Fetch() { rows_->Fetch(); }
  void Evict();
  void Release() { rows_->Release(); }

  int64_t updates() const { return optimizer_.state().steps; }  // waits for the device
  // Goes on from so many updates with these moments of the chunk; undefined ones begin with zeros.
  void Restore(int64_t updates, const at::Tensor& first, const at::Tensor& second);
  // Some elements of a moment (0 or 1), counted as offsets of slots are, which lie in the slot; undefined where the
  // optimizer has no such moment yet.
  at::Tensor Moment(size_t moment, size_t slot, Block elements) const;
  std::vector<at::Tensor> Moments() const;  // all tensors that hold some

 private:
  void UseRows(const at::Tensor& rows);
  void KeepMomentsBySlot();

  const GroupLayout& layout_;
  Optimizer optimizer_;
  at::Tensor master_;
  MasterKind kind_;
  bool by_slot_ = false;  // moments are one tensor per slot
  std::unique_ptr<HostRows>
      rows_;  // offloaded: master weights, where they are its own, then moments
};

}  // namespace heddle
