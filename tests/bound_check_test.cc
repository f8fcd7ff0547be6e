// Compares the lower bounds of the search with some hundreds of plans of its space;
// bound_check_slow_test.cc takes thousands.
#include "bound_check.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

class BoundsOfSomePlans : public testing::TestWithParam<BoundCase> {};

TEST_P(BoundsOfSomePlans, NoneIsRefuted) {
  BoundCheck check(GetParam(), 1);
  check.Run(36, 36);
  fmt::print("{}\n", check.Summary());
  EXPECT_GE(check.plans(), 60);
  EXPECT_GE(check.fitting(), 5);
  for (const BoundViolation& violation : check.Worst()) ADD_FAILURE() << violation.text;
}

INSTANTIATE_TEST_SUITE_P(
    All, BoundsOfSomePlans,
    testing::Values(
        BoundCase{"gpt:layers=4,hidden=1024,heads=16,seq=512,vocab=8192,batch=16", "dgx-h100:1"},
        BoundCase{"gpt:layers=12,hidden=2048,heads=16,seq=512,vocab=512,batch=32", "dgx-h100:1",
                  0.7},
        BoundCase{"llama:layers=4,hidden=1024,heads=16,kv_heads=4,seq=512,vocab=8192,batch=16",
                  "dgx-a100:2", 0.6},
        BoundCase{"moe:layers=4,dense_layers=2,hidden=512,heads=8,experts=8,seq=256,vocab=512,"
                  "batch=16",
                  "summit:1", 0, DType::kF16},
        BoundCase{"t5:layers=2,hidden=512,heads=8,seq=256,vocab=4096,batch=16", "v100x4:1", 0.7,
                  DType::kF16},
        BoundCase{"resnet:depth=18,image=64,batch=32", "1080tix2:2", 0, DType::kF32, "momentum",
                  true}),
    [](const auto& info) {
      const std::string& text = info.param.model;
      return text.substr(0, text.find(':')) + std::to_string(info.index);
    });

}  // namespace
}  // namespace heddle
