// Kernels agree between element types and devices: f32 on every device there is with f64 on the host, random
// numbers included, forward and gradients. On GPUs they also run in the types of mixed precision.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/kernels/op_case.h"

namespace heddle {
namespace {

std::vector<at::Device> Devices() {
  std::vector<at::Device> devices = {at::kCPU};
  if (at::hasCUDA()) devices.push_back(at::kCUDA);
  return devices;
}

// cuDNN convolves f32 in TF32, of 10 bits.
double Tolerance(at::Device device) { return device.is_cuda() ? 1e-2 : 1e-4; }

class Precision : public testing::TestWithParam<size_t> {};

TEST_P(Precision, SinglePrecisionAgreesWithDouble) {
  const OpSampler& sampler = AllSamplers()[GetParam()];
  for (uint64_t seed = 0; seed < 5; ++seed) {
    OpCase wide(sampler, SampleRng(seed));
    for (at::Device device : Devices()) {
      OpCase narrow(sampler, SampleRng(seed), DType::kF32, device);
      std::string what = ToString(wide.rule) + " on " + device.str();
      for (size_t r = 0; r < wide.whole.results.size(); ++r) {
        EXPECT_LE(Difference(narrow.whole.results[r], wide.whole.results[r]), Tolerance(device))
            << what << ", result " << r;
      }
      for (size_t o = 0; o < wide.whole.gradients.size(); ++o) {
        EXPECT_LE(Difference(narrow.whole.gradients[o], wide.whole.gradients[o]), Tolerance(device))
            << what << ", gradient " << o;
      }
      for (DType dtype : {DType::kBF16, DType::kF16}) {
        if (!device.is_cuda()) continue;  // libtorch lacks many of them on the host
        EXPECT_NO_THROW(OpCase(sampler, SampleRng(seed), dtype, device)) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Precision, testing::Range(size_t{0}, AllSamplers().size()),
                         [](const auto& info) {
                           return std::string(AllSamplers()[info.param].op) + "_" +
                                  std::to_string(info.param);
                         });

}  // namespace
}  // namespace heddle
