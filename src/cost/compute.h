// How long kernels take on a device.
//
//   product     flops / (peak rate x products x Occupancy), or bytes / bandwidth if that is longer. Occupancy is the
//               fraction of the rate that is left after the result is cut into tiles that occupy the processors in
//               whole waves, for the best of a few tile shapes, and after the start of the sum over k
//   attention   flops / (peak rate x attention), or bytes / bandwidth if that is longer
//   traffic     bytes / (memory bandwidth x traffic)
//
// and one launch for each. Where the device was calibrated (cluster/measured_times.h), measured times are used instead:
//
//   product     flops / the rate measured at m x n x k, and a launch; a convolution by its flops
//   attention   flops / the rate measured at that number of positions and that width
//   traffic     the time of that half of that op, by the bytes it moves; an op that was not measured takes the time of
//               a Mul
#pragma once

#include <optional>
#include <string_view>

#include "cost/constants.h"
#include "cost/kernel.h"

namespace heddle {

// The fraction of a device's processors that a product keeps busy; at most 1.
double Occupancy(const Kernel& product, int processors);

class ComputeCost {
 public:
  // Every time is multiplied by `slow`. Throws an InputError where the device has no rate for the compute type of
  // `precision`.
  ComputeCost(const DeviceType& device, const DeviceConstants& constants, const StackCosts& stack,
              const Precision& precision, double slow = 1);

  Terms Of(const Kernel& kernel) const;
  // A kernel that is fused into another: it moves its bytes, but is not launched.
  Terms Joined(const Kernel& kernel) const;
  // A kernel that moves this many bytes.
  Terms Traffic(double bytes) const;
  Terms Update(double elements, const Precision& precision) const;  // the optimizer step, Adam
  Terms HostCopy(double bytes) const;  // a copy to or from pinned memory of the machine
  Terms Host() const;                  // overhead of a forward or backward of a micro-batch
  // These overheads are separate where they were measured and part of Host otherwise: a call of autograd, and a node
  // that only makes a view of memory.
  Terms Autograd() const;
  Terms Report() const;  // overhead of a step: copying inputs, starting the step, reading the loss
  Terms View() const;
  // The time of a transfer inside one machine; empty where it was not measured. `kind` is a key of
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
