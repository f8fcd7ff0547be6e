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

constexpr std::array<Stack, 1> kStacks = {{
    {.name = "heddle", .about = "heddle's own runtime"},
}};

}  // namespace

std::span<const DeviceConstants> AllDeviceConstants() { return kDevices; }
std::span<const Stack> AllStacks() { return kStacks; }

const DeviceConstants& ConstantsOf(const DeviceType& device) {
  const DeviceConstants* best = &kDevices[0];
  for (const DeviceConstants& entry : kDevices) {
    if (device.name.starts_with(entry.prefix) && entry.prefix.size() >= best->prefix.size()) {
      best = &entry;
    }
  }
  return *best;
}

const Stack& FindStack(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Stack& stack : kStacks) {
    if (stack.name == name) return stack;
    names.push_back(stack.name);
  }
  ThrowInput("there is no stack '{}'; those there are: {}", name, fmt::join(names, ", "));
}

int ConstantCount() {
  constexpr int kPerDevice = 8, kPerStack = 6;
  return static_cast<int>(kDevices.size()) * kPerDevice +
         static_cast<int>(kStacks.size()) * kPerStack;
}

}  // namespace heddle
