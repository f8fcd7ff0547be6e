#include "graph/dtype.h"

#include <algorithm>
#include <array>

namespace heddle {
namespace {

constexpr std::array<DTypeInfo, 10> kInfos = {{
    {DType::kF32, "f32", "F32", 4},
    {DType::kF64, "f64", "F64", 8},
    {DType::kF16, "f16", "F16", 2},
    {DType::kBF16, "bf16", "BF16", 2},
    {DType::kI64, "i64", "I64", 8},
    {DType::kI32, "i32", "I32", 4},
    {DType::kI16, "i16", "I16", 2},
    {DType::kI8, "i8", "I8", 1},
    {DType::kU8, "u8", "U8", 1},
    {DType::kBool, "bool", "BOOL", 1},
}};

template <class Field>
std::optional<DType> Find(std::string_view name, Field field) {
  auto it = std::find_if(kInfos.begin(), kInfos.end(),
                         [&](const DTypeInfo& info) { return info.*field == name; });
  if (it == kInfos.end()) return std::nullopt;
  return it->dtype;
}

}  // namespace

std::span<const DTypeInfo> AllDTypes() { return kInfos; }

const DTypeInfo& Info(DType dtype) { return kInfos[static_cast<size_t>(dtype)]; }

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

std::optional<DType> DTypeFromName(std::string_view name) { return Find(name, &DTypeInfo::name); }

std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  return Find(name, &DTypeInfo::safetensors);
}

}  // namespace heddle
