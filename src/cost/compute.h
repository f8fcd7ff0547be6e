// How long kernels take on a device.
//
//   product     flops / (peak rate x products x Occupancy): Occupancy is what is left of the rate once the result
//               is cut into tiles that fill the processors in whole waves, for the best of a few tile shapes, and
//               the sum over k has started up; or its bytes / bandwidth, if that is longer
//   attention   flops / (peak rate x attention), or its bytes / bandwidth
//   traffic     bytes / (memory bandwidth x traffic)
// and for each a launch. Where the device was calibrated (cluster/measured_times.h), what was measured instead:
//
//   product     flops / the rate measured at m x n x k, and a launch; of a convolution by its flops
//   attention   flops / the rate measured at that many positions and that width
//   traffic     the time of that half of that op, by the bytes it moves; of an op that was not measured that of a Mul
#pragma once

#include <optional>
#include <string_view>

#include "cost/constants.h"
#include "cost/kernel.h"

namespace heddle {

// The share of a device's processors that a product keeps busy; at most 1.
double Occupancy(const Kernel& product, int processors);

class ComputeCost {
 public:
  // `slow`: everything takes this many times as long. Throws InputError where the device has no rate for what
  // precision computes in.
  ComputeCost(const DeviceType& device, const DeviceConstants& constants, const StackCosts& stack,
              const Precision& precision, double slow = 1);

  Terms Of(const Kernel& kernel) const;
  // One that another has in it already: it moves its bytes and is not launched.
  Terms Joined(const Kernel& kernel) const;
  Terms Traffic(double bytes) const;                                // a kernel that moves this much
  Terms Update(double elements, const Precision& precision) const;  // of the optimizer, Adam
  Terms HostCopy(double bytes) const;  // to or from the memory of the machine; pinned
  Terms Host() const;                  // of a forward or backward of a micro-batch
  // Where they were measured, otherwise in Host: a call of autograd, and a node that only looks at memory.
  Terms Autograd() const;
  Terms Report() const;  // of a step: bringing inputs, starting it, reading the loss
  Terms View() const;
  // Of a transfer on one machine; nothing where that was not measured. `kind` as in
  // LoadTimes::transfers.
  std::optional<double> Transfer(std::string_view kind, double bytes) const;

  const StackCosts& stack() const { return stack_; }
  bool calibrated() const { return constants_.measured != nullptr; }

 private:
  double RateOf(DType dtype, bool fp8) const;
  Terms Measured(const Kernel& kernel) const;
  const KernelTimes& TimesOf(DType dtype) const;

  DeviceType device_;
  DeviceConstants constants_;
  StackCosts stack_;
  Precision precision_;
  double slow_;
};

}  // namespace heddle
