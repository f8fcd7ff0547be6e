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

// Whether T is the C++ type that stores elements of `dtype`, or an unsigned integer of the same size, which views their
// bits. bool and the 16-bit floats can only be viewed as bits.
template <class T>
bool IsStoredAs(DType dtype) {
  bool bits = std::is_unsigned_v<T> && std::is_integral_v<T>;
  bool bits_only =
      dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kBool || dtype == DType::kU8;
  bool same = !bits_only && std::is_floating_point_v<T> == IsFloat(dtype);
  return sizeof(T) == static_cast<size_t>(SizeOf(dtype)) && (bits || same);
}

std::optional<DType> DTypeFromName(std::string_view name);
std::optional<DType> DTypeFromSafetensors(std::string_view name);

}  // namespace heddle
