// The parts of a group's store, on layouts made by hand: two parameters of 2x3 and 4 elements.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/parameters/gradient_accumulator.h"
#include "runtime/parameters/group_layout.h"
#include "runtime/parameters/optimizer_state.h"
#include "runtime/parameters/packed_form.h"
#include "runtime/parameters/state_bytes.h"

namespace heddle {
namespace {

SlotLayout SlotOf(Shape shape, int64_t offset, int64_t elements) {
  SlotLayout slot;
  slot.shape = slot.local = std::move(shape);
  slot.offset = slot.first = offset;
  slot.elements = slot.weights = elements;
  return slot;
}

// `chunk` is what this device updates.
GroupLayout TwoSlots(Block chunk) {
  GroupLayout layout;
  layout.slots = {SlotOf({2, 3}, 0, 6), SlotOf({4}, 6, 4)};
  layout.flat_elements = layout.kept_elements = 10;
  layout.chunk = chunk;
  return layout;
}

TEST(GroupLayout, InChunkCountsFromTheSlot) {
  GroupLayout layout = TwoSlots({5, 10});
  EXPECT_EQ(layout.InChunk(layout.slots[0]), (Block{5, 6}));
  EXPECT_EQ(layout.InChunk(layout.slots[1]), (Block{0, 4}));
  EXPECT_EQ(layout.StartOf(10), 0);
  EXPECT_EQ(layout.StartOf(5), 5);
}

TEST(GradientAccumulator, AddsInFp32WithoutTouchingWhatAutogradGave) {
  GroupLayout layout = TwoSlots({0, 10});
  PackedForm form(layout, nullptr, at::kCPU);
  GradientAccumulator gradients(layout, form, at::kCPU);
  at::Tensor first = at::ones({2, 3}, at::kBFloat16);
  gradients.Add(0, first);
  EXPECT_TRUE(gradients.added()[0].is_same(first));
  gradients.Add(0, first);
  gradients.Add(0, first);
  EXPECT_EQ(first.sum().item<float>(), 6);
  EXPECT_EQ(gradients.SquaredNorm().item<double>(), 6 * 9);
  at::Tensor flat = gradients.TakeFlat();
  EXPECT_EQ(flat.scalar_type(), at::kFloat);
  EXPECT_TRUE(flat.narrow(0, 0, 6).eq(3).all().item<bool>());
  EXPECT_TRUE(flat.narrow(0, 6, 4).eq(0).all().item<bool>());
  EXPECT_FALSE(gradients.added()[0].defined());
}

TEST(GradientAccumulator, TakesZerosWhereNothingWasAdded) {
  GroupLayout layout = TwoSlots({0, 10});
  PackedForm form(layout, nullptr, at::kCPU);
  GradientAccumulator gradients(layout, form, at::kCPU);
  gradients.Add(1, at::full({4}, 2));
  std::vector<at::Tensor> taken = gradients.TakeBySlot();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].numel(), 6);
  EXPECT_EQ(taken[0].abs().sum().item<float>(), 0);
  EXPECT_EQ(taken[1].sum().item<float>(), 8);
}

TEST(SquaredNorm, CountsTheChunkAndSkipsSlotsOfOtherDevices) {
  GroupLayout layout = TwoSlots({5, 10});
  at::Tensor reduced = at::full({5}, 2.0);
  EXPECT_EQ(SquaredNorm(layout, reduced.to(at::kFloat), at::kCPU).item<double>(), 20);
  layout.slots[1].counts = false;
  EXPECT_EQ(SquaredNorm(layout, reduced.to(at::kFloat), at::kCPU).item<double>(), 4);
}

TEST(IsFinite, LooksAtOneSlotOfAChunkOrOfTheWhole) {
  GroupLayout layout = TwoSlots({5, 10});
  at::Tensor chunk = at::zeros({5}, at::kFloat);
  chunk[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(IsFinite(layout, 0, chunk));
  EXPECT_TRUE(IsFinite(layout, 1, chunk));
  at::Tensor whole = at::zeros({10}, at::kFloat);
  whole[6] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(IsFinite(layout, 0, whole));
  EXPECT_FALSE(IsFinite(layout, 1, whole));
}

UpdateFactors Factors() {
  at::TensorOptions number(at::kDouble);
  return {at::full({}, 0.1, number), at::ones({}, number), at::zeros({}, number)};
}

TEST(OptimizerState, SlotBySlotAndOffloadedGiveTheNumbersOfTheChunk) {
  GroupLayout layout = TwoSlots({0, 10});
  at::Tensor start = at::arange(10, at::kFloat);
  OptimizerState whole(layout, {}, start.clone(), MasterKind::kOwn);
  OptimizerState by_slot(layout, {}, start.clone(), MasterKind::kShared);
  OptimizerState offloaded(layout, {}, start.clone(), MasterKind::kOwn);
  HostSide host;
  offloaded.Offload(at::kCPU, host);
  for (int step = 0; step < 3; ++step) {
    at::Tensor gradient = start * 0.1 + step;
    whole.Update(gradient, Factors());
    by_slot.UpdateBySlot({gradient.narrow(0, 0, 6), gradient.narrow(0, 6, 4)}, Factors());
    offloaded.Fetch();
    offloaded.Update(gradient, Factors());
    offloaded.Evict();
    offloaded.Release();
  }
  EXPECT_EQ(whole.updates(), 3);
  EXPECT_TRUE(whole.master().equal(by_slot.master()));
  EXPECT_TRUE(whole.master().equal(offloaded.master()));
  EXPECT_TRUE(whole.Moment(1, 1, {6, 10}).equal(by_slot.Moment(1, 1, {6, 10})));
  EXPECT_TRUE(whole.Moment(0, 0, {0, 6}).equal(offloaded.Moment(0, 0, {0, 6})));
  EXPECT_GT(host.traffic->fetched, 0);
}

TEST(OptimizerState, GoesOnFromRestoredMoments) {
  GroupLayout layout = TwoSlots({0, 10});
  at::Tensor start = at::arange(10, at::kFloat), gradient = start * 0.1 + 1;
  OptimizerState first(layout, {}, start.clone(), MasterKind::kOwn);
  first.Update(gradient, Factors());
  OptimizerState second(layout, {}, first.master().clone(), MasterKind::kShared);
  second.Restore(1, first.Moments()[0].clone(), first.Moments()[1].clone());
  first.Update(gradient, Factors());
  second.UpdateBySlot({gradient.narrow(0, 0, 6), gradient.narrow(0, 6, 4)}, Factors());
  EXPECT_EQ(second.updates(), 2);
  EXPECT_TRUE(first.master().equal(second.master()));
}

TEST(StateBytes, CountsEachStorageOnce) {
  at::Tensor whole = at::zeros({10}, at::kFloat);
  EXPECT_EQ(StorageBytes({whole, whole.narrow(0, 2, 3), at::Tensor()}, at::kCPU), 40);
}

}  // namespace
}  // namespace heddle
