#include "runtime/parameter_store.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "runtime/accelerator.h"
#include "runtime/kernels/kernel.h"
#include "runtime/packing.h"
#include "runtime/tiles.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

bool IsFirstAlong(const Mesh& mesh, const Position& position, AxisMask axes) {
  return PlaceAlong(mesh, position, axes) == 0;
}

}  // namespace

int64_t StorageBytes(const std::vector<at::Tensor>& tensors, at::Device on) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device() != on) continue;
    if (seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

GroupStore::GroupStore(const Program& program, StageId stage_id, ParameterGroupId group,
                       int64_t device, at::Device on, const OptimizerOptions& optimizer,
                       const WeightSource& weights, const HostSide& host, const Mask* mask)
    : group_(program.stages[stage_id].groups[group]),
      compute_(ToTorch(program.precision.compute)),
      host_(host) {
  const StageProgram& stage = program.stages[stage_id];
  Position position = PositionIn(stage, device);
  bool first_holder =
      !group_.tied.valid() || program.tied[group_.tied].holders.front().first == stage_id;
  flat_elements_ = FlatElements(stage, group_, position);
  kept_elements_ = KeptElements(stage, group_, position);
  pruned_ = IsPruned(group_);
  HEDDLE_CHECK(!pruned_ || mask != nullptr, "pruned parameters without a mask");
  // Where another device updates for all, this one's chunk is empty.
  bool updates = Updates(stage, group_, position);
  chunk_ = updates ? kept_elements_ / GroupSize(stage.mesh, group_.zero_axes) : 0;
  begin_ = chunk_ * PlaceAlong(stage.mesh, position, group_.zero_axes);
  at::TensorOptions fp32 = at::TensorOptions(at::kFloat).device(on);
  at::Tensor whole = at::zeros({flat_elements_}, fp32);
  at::Tensor kept = pruned_ ? at::zeros({kept_elements_}, fp32) : whole;
  AxisMask all = AxisSet(stage.mesh.axes.size()) - 1;
  int64_t offset = 0, first = 0;
  for (const ParameterSlot& held : group_.slots) {
    const Value& value = program.model.graph.value(held.parameter);
    Slot slot;
    slot.offset = offset;
    slot.local = LocalShape(stage.mesh, held.sharding, position);
    slot.elements = KeptElements(stage, held, position);
    slot.first = first;
    slot.weights = SlotElements(stage, held, position);
    for (const ShardedDim& dim : held.sharding.dims)
      slot.tile.push_back(HeldRanges(stage.mesh, dim, position));
    AxisMask copies = all & ~held.sharding.split_axes() & ~group_.zero_axes;
    if (group_.server >= 0) copies &= ~group_.reduce_axes;
    slot.counts = first_holder && IsFirstAlong(stage.mesh, position, copies);
    if (!held.kept.empty()) {
      slot.index = IndexOf(*mask, value.name, value.type.shape, slot.tile).to(on);
      HEDDLE_CHECK_EQ(slot.index.numel(), slot.elements);
    }
    at::Tensor part = TakeTile(weights(value.name), slot.tile).reshape({-1}).to(on);
    if (pruned_) {
      kept.narrow(0, offset, slot.elements).copy_(KeptOf(slot, part));
    } else {
      whole.narrow(0, offset, slot.elements).copy_(part);
    }
    offset += slot.elements;
    first += slot.weights;
    names_.push_back(value.name);
    shapes_.push_back(value.type.shape);
    slots_.push_back(std::move(slot));
  }
  flat_ = whole.to(compute_);
  if (pruned_) Expand(kept);
  same_ = compute_ == at::kFloat && (!pruned_ || group_.zero == 3);
  FindCovered();
  at::Tensor chunk = kept.narrow(0, begin_, chunk_);
  if (group_.zero == 3) shard_ = chunk.to(compute_, /*non_blocking=*/false, /*copy=*/true);
  master_ = !same_ ? chunk.clone() : group_.zero == 3 ? shard_ : flat_.narrow(0, begin_, chunk_);
  for (const Slot& slot : slots_) {
    at::Tensor leaf = flat_.narrow(0, slot.first, slot.weights).view(slot.local).detach();
    if (group_.trained) leaf.set_requires_grad(true);
    leaves_.push_back(leaf);
  }
  if (group_.zero == 3) ReleaseWhole();
  added_.resize(slots_.size());
  owned_.assign(slots_.size(), false);
  optimizer_ = std::make_unique<Optimizer>(optimizer);
  if (group_.spilled) Spill();
  if (!group_.offloaded) return;
  int64_t rows = optimizer_->moments() + (same_ ? 0 : 1);
  rows_ = std::make_unique<HostRows>(rows, chunk_, on, host);
  if (!same_) rows_->host()[0].copy_(master_);
  UseRows(rows_->host());
}

// Flat, of a slot.
at::Tensor GroupStore::KeptOf(const Slot& slot, const at::Tensor& dense) const {
  return slot.index.defined() ? Compress(dense, slot.index) : dense.reshape({-1});
}

// What is kept of all slots, to where it belongs among the weights. What autograd saved of these must not look changed.
void GroupStore::Expand(const at::Tensor& whole) {
  at::Tensor flat = flat_.variable_data();
  for (const Slot& slot : slots_) {
    at::Tensor to = flat.narrow(0, slot.first, slot.weights);
    at::Tensor from = whole.narrow(0, slot.offset, slot.elements);
    if (slot.index.defined()) {
      ExpandInto(from, slot.index, to);
    } else {
      to.copy_(from);
    }
  }
}

void GroupStore::AddGradient(size_t slot, const at::Tensor& dense) {
  at::Tensor& held = added_[slot];
  bool pruned = slots_[slot].index.defined();
  at::Tensor gradient = pruned ? KeptOf(slots_[slot], dense) : dense;
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

at::Tensor GroupStore::TakeGradients() {
  at::Tensor flat =
      at::empty({kept_elements_}, at::TensorOptions(at::kFloat).device(flat_.device()));
  std::vector<at::Tensor> to, from;
  int64_t end = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    at::Tensor part = flat.narrow(0, slots_[s].offset, slots_[s].elements);
    if (!slots_[s].index.defined()) part = part.view(slots_[s].local);
    end = slots_[s].offset + slots_[s].elements;
    if (!added_[s].defined()) {
      part.zero_();
      continue;
    }
    to.push_back(part);
    from.push_back(std::move(added_[s]));
    added_[s].reset();
  }
  CopyEach(to, from);
  if (end < kept_elements_) flat.narrow(0, end, kept_elements_ - end).zero_();
  return flat;
}

namespace {

// Longer sums of fp32 lose digits; these are added up in f64.
constexpr int64_t kLongestDot = int64_t{1} << 24;

void AddSquares(at::Tensor& sum, const at::Tensor& flat) {
  for (int64_t at = 0; at < flat.numel(); at += kLongestDot) {
    at::Tensor part = flat.narrow(0, at, std::min(kLongestDot, flat.numel() - at));
    sum.add_(part.dot(part));
  }
}

}  // namespace

at::Tensor GroupStore::SquaredNormOfAdded() const {
  at::Tensor sum = at::zeros({}, flat_.options().dtype(at::kDouble));
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (!slots_[s].counts || !added_[s].defined()) continue;
    AddSquares(sum, added_[s].reshape({-1}).to(at::kFloat));
  }
  return sum;
}

