#include "runtime/parameters/packed_form.h"

#include "base/check.h"
#include "runtime/packing.h"

namespace heddle {

PackedForm::PackedForm(const GroupLayout& layout, const Mask* mask, at::Device on)
    : layout_(layout), index_(layout.slots.size()) {
  HEDDLE_CHECK(!layout.pruned || mask != nullptr, "pruned parameters without a mask");
  for (size_t s = 0; s < layout.slots.size(); ++s) {
    const SlotLayout& slot = layout.slots[s];
    if (slot.packed) {
      index_[s] = IndexOf(*mask, slot.name, slot.shape, slot.tile).to(on);
      HEDDLE_CHECK_EQ(index_[s].numel(), slot.elements);
    }
    covered_.push_back(CoveredBy(s));
  }
}

at::Tensor PackedForm::Pack(size_t slot, const at::Tensor& dense) const {
  return index_[slot].defined() ? Compress(dense, index_[slot]) : dense.reshape({-1});
}

void PackedForm::Unpack(const at::Tensor& kept, const at::Tensor& weights) const {
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    at::Tensor to = weights.narrow(0, slot.first, slot.weights);
    at::Tensor from = kept.narrow(0, slot.offset, slot.elements);
    if (index_[s].defined()) {
      ExpandInto(from, index_[s], to);
    } else {
      to.copy_(from);
    }
  }
}

at::Tensor PackedForm::Dense(size_t slot, const at::Tensor& kept) const {
  const SlotLayout& at = layout_.slots[slot];
  if (!index_[slot].defined()) return kept.view(at.local).clone();
  at::Tensor dense = at::zeros({at.weights}, kept.options());
  ExpandInto(kept, index_[slot], dense);
  return dense.view(at.local);
}

Block PackedForm::CoveredBy(size_t s) const {
  const SlotLayout& slot = layout_.slots[s];
  Block own = layout_.InChunk(slot);
  bool first = own.begin == 0 && layout_.chunk.begin <= slot.offset;
  if (!index_[s].defined() || (own.size() <= 0 && !(slot.elements == 0 && first))) return own;
  auto start = [&](int64_t kept) {
    return kept == slot.elements ? slot.weights : index_[s][kept].item<int64_t>();
  };
  return {first ? 0 : start(own.begin), start(own.end)};
}

}  // namespace heddle
