// Element types of tensors, with their names in the text form ("f32") and in safetensors ("F32").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace heddle {

enum class DType : uint8_t { kF32, kF64, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

struct DTypeInfo {
  DType dtype;
  std::string_view name;         // text form
  std::string_view safetensors;  // header of a safetensors file
  int64_t size;                  // bytes per element
};

// Every element type, in the order of the enumeration.
std::span<const DTypeInfo> AllDTypes();

const DTypeInfo& Info(DType dtype);
inline std::string_view Name(DType dtype) { return Info(dtype).name; }
inline int64_t SizeOf(DType dtype) { return Info(dtype).size; }
bool IsFloat(DType dtype);

// Is T the C++ type that elements of `dtype` are stored as? That of bool is uint8_t; the 16-bit floats are uint16_t.
template <class T>
bool IsStoredAs(DType dtype) {
  bool small_float = dtype == DType::kF16 || dtype == DType::kBF16;
  bool is_float = IsFloat(dtype) && !small_float;
  bool is_signed = is_float || (!small_float && dtype != DType::kU8 && dtype != DType::kBool);
  return sizeof(T) == static_cast<size_t>(SizeOf(dtype)) &&
         std::is_floating_point_v<T> == is_float && std::is_signed_v<T> == is_signed;
}

std::optional<DType> DTypeFromName(std::string_view name);
std::optional<DType> DTypeFromSafetensors(std::string_view name);

}  // namespace heddle