at::Tensor GroupStore::SquaredNorm(const at::Tensor& reduced) const {
  at::Tensor sum = at::zeros({}, flat_.options().dtype(at::kDouble));
  for (size_t s = 0; s < slots_.size();) {
    // Neighbours that count alike, together.
    size_t next = s + 1;
    while (next < slots_.size() && slots_[next].counts == slots_[s].counts) ++next;
    int64_t from = std::max(slots_[s].offset, begin_);
    int64_t to = std::min(slots_[next - 1].offset + slots_[next - 1].elements, begin_ + chunk_);
    if (slots_[s].counts && from < to) AddSquares(sum, reduced.narrow(0, from - begin_, to - from));
    s = next;
  }
  return sum;
}

bool GroupStore::IsFinite(size_t slot, const at::Tensor& flat) const {
  int64_t start = flat.numel() == kept_elements_ ? 0 : begin_;
  int64_t from = std::max(slots_[slot].offset, start);
  int64_t to = std::min(slots_[slot].offset + slots_[slot].elements, start + flat.numel());
  return from >= to || at::isfinite(flat.narrow(0, from - start, to - from)).all().item<bool>();
}

bool GroupStore::IsFiniteAsAdded(size_t slot) const {
  return !added_[slot].defined() || at::isfinite(added_[slot]).all().item<bool>();
}

