#include "cost/constants.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"

namespace heddle {
namespace {

constexpr std::array<DeviceConstants, 6> kDevices = {{
    {.prefix = "", .processors = 64},
    {.prefix = "cpu", .processors = 1, .products = 0.7, .launch = 2e-6},
    {.prefix = "v100", .processors = 80},
    {.prefix = "a100", .processors = 108},
    {.prefix = "h100", .processors = 132},
    {.prefix = "h200", .processors = 132},
}};

constexpr StackCosts kStacks[] = {
    {.name = "heddle", .about = "heddle's own runtime"},
    {.name = "unknown", .about = ""},
    {.name = "megatron 2020", .about = "", .fused_elementwise = true, .overlap_gradients = false, .overlap_transfers = false},
    {.name = "megatron 2021", .about = "", .fused_elementwise = true, .overlap_gradients = false, .overlap_transfers = false},
    {.name = "megatron 2022", .about = "", .fused_elementwise = true, .overlap_gradients = false, .overlap_transfers = false},
    {.name = "deepspeed zero3 2021", .about = "", .overlap_gradients = false, .overlap_weights = false},
    {.name = "megatron-deepspeed 2022", .about = "", .fused_elementwise = true, .overlap_gradients = false, .overlap_transfers = false},
    {.name = "gpt-neox 2022", .about = "", .fused_elementwise = true},
    {.name = "megascale 2023", .about = "", .fused_elementwise = true},
    {.name = "megatron-core 2024", .about = "", .fused_elementwise = true},
    {.name = "megatron-bridge 2025", .about = "", .fused_elementwise = true},
    {.name = "nemo 2023", .about = "", .fused_elementwise = true},
    {.name = "zero-bubble 2023", .about = "", .fused_elementwise = true, .overlap_gradients = false, .overlap_transfers = false},
    {.name = "torchtitan eager", .about = ""},
    {.name = "torchtitan compile", .about = "", .fused_elementwise = true},
    {.name = "llama3 2024", .about = "", .fused_elementwise = true},
    {.name = "fsdp ibm", .about = "", .fused_elementwise = true},
    {.name = "llm-foundry", .about = ""},
    {.name = "llm.c", .about = "", .fused_elementwise = true},
    {.name = "nanogpt", .about = "", .fused_elementwise = true},
    {.name = "alpa", .about = "", .fused_elementwise = true},
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

const StackCosts& FindStackCosts(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StackCosts& stack : kStacks) {
    if (stack.name == name) return stack;
    names.push_back(stack.name);
  }
  ThrowInput("there is no stack '{}'; those there are: {}", name, fmt::join(names, ", "));
}

int ConstantCount() {
  constexpr int kPerDevice = 8, kPerStack = 6;
  return static_cast<int>(kDevices.size()) * kPerDevice +
         static_cast<int>(std::size(kStacks)) * kPerStack;
}

}  // namespace heddle
