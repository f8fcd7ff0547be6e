// In what form the numbers of a group are held: dense, as nodes read weights and give gradients, or packed, only what
// is kept of pruned parameters one after the other, as gradients, optimizer state and messages hold them.
//
//   PackedForm form(layout, mask, device);
//   form.Pack(slot, dense)           // flat, what is kept of a slot
//   form.Unpack(kept, weights)       // all slots, into the dense weights; elements that are not kept stay as they are
//
// Without pruned parameters both forms are the same, and these functions copy or return views. Nothing here makes the
// host wait for the device, except the constructor.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "plan/pruning.h"
#include "runtime/parameters/group_layout.h"

namespace heddle {

class PackedForm {
 public:
  // `layout` outlives it. `mask` may be null where nothing is pruned.
  PackedForm(const GroupLayout& layout, const Mask* mask, at::Device on);

  // Where the kept weights of a slot are, counted from its first weight; undefined where all are kept.
  const at::Tensor& index(size_t slot) const { return index_[slot]; }
  const std::vector<at::Tensor>& indices() const { return index_; }
  // The same numbers on another device: of groups whose weights go to the host.
  void MoveIndex(size_t slot, at::Tensor index) { index_[slot] = std::move(index); }

  // Flat: what is kept of the dense numbers of a slot, in any shape.
  at::Tensor Pack(size_t slot, const at::Tensor& dense) const;
  // Writes what is kept of all slots, `kept_elements` numbers, to its places in the dense weights.
  void Unpack(const at::Tensor& kept, const at::Tensor& weights) const;
  // The dense tensor of one slot, in the slot's shape, with zeros where nothing is kept. A copy.
  at::Tensor Dense(size_t slot, const at::Tensor& kept) const;

  // Of a slot's dense weights, those that this device's chunk answers for: a chunk of kept weights answers for all
  // weights from its first one to the first one of the next chunk.
  const Block& covered(size_t slot) const { return covered_[slot]; }

 private:
  Block CoveredBy(size_t slot) const;

  const GroupLayout& layout_;
  std::vector<at::Tensor> index_;
  std::vector<Block> covered_;
};

}  // namespace heddle