void GroupStore::Update(const at::Tensor& reduced, const UpdateFactors& factors) {
  if (rows_) UseRows(rows_->Arrived());
  Step({master_}, {reduced}, factors);
}

void GroupStore::UpdateFromAdded(const UpdateFactors& factors) {
  if (rows_) UseRows(rows_->Arrived());
  KeepMomentsBySlot();
  std::vector<at::Tensor> weights, gradients;
  for (size_t s = 0; s < slots_.size(); ++s) {
    weights.push_back(master_.narrow(0, slots_[s].offset, slots_[s].elements));
    bool added = added_[s].defined();
    gradients.push_back(added ? added_[s].reshape({-1}).to(at::kFloat)
                              : at::zeros_like(weights[s]));
    added_[s].reset();
  }
  Step(std::move(weights), std::move(gradients), factors);
}

void GroupStore::Step(std::vector<at::Tensor> weights, std::vector<at::Tensor> gradients,
                      const UpdateFactors& factors) {
  at::NoGradGuard no_grad;
  optimizer_->Step(weights, gradients, factors);
  if (same_) return;
  if (group_.zero == 3) {
    shard_.copy_(master_);
  } else if (pruned_) {
    if (group_.zero == 0 && chunk_ > 0) Expand(master_);
  } else {
    flat_.narrow(0, begin_, chunk_).copy_(master_);
  }
}

// A chunk's worth of what a source has of the slots' parameters.
at::Tensor GroupStore::ChunkOf(const WeightSource& source) const {
  at::Tensor flat = at::zeros({kept_elements_}, at::kFloat);
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    at::Tensor part = TakeTile(source(names_[s]), slot.tile).reshape({-1});
    if (slot.index.defined()) part = part.index_select(0, slot.index.to(part.device()));
    flat.narrow(0, slot.offset, slot.elements).copy_(part);
  }
  return flat.narrow(0, begin_, chunk_).clone().to(flat_.device());
}

void GroupStore::Restore(int64_t updates, const WeightSource& first, const WeightSource& second) {
  if (!group_.trained) return;
  Optimizer::State state;
  state.steps = updates;
  if (updates > 0) {
    state.first.push_back(first ? ChunkOf(first) : at::Tensor());
    state.second.push_back(second ? ChunkOf(second) : at::Tensor());
  }
  optimizer_->Restore(state);
  by_slot_ = false;
  if (!rows_) return;
  UseRows(rows_->host());
  Optimizer::State held = optimizer_->state();
  if (updates > 0 && first) held.first[0].copy_(state.first[0]);
  if (updates > 0 && second) held.second[0].copy_(state.second[0]);
}

// Those restored are one for the chunk.
void GroupStore::KeepMomentsBySlot() {
  if (by_slot_) return;
  by_slot_ = true;
  const std::vector<at::Tensor>&first = optimizer_->first(), &second = optimizer_->second();
  if (first.empty()) return;
  std::array<std::vector<at::Tensor>, 2> split;
  for (const Slot& slot : slots_) {
    auto part = [&](const at::Tensor& moments) {
      return moments.defined() ? moments.narrow(0, slot.offset, slot.elements) : at::Tensor();
    };
    split[0].push_back(part(first[0]));
    split[1].push_back(part(second[0]));
  }
  optimizer_->UseMoments(std::move(split[0]), std::move(split[1]));
}

at::Tensor GroupStore::Moment(const std::vector<at::Tensor>& moments, size_t slot,
                              Block flat) const {
  if (moments.empty()) return {};
  const at::Tensor& of = by_slot_ ? moments[slot] : moments[0];
  int64_t start = by_slot_ ? slots_[slot].offset : begin_;
  return of.defined() ? of.view({-1}).narrow(0, flat.begin - start, flat.size()) : at::Tensor();
}

