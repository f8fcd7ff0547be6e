#include "runtime/allocation_meter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace heddle {
namespace {

class AllocationMeterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { MeterAllocations(); }
};

TEST_F(AllocationMeterTest, CountsStoragesNowAndAtMost) {
  AllocationMeter meter;
  AllocationMeter::Scope scope(meter);
  at::Tensor kept = at::zeros({1000});
  EXPECT_EQ(meter.bytes(), 4000);
  at::Tensor view = kept.view({10, 100}).select(0, 3);
  EXPECT_EQ(meter.bytes(), 4000);
  { at::Tensor gone = at::empty({500}, at::kDouble); }
  EXPECT_EQ(meter.bytes(), 4000);
  EXPECT_EQ(meter.peak(), 8000);
  meter.ResetPeak();
  EXPECT_EQ(meter.peak(), 4000);
  kept.reset();
  EXPECT_EQ(meter.bytes(), 4000);  // the view holds it
  view.reset();
  EXPECT_EQ(meter.bytes(), 0);
}

TEST_F(AllocationMeterTest, TensorsOfOtherThreadsAndTimesAreNotCounted) {
  at::Tensor before = at::zeros({100});
  AllocationMeter meter;
  {
    AllocationMeter::Scope scope(meter);
    before.reset();
    at::Tensor other;
    std::thread([&] { other = at::zeros({100}); }).join();
    EXPECT_EQ(meter.bytes(), 0);
  }
  at::Tensor after = at::zeros({100});
  EXPECT_EQ(meter.bytes(), 0);
}

TEST_F(AllocationMeterTest, WhoMadeAStorageIsGivenItBack) {
  AllocationMeter mine, theirs;
  AllocationMeter::Scope scope(mine);
  at::Tensor tensor = at::zeros({100});
  std::thread([&] {
    AllocationMeter::Scope scope(theirs);
    tensor.reset();
  }).join();
  EXPECT_EQ(mine.bytes(), 0);
  EXPECT_EQ(theirs.bytes(), 0);
  {
    AllocationMeter::Scope inner(theirs);
    tensor = at::zeros({10});
  }
  EXPECT_EQ(theirs.bytes(), 40);
  at::Tensor again = at::zeros({1});
  EXPECT_EQ(mine.bytes(), 4);
}

TEST_F(AllocationMeterTest, TensorsMayOutliveTheMeter) {
  at::Tensor tensor;
  {
    AllocationMeter meter;
    AllocationMeter::Scope scope(meter);
    tensor = at::zeros({100});
  }
  tensor.reset();
}

TEST_F(AllocationMeterTest, ResizedStoragesCountWhatTheyTake) {
  AllocationMeter meter;
  AllocationMeter::Scope scope(meter);
  at::Tensor tensor = at::zeros({100});
  tensor.resize_({300});
  EXPECT_EQ(meter.bytes(), 1200);
  EXPECT_EQ(at::zeros({0}).numel(), 0);
  EXPECT_EQ(meter.bytes(), 1200);
}

}  // namespace
}  // namespace heddle
