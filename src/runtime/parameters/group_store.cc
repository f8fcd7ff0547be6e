#include "runtime/parameters/group_store.h"

#include "base/check.h"
#include "runtime/accelerator.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tiles.h"
#include "runtime/torch_compat.h"

namespace heddle {

GroupStore::GroupStore(const StoreInputs& inputs, StageId stage, ParameterGroupId group)
    : group_(inputs.program.stages[stage].groups[group]),
      layout_(LayoutOf(inputs.program, stage, group, inputs.device)),
      form_(layout_, inputs.mask, inputs.on),
      gradients_(layout_, form_, inputs.on),
      compute_(ToTorch(inputs.program.precision.compute)),
      host_(inputs.host) {
  MakeWeights(inputs);
  for (const SlotLayout& slot : layout_.slots) {
    at::Tensor leaf = flat_.narrow(0, slot.first, slot.weights).view(slot.local).detach();
    if (group_.trained) leaf.set_requires_grad(true);
    leaves_.push_back(leaf);
  }
  if (group_.zero == 3) ReleaseWhole();
  if (group_.spilled) spilled_ = std::make_unique<SpilledWeights>(layout_, form_, flat_, host_);
  if (group_.offloaded) optimizer_->Offload(inputs.on, host_);
}

// What is kept of all slots, in fp32, flat.
at::Tensor GroupStore::ReadWeights(const StoreInputs& inputs) const {
  at::Tensor kept =
      at::zeros({layout_.kept_elements}, at::TensorOptions(at::kFloat).device(inputs.on));
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    at::Tensor part = TakeTile(inputs.weights(slot.name), slot.tile).reshape({-1}).to(inputs.on);
    kept.narrow(0, slot.offset, slot.elements).copy_(form_.Pack(s, part));
  }
  return kept;
}

void GroupStore::MakeWeights(const StoreInputs& inputs) {
  at::Tensor kept = ReadWeights(inputs);
  if (layout_.pruned) {
    flat_ = at::zeros({layout_.flat_elements}, kept.options().dtype(compute_));
    form_.Unpack(kept, flat_);
  } else {
    flat_ = kept.to(compute_);
  }
  const Block& chunk = layout_.chunk;
  at::Tensor master = kept.narrow(0, chunk.begin, chunk.size());
  if (group_.zero == 3) shard_ = master.to(compute_, /*non_blocking=*/false, /*copy=*/true);
  bool shared = compute_ == at::kFloat && (!layout_.pruned || group_.zero == 3);
  if (!shared) {
    master = master.clone();
  } else {
    master = group_.zero == 3 ? shard_ : flat_.narrow(0, chunk.begin, chunk.size());
  }
  optimizer_ = std::make_unique<OptimizerState>(layout_, inputs.optimizer, std::move(master),
                                                shared ? MasterKind::kShared : MasterKind::kOwn);
}

void GroupStore::Update(const at::Tensor& reduced, const UpdateFactors& factors) {
  optimizer_->Update(reduced, factors);
  WeightsFromMaster();
}

void GroupStore::UpdateFromAdded(const UpdateFactors& factors) {
  optimizer_->UpdateBySlot(gradients_.TakeBySlot(), factors);
  WeightsFromMaster();
}

// After an update: the weights of this device's chunk. Other chunks come by a gather.
void GroupStore::WeightsFromMaster() {
  if (!optimizer_->owns_master()) return;
  at::NoGradGuard no_grad;
  const at::Tensor& master = optimizer_->master();
  const Block& chunk = layout_.chunk;
  if (group_.zero == 3) {
    shard_.copy_(master);
  } else if (!layout_.pruned) {
    flat_.narrow(0, chunk.begin, chunk.size()).copy_(master);
  } else if (group_.zero == 0 && chunk.size() > 0) {
    form_.Unpack(master, flat_.variable_data());
  }
}

at::Tensor GroupStore::Chunk() const {
  if (group_.zero == 3) return shard_;
  if (layout_.pruned) return optimizer_->master().to(compute_);
  return flat_.narrow(0, layout_.chunk.begin, layout_.chunk.size()).clone();
}

at::Tensor GroupStore::WholeToFill() {
  if (layout_.pruned) {
    at::Tensor whole = at::empty({layout_.kept_elements}, flat_.options());
    if (group_.server >= 0 && layout_.chunk.size() > 0) whole.copy_(optimizer_->master());
    return whole;
  }
  if (group_.zero == 3) ResizeStorage(flat_, layout_.flat_elements);
  // Tensors that autograd saved must not look changed: the same numbers come back.
  return flat_.variable_data();
}