// A chunk of what is kept stands for all weights from its first to that of the next chunk.
void GroupStore::FindCovered() {
  for (Slot& slot : slots_) {
    Block flat = InChunk(slot);
    slot.covered = flat;
    bool first = flat.begin == 0 && begin_ <= slot.offset;
    if (!slot.index.defined() || (flat.size() <= 0 && !(slot.elements == 0 && first))) continue;
    auto start = [&](int64_t kept) {
      return kept == slot.elements ? slot.weights : slot.index[kept].item<int64_t>();
    };
    slot.covered = {first ? 0 : start(flat.begin), start(flat.end)};
  }
}

// Of a slot's state, what this device has.
Block GroupStore::InChunk(const Slot& slot) const {
  return {std::max(slot.offset, begin_) - slot.offset,
          std::min(slot.offset + slot.elements, begin_ + chunk_) - slot.offset};
}

std::vector<StatePart> GroupStore::State() const {
  std::vector<StatePart> parts;
  Optimizer::State state = optimizer_->state();
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    if (!slot.counts || slot.covered.size() <= 0) continue;
    Block own = InChunk(slot), flat{own.begin + slot.offset, own.end + slot.offset};
    at::Tensor index;
    if (slot.index.defined()) {
      index = slot.index.narrow(0, own.begin, own.size()) - slot.covered.begin;
    }
    parts.push_back({names_[s],
                     shapes_[s],
                     slot.tile,
                     slot.covered,
                     index,
                     {MasterFlat().narrow(0, flat.begin - begin_, flat.size()).detach(),
                      Moment(state.first, s, flat), Moment(state.second, s, flat)}});
  }
  return parts;
}

at::Tensor GroupStore::Chunk() const {
  if (group_.zero == 3) return shard_;
  return pruned_ ? master_.to(compute_) : flat_.narrow(0, begin_, chunk_).clone();
}

void GroupStore::Filled(const at::Tensor& whole) {
  if (!pruned_) return;
  if (group_.zero == 3) {
    ResizeStorage(flat_, flat_elements_);
    flat_.variable_data().zero_();
  }
  Expand(whole);
}

at::Tensor GroupStore::WholeToFill() {
  if (pruned_) {
    at::Tensor whole = at::empty({kept_elements_}, flat_.options());
    if (group_.server >= 0 && chunk_ > 0) whole.copy_(master_);
    return whole;
  }
  if (group_.zero == 3) ResizeStorage(flat_, flat_elements_);
  // What autograd saved of the weights must not look changed: the same numbers come back.
  return flat_.variable_data();
}

at::Tensor GroupStore::HeldFlat() const {
  return chunk_ == 0 && same_ ? flat_.detach() : MasterFlat();
}

StateBytes GroupStore::Memory() const {
  at::Device on = flat_.device();
  std::vector<at::Tensor> moments = optimizer_->first(), index;
  moments.insert(moments.end(), optimizer_->second().begin(), optimizer_->second().end());
  for (const Slot& slot : slots_) index.push_back(slot.index);
  StateBytes bytes;
  bytes.weights = StorageBytes({flat_, shard_}, on);
  if (group_.trained && !rows_) {  // else they are on the host
    bytes.master = same_ ? 0 : StorageBytes({master_}, on);
    bytes.moments = StorageBytes(moments, on);
  }
  if (!group_.spilled) bytes.index = StorageBytes(index, on);
  return bytes;
}

std::vector<ParameterPart> GroupStore::Parts(const at::Tensor& whole_flat) const {
  std::vector<ParameterPart> parts;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    at::Tensor values = whole_flat.narrow(0, slot.offset, slot.elements);
    if (slot.index.defined()) {
      at::Tensor dense = at::zeros({slot.weights}, values.options());
      ExpandInto(values, slot.index, dense);
      values = dense.view(slot.local);
    } else {
      values = values.view(slot.local).clone();
    }
    parts.push_back({names_[s], shapes_[s], slot.tile, values});
  }
  return parts;
}

}  // namespace heddle
