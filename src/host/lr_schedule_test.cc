// Compares schedules with the recurrences that PyTorch uses, and with their closed forms.
#include "host/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

TEST(LrSchedule, ConstantWithWarmUp) {
  LrSchedule schedule{.kind = "constant", .lr = 0.5, .warmup_steps = 4};
  CheckSchedule(schedule);
  double expected[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.5};
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_DOUBLE_EQ(schedule.At(step), expected[step]);
  }
  EXPECT_EQ((LrSchedule{.lr = 0.5}.At(0)), 0.5);
  EXPECT_EQ((LrSchedule{.lr = 0.5}.At(int64_t{1} << 60)), 0.5);
}

// LinearLR multiplies by 1 + (end - start) / (total start + (t - 1) (end - start)) at step t.
TEST(LrSchedule, WarmUpIsLinearLr) {
  constexpr int64_t kWarmUp = 7;
  LrSchedule schedule{.lr = 0.3, .warmup_steps = kWarmUp};
  double start = 1.0 / (kWarmUp + 1), lr = 0.3 * start;
  for (int64_t t = 0; t <= kWarmUp; ++t) {
    if (t > 0) lr *= 1 + (1 - start) / (kWarmUp * start + static_cast<double>(t - 1) * (1 - start));
    EXPECT_NEAR(schedule.At(t), lr, 1e-12) << t;
  }
}

TEST(LrSchedule, DecayIsLinearLr) {
  constexpr double kEnd = 0.2;
  constexpr int64_t kTotal = 9;
  LrSchedule schedule{.kind = "linear", .lr = 0.3, .total_steps = kTotal, .final_fraction = kEnd};
  CheckSchedule(schedule);
  double lr = 0.3;
  for (int64_t t = 0; t <= kTotal; ++t) {
    if (t > 0) lr *= 1 + (kEnd - 1) / (kTotal + static_cast<double>(t - 1) * (kEnd - 1));
    EXPECT_NEAR(schedule.At(t), lr, 1e-12) << t;
  }
  EXPECT_NEAR(schedule.At(kTotal + 5), 0.3 * kEnd, 1e-12);
}

// CosineAnnealingLR: (lr - low) times (1 + cos(pi t / T)) / (1 + cos(pi (t - 1) / T)), plus low.
TEST(LrSchedule, DecayIsCosineAnnealingLr) {
  constexpr double kLow = 0.03;
  constexpr int64_t kTotal = 11, kWarmUp = 3;
  LrSchedule schedule{.kind = "cosine",
                      .lr = 0.3,
                      .warmup_steps = kWarmUp,
                      .total_steps = kTotal + kWarmUp,
                      .final_fraction = kLow / 0.3};
  CheckSchedule(schedule);
  double lr = 0.3;
  for (int64_t t = 0; t <= kTotal; ++t) {
    if (t > 0) {
      double now = 1 + std::cos(M_PI * static_cast<double>(t) / kTotal);
      double before = 1 + std::cos(M_PI * static_cast<double>(t - 1) / kTotal);
      lr = now / before * (lr - kLow) + kLow;
    }
    EXPECT_NEAR(schedule.At(kWarmUp + t), lr, 1e-12) << t;
  }
  EXPECT_NEAR(schedule.At(1000), kLow, 1e-12);
}

// torch.optim.lr_scheduler of PyTorch 2.x by hand: lr 1, T_max 4, eta_min 0.
TEST(LrSchedule, KnownValues) {
  LrSchedule cosine{.kind = "cosine", .lr = 1, .total_steps = 4};
  double expected[] = {1, 0.8535533905932737, 0.5, 0.14644660940672627, 0};
  for (int64_t step = 0; step < 5; ++step) EXPECT_NEAR(cosine.At(step), expected[step], 1e-15);
  LrSchedule linear{.kind = "linear", .lr = 1, .total_steps = 4};
  for (int64_t step = 0; step < 5; ++step) {
    EXPECT_DOUBLE_EQ(linear.At(step), 1 - 0.25 * static_cast<double>(step));
  }
}

TEST(LrSchedule, Refuses) {
  auto error = [](const LrSchedule& schedule) -> std::string {
    try {
      CheckSchedule(schedule);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_EQ(error({}), "(no error)");
  EXPECT_EQ(error({.kind = "cosin"}),
            "learning-rate schedule 'cosin' is unknown; use constant, linear, cosine");
  EXPECT_EQ(error({.lr = -1}), "lr -1 is not in [0, 1e6)");
  EXPECT_EQ(error({.lr = std::nan("")}), "lr nan is not in [0, 1e6)");
  EXPECT_EQ(error({.warmup_steps = -1}), "-1 steps of warm-up; give 0 or more");
  EXPECT_EQ(error({.kind = "linear", .total_steps = 0}),
            "a linear schedule over 0 steps; give 1 or more");
  EXPECT_EQ(error({.kind = "cosine", .warmup_steps = 5, .total_steps = 5}),
            "5 steps of warm-up do not end before the 5 steps of the run; use fewer");
  EXPECT_EQ(error({.final_fraction = 1.5}),
            "the final fraction of the learning rate is 1.5, not in [0, 1]");
}

}  // namespace
}  // namespace heddle
