#include "runtime/parameters/gradient_accumulator.h"

#include <algorithm>

#include "runtime/accelerator.h"
#include "runtime/host_tensors.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

// Longer dot products in fp32 lose digits: pieces of this length are added up in f64.
constexpr int64_t kLongestDot = int64_t{1} << 24;

void AddSquares(at::Tensor& sum, const at::Tensor& flat) {
  for (int64_t at = 0; at < flat.numel(); at += kLongestDot) {
    at::Tensor part = flat.narrow(0, at, std::min(kLongestDot, flat.numel() - at));
    sum.add_(part.dot(part));
  }
}

}  // namespace

GradientAccumulator::GradientAccumulator(const GroupLayout& layout, const PackedForm& form,
                                         at::Device on)
    : layout_(layout),
      form_(form),
      device_(on),
      added_(layout.slots.size()),
      owned_(layout.slots.size(), false) {}

void GradientAccumulator::Add(size_t slot, const at::Tensor& dense) {
  at::Tensor& held = added_[slot];
  at::Tensor gradient = form_.index(slot).defined() ? form_.Pack(slot, dense) : dense;
  if (!held.defined()) {
    held = gradient;
    owned_[slot] = false;  // autograd may have given the same tensor to others
  } else if (owned_[slot]) {
    held.add_(gradient);
  } else {
    held = held.to(at::kFloat) + gradient;
    owned_[slot] = true;
  }
}

void GradientAccumulator::Drop() { std::fill(added_.begin(), added_.end(), at::Tensor()); }

at::Tensor GradientAccumulator::TakeFlat() {
  at::Tensor flat =
      at::empty({layout_.kept_elements}, at::TensorOptions(at::kFloat).device(device_));
  std::vector<at::Tensor> to, from;
  int64_t end = 0;
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    at::Tensor part = flat.narrow(0, slot.offset, slot.elements);
    if (!form_.index(s).defined()) part = part.view(slot.local);
    end = slot.offset + slot.elements;
    if (!added_[s].defined()) {
      part.zero_();
      continue;
    }
    to.push_back(part);
    from.push_back(std::move(added_[s]));
    added_[s].reset();
  }
  CopyEach(to, from);
  if (end < layout_.kept_elements) flat.narrow(0, end, layout_.kept_elements - end).zero_();
  return flat;
}

std::vector<at::Tensor> GradientAccumulator::TakeBySlot() {
  std::vector<at::Tensor> gradients;
  for (size_t s = 0; s < added_.size(); ++s) {
    gradients.push_back(added_[s].defined()
                            ? added_[s].reshape({-1}).to(at::kFloat)
                            : at::zeros({layout_.slots[s].elements},
                                        at::TensorOptions(at::kFloat).device(device_)));
    added_[s].reset();
  }
  return gradients;
}

at::Tensor GradientAccumulator::SquaredNorm() const {
  at::Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    if (!layout_.slots[s].counts || !added_[s].defined()) continue;
    AddSquares(sum, added_[s].reshape({-1}).to(at::kFloat));
  }
  return sum;
}

bool GradientAccumulator::IsFinite(size_t slot) const {
  return !added_[slot].defined() || at::isfinite(added_[slot]).all().item<bool>();
}

void GradientAccumulator::Place(bool on_device, const AllocationMeter& meter) {
  if (on_device == on_device_) return;
  on_device_ = on_device;
  std::vector<at::Tensor> leaving = added_;  // until they are copied
  for (at::Tensor& gradient : added_) {
    if (!gradient.defined()) continue;
    gradient = on_device ? FromHost(gradient, device_) : ToHost(gradient, meter);
  }
  // The current stream need not be the one that the memory was taken for.
  if (!on_device && !device_.is_cpu()) WaitFor(CurrentStream(device_));
}

at::Tensor SquaredNorm(const GroupLayout& layout, const at::Tensor& reduced, at::Device on) {
  at::Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(on));
  const std::vector<SlotLayout>& slots = layout.slots;
  for (size_t s = 0; s < slots.size();) {
    // Neighbours that count alike are one product.
    size_t next = s + 1;
    while (next < slots.size() && slots[next].counts == slots[s].counts) ++next;
    int64_t from = std::max(slots[s].offset, layout.chunk.begin);
    int64_t to = std::min(slots[next - 1].offset + slots[next - 1].elements, layout.chunk.end);
    if (slots[s].counts && from < to)
      AddSquares(sum, reduced.narrow(0, from - layout.chunk.begin, to - from));
    s = next;
  }
  return sum;
}

bool IsFinite(const GroupLayout& layout, size_t slot, const at::Tensor& flat) {
  const SlotLayout& at = layout.slots[slot];
  int64_t start = layout.StartOf(flat.numel());
  int64_t from = std::max(at.offset, start);
  int64_t to = std::min(at.offset + at.elements, start + flat.numel());
  return from >= to || at::isfinite(flat.narrow(0, from - start, to - from)).all().item<bool>();
}

}  // namespace heddle
