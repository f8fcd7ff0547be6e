// The gradients of a group's parameters, from the first one that backward gives to the one tensor that is reduced.
//
//   GradientAccumulator gradients(layout, form, device);
//   gradients.Add(slot, gradient);          // any number of times, per micro-batch and reader
//   at::Tensor flat = gradients.TakeFlat(); // fp32, for a reduction; the accumulator is empty again
//
// A single gradient is kept as autograd gave it, which may be in the type of compute and shared with others; the
// second one of a slot makes a sum of its own in fp32. Gradients of pruned parameters are packed when they are added.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/allocation_meter.h"
#include "runtime/parameters/group_layout.h"
#include "runtime/parameters/packed_form.h"

namespace heddle {

class GradientAccumulator {
 public:
  // Both outlive it.
  GradientAccumulator(const GroupLayout& layout, const PackedForm& form, at::Device on);

  void Add(size_t slot, const at::Tensor& dense);
  void Drop();

  // Everything added since the last call, in one flat tensor of `kept_elements`; zeros in slots that nothing was added
  // to.
  at::Tensor TakeFlat();
  // The same as one flat fp32 tensor per slot, without a copy where a gradient is fp32 already.
  std::vector<at::Tensor> TakeBySlot();

  // What was added and not taken yet, per slot; undefined: nothing.
  const std::vector<at::Tensor>& added() const { return added_; }
  // The sum of squares of what was added, of those slots that this device counts: an f64 tensor of one number, on the
  // device.
  at::Tensor SquaredNorm() const;
  bool IsFinite(size_t slot) const;  // waits for the device

  // Moves what was added to the device or to the host, where `meter` counts it. Waits for copies to the host.
  void Place(bool on_device, const AllocationMeter& meter);

 private:
  const GroupLayout& layout_;
  const PackedForm& form_;
  at::Device device_;
  std::vector<at::Tensor> added_;
  std::vector<bool>
      owned_;  // per slot: `added_` is a tensor of our own that may be added to in place
  bool on_device_ = true;
};

// The same of a reduced gradient, which is the whole or this device's chunk: of those elements that this device
// counts.
at::Tensor SquaredNorm(const GroupLayout& layout, const at::Tensor& reduced, at::Device on);
// Is what a flat tensor (the whole, or this device's chunk) holds of a slot finite? Waits for the device.
bool IsFinite(const GroupLayout& layout, size_t slot, const at::Tensor& flat);

}  // namespace heddle