void GroupStore::Filled(const at::Tensor& whole) {
  if (!layout_.pruned) return;
  if (group_.zero == 3) {
    ResizeStorage(flat_, layout_.flat_elements);
    flat_.variable_data().zero_();
  }
  form_.Unpack(whole, flat_.variable_data());
}

void GroupStore::ReleaseWhole() {
  if (spilled_) {
    spilled_->Release();
  } else {
    ResizeStorage(flat_, 0);
  }
}

void GroupStore::Place(bool weights_here, bool gradients_here) {
  gradients_.Place(gradients_here, host_.meter);
  if (group_.spilled || weights_here == !on_host_) return;
  if (weights_here) {
    ResizeStorage(flat_, layout_.flat_elements);
    flat_.variable_data().copy_(*on_host_, /*non_blocking=*/true);
    on_host_.reset();
  } else {
    on_host_ = ToHost(flat_.variable_data(), host_.meter);
    // The current stream need not be the one that the memory was taken for.
    if (!flat_.is_cpu()) WaitFor(CurrentStream(flat_.device()));
    ResizeStorage(flat_, 0);
  }
}

at::Tensor GroupStore::MasterFlat() const {
  if (optimizer_->owns_master()) return optimizer_->master();
  if (spilled_) return spilled_->on_host();
  return on_host_ ? *on_host_ : optimizer_->master();
}

at::Tensor GroupStore::HeldFlat() const {
  return layout_.chunk.size() == 0 && !optimizer_->owns_master() ? flat_.detach() : MasterFlat();
}

std::vector<ParameterPart> GroupStore::Parts(const at::Tensor& whole_flat) const {
  std::vector<ParameterPart> parts;
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    at::Tensor kept = whole_flat.narrow(0, slot.offset, slot.elements);
    parts.push_back({slot.name, slot.shape, slot.tile, form_.Dense(s, kept)});
  }
  return parts;
}

StateBytes GroupStore::Memory() const {
  at::Device on = flat_.device();
  StateBytes bytes;
  bytes.weights = StorageBytes({flat_, shard_}, on);
  if (group_.trained && !optimizer_->offloaded()) {  // else they are on the host
    if (optimizer_->owns_master()) bytes.master = StorageBytes({optimizer_->master()}, on);
    bytes.moments = StorageBytes(optimizer_->Moments(), on);
  }
  if (!group_.spilled) bytes.index = StorageBytes(form_.indices(), on);
  return bytes;
}

std::vector<StatePart> GroupStore::State() const {
  std::vector<StatePart> parts;
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    const Block& covered = form_.covered(s);
    if (!slot.counts || covered.size() <= 0) continue;
    Block own = layout_.InChunk(slot), flat{own.begin + slot.offset, own.end + slot.offset};
    at::Tensor index;
    if (form_.index(s).defined())
      index = form_.index(s).narrow(0, own.begin, own.size()) - covered.begin;
    parts.push_back(
        {slot.name,
         slot.shape,
         slot.tile,
         covered,
         index,
         {MasterFlat().narrow(0, flat.begin - layout_.chunk.begin, flat.size()).detach(),
          optimizer_->Moment(0, s, flat), optimizer_->Moment(1, s, flat)}});
  }
  return parts;
}

// This device's chunk of what a source has for the group's parameters.
at::Tensor GroupStore::ChunkOf(const WeightSource& source) const {
  if (!source) return {};
  at::Tensor flat = at::zeros({layout_.kept_elements}, at::kFloat);
  for (size_t s = 0; s < layout_.slots.size(); ++s) {
    const SlotLayout& slot = layout_.slots[s];
    at::Tensor part = TakeTile(source(slot.name), slot.tile).reshape({-1});
    if (form_.index(s).defined()) part = part.index_select(0, form_.index(s).to(part.device()));
    flat.narrow(0, slot.offset, slot.elements).copy_(part);
  }
  return flat.narrow(0, layout_.chunk.begin, layout_.chunk.size()).clone().to(flat_.device());
}

void GroupStore::Restore(int64_t updates, const WeightSource& first, const WeightSource& second) {
  if (!group_.trained) return;
  if (updates == 0) return optimizer_->Restore(0, {}, {});
  optimizer_->Restore(updates, ChunkOf(first), ChunkOf(second));
}

}  // namespace heddle
