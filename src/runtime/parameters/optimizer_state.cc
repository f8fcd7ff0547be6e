#include "runtime/parameters/optimizer_state.h"

#include <array>
#include <utility>

namespace heddle {

OptimizerState::OptimizerState(const GroupLayout& layout, const OptimizerOptions& options,
                               at::Tensor master, MasterKind kind)
    : layout_(layout), optimizer_(options), master_(std::move(master)), kind_(kind) {}

void OptimizerState::Update(const at::Tensor& chunk_gradient, const UpdateFactors& factors) {
  if (rows_) UseRows(rows_->Arrived());
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> weights = {master_};
  optimizer_.Step(weights, {chunk_gradient}, factors);
}

void OptimizerState::UpdateBySlot(const std::vector<at::Tensor>& gradients,
                                  const UpdateFactors& factors) {
  if (rows_) UseRows(rows_->Arrived());
  KeepMomentsBySlot();
  std::vector<at::Tensor> weights;
  for (const SlotLayout& slot : layout_.slots)
    weights.push_back(master_.narrow(0, slot.offset, slot.elements));
  at::NoGradGuard no_grad;
  optimizer_.Step(weights, gradients, factors);
}

void OptimizerState::Offload(at::Device on, const HostSide& host) {
  int64_t rows = optimizer_.moments() + (owns_master() ? 1 : 0);
  rows_ = std::make_unique<HostRows>(rows, layout_.chunk.size(), on, host);
  if (owns_master()) rows_->host()[0].copy_(master_);
  UseRows(rows_->host());
}

void OptimizerState::Evict() {
  rows_->Evict();
  UseRows(rows_->host());
}

// Master weights and moments are these rows from now on.
void OptimizerState::UseRows(const at::Tensor& rows) {
  int64_t row = 0;
  if (owns_master()) master_ = rows[row++];
  std::array<std::vector<at::Tensor>, 2> moments;
  for (int64_t m = 0; m < 2; ++m)
    moments[static_cast<size_t>(m)] = {m < optimizer_.moments() ? rows[row++] : at::Tensor()};
  optimizer_.UseMoments(std::move(moments[0]), std::move(moments[1]));
  by_slot_ = false;
}

// Moments that were restored, or are rows, are one tensor for the chunk: views of it take their place.
void OptimizerState::KeepMomentsBySlot() {
  if (by_slot_) return;
  by_slot_ = true;
  const std::vector<at::Tensor>&first = optimizer_.first(), &second = optimizer_.second();
  if (first.empty()) return;
  std::array<std::vector<at::Tensor>, 2> split;
  for (const SlotLayout& slot : layout_.slots) {
    auto part = [&](const at::Tensor& moments) {
      return moments.defined() ? moments.narrow(0, slot.offset, slot.elements) : at::Tensor();
    };
    split[0].push_back(part(first[0]));
    split[1].push_back(part(second[0]));
  }
  optimizer_.UseMoments(std::move(split[0]), std::move(split[1]));
}

void OptimizerState::Restore(int64_t updates, const at::Tensor& first, const at::Tensor& second) {
  Optimizer::State state;
  state.steps = updates;
  if (updates > 0) {
    state.first.push_back(first);
    state.second.push_back(second);
  }
  optimizer_.Restore(state);
  by_slot_ = false;
  if (!rows_) return;
  UseRows(rows_->host());
  if (updates > 0 && first.defined()) optimizer_.first()[0].copy_(first);
  if (updates > 0 && second.defined()) optimizer_.second()[0].copy_(second);
}

at::Tensor OptimizerState::Moment(size_t moment, size_t slot, Block elements) const {
  const std::vector<at::Tensor>& moments = moment == 0 ? optimizer_.first() : optimizer_.second();
  if (moments.empty()) return {};
  const at::Tensor& of = by_slot_ ? moments[slot] : moments[0];
  int64_t start = by_slot_ ? layout_.slots[slot].offset : layout_.chunk.begin;
  return of.defined() ? of.view({-1}).narrow(0, elements.begin - start, elements.size())
                      : at::Tensor();
}

std::vector<at::Tensor> OptimizerState::Moments() const {
  std::vector<at::Tensor> moments = optimizer_.first();
  moments.insert(moments.end(), optimizer_.second().begin(), optimizer_.second().end());
  return moments;
}

}  // namespace heddle
