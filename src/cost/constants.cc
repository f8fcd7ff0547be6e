#include "cost/constants.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"

namespace heddle {
namespace {

const DeviceConstants kDevices[] = {
    {.prefix = "", .processors = 64},
    {.prefix = "cpu", .processors = 1, .products = 0.7, .launch = 2e-6},
    {.prefix = "v100", .processors = 80, .products = 0.646, .traffic = 0.776, .near = 0.78},
    {.prefix = "a100",
     .processors = 108,
     .products = 0.724,
     .attention = 0.41,
     .traffic = 0.707,
     .near = 0.709,
     .far = 0.619},
    {.prefix = "h",
     .processors = 132,
     .products = 0.554,
     .fp8 = 0.547,
     .attention = 0.276,
     .traffic = 0.678,
     .near = 0.817,
     .far = 0.795},
};

constexpr StackCosts kStacks[] = {
    {.name = "heddle", .about = "heddle's own runtime"},
    {.name = "unknown", .about = "published runs of software that is not in this table"},
    {.name = "megatron 2020",
     .about = "Megatron-LM, September 2020: fused softmax, bias and dropout kernels; collectives "
              "not overlapped",
     .fused_elementwise = true,
     .overlap_gradients = false,
     .overlap_transfers = false,
     .products = 0.927,
     .traffic = 0.929},
    {.name = "megatron 2021",
     .about = "Megatron-LM as in Narayanan et al., SC'21",
     .fused_elementwise = true,
     .overlap_gradients = false,
     .overlap_transfers = false,
     .traffic = 0.938,
     .links = 0.94},
    {.name = "megatron 2022",
     .about = "Megatron-LM as in Korthikanti et al. 2022",
     .fused_elementwise = true,
     .overlap_gradients = false,
     .overlap_transfers = false,
     .products = 0.929,
     .traffic = 0.937,
     .links = 0.863},
    {.name = "deepspeed zero3 2021",
     .about = "DeepSpeed ZeRO 3 as in Narayanan et al., SC'21: weights fetched tensor by tensor",
     .overlap_gradients = false,
     .overlap_weights = false,
     .products = 1.04,
     .traffic = 1.02,
     .links = 3.05},
    {.name = "megatron-deepspeed 2022",
     .about = "BLOOM and MT-NLG: Megatron's kernels, DeepSpeed's pipeline",
     .fused_elementwise = true,
     .overlap_gradients = false,
     .overlap_transfers = false,
     .products = 1.05,
     .links = 1.96},
    {.name = "gpt-neox 2022",
     .about = "GPT-NeoX with DeepSpeed",
     .fused_elementwise = true,
     .products = 1.15,
     .attention = 1.41,
     .traffic = 1.5,
     .links = 1.12},
    {.name = "megascale 2023", .about = "MegaScale", .fused_elementwise = true},
    {.name = "megatron-core 2024", .about = "Megatron-Core", .fused_elementwise = true},
    {.name = "megatron-bridge 2025", .about = "Megatron-Bridge", .fused_elementwise = true},
    {.name = "nemo 2023",
     .about = "NeMo with Transformer Engine",
     .fused_elementwise = true,
     .traffic = 1.03,
     .links = 0.74,
     .host = 0.19e-3},
    {.name = "zero-bubble 2023",
     .about = "Qi et al.'s fork of Megatron-LM",
     .fused_elementwise = true,
     .overlap_gradients = false,
     .overlap_transfers = false,
     .frees_after_b = true,
     .products = 0.943,
     .traffic = 0.798,
     .links = 1.05},
    {.name = "torchtitan eager",
     .about = "torchtitan without torch.compile",
     .products = 1.03,
     .attention = 1.07,
     .traffic = 1.04},
    {.name = "torchtitan compile",
     .about = "torchtitan, layers compiled",
     .fused_elementwise = true,
     .products = 0.947,
     .attention = 1.29,
     .traffic = 1.05,
     .links = 1.29},
    {.name = "llama3 2024", .about = "Meta's trainer of Llama 3", .fused_elementwise = true},
    {.name = "fsdp ibm",
     .about = "fms-fsdp, PyTorch FSDP with compile",
     .fused_elementwise = true,
     .attention = 0.909,
     .traffic = 0.947,
     .links = 0.444},
    {.name = "llm-foundry",
     .about = "MosaicML llm-foundry, PyTorch FSDP",
     .attention = 1.32,
     .traffic = 1.06},
    {.name = "llm.c",
     .about = "llm.c: C and CUDA, fused kernels and loss",
     .fused_elementwise = true,
     .fused_loss = true,
     .products = 0.939,
     .attention = 0.942,
     .traffic = 0.893},
    {.name = "nanogpt",
     .about = "nanoGPT with torch.compile",
     .fused_elementwise = true,
     .fused_loss = true,
     .products = 1.03,
     .attention = 1.02,
     .traffic = 1.06,
     .host = 21e-3},
    {.name = "alpa",
     .about = "Alpa on XLA",
     .fused_elementwise = true,
     .products = 1.15,
     .traffic = 1.31,
     .links = 1.19},
};

}  // namespace

std::span<const DeviceConstants> AllDeviceConstants() { return kDevices; }
std::span<const StackCosts> AllStackCosts() { return kStacks; }

const DeviceConstants& ConstantsOf(const DeviceType& device) {
  const DeviceConstants* best = &kDevices[0];
  for (const DeviceConstants& entry : kDevices) {
    if (device.name.starts_with(entry.prefix) && entry.prefix.size() >= best->prefix.size()) {
      best = &entry;
    }
  }
  return *best;
}

DeviceConstants WithProfile(DeviceConstants constants, const std::shared_ptr<const Profile>& given,
                            int64_t ranks) {
  const Profile& profile = *given;
  constants.products = profile.products.value_or(constants.products);
  constants.fp8 = profile.fp8.value_or(constants.fp8);
  constants.attention = profile.attention.value_or(constants.attention);
  constants.traffic = profile.traffic.value_or(constants.traffic);
  constants.near = profile.near.value_or(constants.near);
  constants.far = profile.far.value_or(constants.far);
  constants.launch = profile.launch.value_or(constants.launch);
  if (const LoadTimes* load = LoadFor(profile, ranks)) constants.measured = {given, load};
  return constants;
}

const StackCosts& FindStackCosts(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StackCosts& stack : kStacks) {
    if (stack.name == name) return stack;
    names.push_back(stack.name);
  }
  ThrowInput("unknown software stack '{}'; known stacks are {}", name, fmt::join(names, ", "));
}

int ConstantCount() {
  const DeviceConstants device;
  const StackCosts stack;
  int count = kShapeConstants + 8 + 5;  // and those that both tables default to
  for (const DeviceConstants& at : kDevices) {
    count += 1 + (at.products != device.products) + (at.fp8 != device.fp8) +
             (at.attention != device.attention) + (at.traffic != device.traffic) +
             (at.launch != device.launch) + (at.near != device.near) + (at.far != device.far);
  }
  for (const StackCosts& at : kStacks) {
    count += (at.products != stack.products) + (at.attention != stack.attention) +
             (at.traffic != stack.traffic) + (at.links != stack.links) + (at.host != stack.host);
  }
  return count;
}

}  // namespace heddle
