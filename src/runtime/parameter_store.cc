#include "runtime/parameter_store.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tiles.h"
#include "runtime/torch_compat.h"

namespace heddle {
namespace {

bool IsFirstAlong(const Mesh& mesh, const Position& position, AxisMask axes) {
  return PlaceAlong(mesh, position, axes) == 0;
}

}  // namespace

GroupStore::GroupStore(const Program& program, int stage_index, int group, int64_t device,
                       at::Device on, const OptimizerOptions& optimizer,
                       const WeightSource& weights, const HostSide& host)
    : group_(program.stages[static_cast<size_t>(stage_index)].groups[static_cast<size_t>(group)]),
      compute_(ToTorch(program.precision.compute)) {
  const StageProgram& stage = program.stages[static_cast<size_t>(stage_index)];
  Position position = PositionIn(stage, device);
  bool first_holder =
      group_.tied < 0 ||
      program.tied[static_cast<size_t>(group_.tied)].holders.front().first == stage_index;
  flat_elements_ = FlatElements(stage, group_, position);
  // Where another device updates for all, this one's chunk is empty.
  bool updates = Updates(stage, group_, position);
  chunk_ = updates ? flat_elements_ / GroupSize(stage.mesh, group_.zero_axes) : 0;
  begin_ = chunk_ * PlaceAlong(stage.mesh, position, group_.zero_axes);
  at::Tensor whole = at::zeros({flat_elements_}, at::TensorOptions(at::kFloat).device(on));
  AxisMask all = AxisSet(stage.mesh.axes.size()) - 1;
  int64_t offset = 0;
  for (const ParameterSlot& held : group_.slots) {
    const Value& value = program.model.graph.value(held.parameter);
    Slot slot;
    slot.offset = offset;
    slot.local = LocalShape(stage.mesh, held.sharding, position);
    slot.elements = SlotElements(stage, held, position);
    for (const ShardedDim& dim : held.sharding.dims)
      slot.tile.push_back(HeldRanges(stage.mesh, dim, position));
    AxisMask copies = all & ~held.sharding.split_axes() & ~group_.zero_axes;
    if (group_.server >= 0) copies &= ~group_.reduce_axes;
    slot.counts = first_holder && IsFirstAlong(stage.mesh, position, copies);
    at::Tensor part = TakeTile(weights(value.name), slot.tile);
    whole.narrow(0, offset, slot.elements).copy_(part.reshape({-1}));
    offset += slot.elements;
    names_.push_back(value.name);
    shapes_.push_back(value.type.shape);
    slots_.push_back(std::move(slot));
  }
  flat_ = whole.to(compute_);
  same_ = compute_ == at::kFloat;
  if (group_.zero == 3) shard_ = flat_.narrow(0, begin_, chunk_).clone();
  master_ = !same_             ? whole.narrow(0, begin_, chunk_).clone()
            : group_.zero == 3 ? shard_
                               : flat_.narrow(0, begin_, chunk_);
  for (const Slot& slot : slots_) {
    at::Tensor leaf = flat_.narrow(0, slot.offset, slot.elements).view(slot.local).detach();
    if (group_.trained) leaf.set_requires_grad(true);
    leaves_.push_back(leaf);
  }
  if (group_.zero == 3) ReleaseWhole();
  added_.resize(slots_.size());
  owned_.assign(slots_.size(), false);
  optimizer_ = std::make_unique<Optimizer>(optimizer);
  if (!group_.offloaded) return;
  int64_t rows = optimizer_->moments() + (same_ ? 0 : 1);
  rows_ = std::make_unique<HostRows>(rows, chunk_, on, host.copies, host.meter);
  if (!same_) rows_->host()[0].copy_(master_);
  UseRows(rows_->host());
}

// Master weights and moments are these from now on.
void GroupStore::UseRows(const at::Tensor& rows) {
  int64_t row = 0;
  if (!same_) master_ = rows[row++];
  std::array<std::vector<at::Tensor>, 2> moments;
  for (int64_t m = 0; m < 2; ++m) {
    moments[static_cast<size_t>(m)] = {m < optimizer_->moments() ? rows[row++] : at::Tensor()};
  }
  optimizer_->UseMoments(std::move(moments[0]), std::move(moments[1]));
  by_slot_ = false;
}

void GroupStore::Evict() {
  rows_->Evict();
  UseRows(rows_->host());
}

void GroupStore::AddGradient(size_t slot, const at::Tensor& gradient) {
  at::Tensor& held = added_[slot];
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
      at::empty({flat_elements_}, at::TensorOptions(at::kFloat).device(flat_.device()));
  std::vector<at::Tensor> to, from;
  int64_t end = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    at::Tensor part = flat.narrow(0, slots_[s].offset, slots_[s].elements).view(slots_[s].local);
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
  if (end < flat_elements_) flat.narrow(0, end, flat_elements_ - end).zero_();
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
  int64_t start = flat.numel() == flat_elements_ ? 0 : begin_;
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
  } else {
    flat_.narrow(0, begin_, chunk_).copy_(master_);
  }
}

// A chunk's worth of what a source has of the slots' parameters.
at::Tensor GroupStore::ChunkOf(const WeightSource& source) const {
  at::Tensor flat = at::zeros({flat_elements_}, at::kFloat);
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    at::Tensor part = TakeTile(source(names_[s]), slot.tile);
    flat.narrow(0, slot.offset, slot.elements).copy_(part.reshape({-1}));
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

std::vector<StatePart> GroupStore::State() const {
  std::vector<StatePart> parts;
  Optimizer::State state = optimizer_->state();
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    Block flat{std::max(slot.offset, begin_),
               std::min(slot.offset + slot.elements, begin_ + chunk_)};
    if (!slot.counts || flat.begin >= flat.end) continue;
    parts.push_back({names_[s],
                     shapes_[s],
                     slot.tile,
                     {flat.begin - slot.offset, flat.end - slot.offset},
                     {master_.narrow(0, flat.begin - begin_, flat.size()).detach(),
                      Moment(state.first, s, flat), Moment(state.second, s, flat)}});
  }
  return parts;
}

at::Tensor GroupStore::Chunk() const {
  return group_.zero == 3 ? shard_ : flat_.narrow(0, begin_, chunk_).clone();
}

at::Tensor GroupStore::WholeToFill() {
  if (group_.zero == 3) ResizeStorage(flat_, flat_elements_);
  // What autograd saved of the weights must not look changed: the same numbers come back.
  return flat_.variable_data();
}

at::Tensor GroupStore::HeldFlat() const {
  return chunk_ == 0 && same_ ? flat_.detach() : master_;
}

void GroupStore::ReleaseWhole() { ResizeStorage(flat_, 0); }

std::vector<ParameterPart> GroupStore::Parts(const at::Tensor& whole_flat) const {
  std::vector<ParameterPart> parts;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    at::Tensor values = whole_flat.narrow(0, slot.offset, slot.elements).view(slot.local).clone();
    parts.push_back({names_[s], shapes_[s], slot.tile, values});
  }
  return parts;
}

}  // namespace heddle
