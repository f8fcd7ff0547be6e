#include "frontend/onnx/tensor_data.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "frontend/onnx/external_data.h"

namespace heddle {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data is little-endian");

using heddle_onnx::TensorProto;

struct OnnxTypeInfo {
  std::string_view name;
  std::optional<DType> dtype;
};

// In the order of their numbers in ONNX.
constexpr auto kTypes = std::to_array<OnnxTypeInfo>({
    {"undefined", std::nullopt},
    {"float", DType::kF32},
    {"uint8", DType::kU8},
    {"int8", DType::kI8},
    {"uint16", std::nullopt},
    {"int16", DType::kI16},
    {"int32", DType::kI32},
    {"int64", DType::kI64},
    {"string", std::nullopt},
    {"bool", DType::kBool},
    {"float16", DType::kF16},
    {"double", DType::kF64},
    {"uint32", std::nullopt},
    {"uint64", std::nullopt},
    {"complex64", std::nullopt},
    {"complex128", std::nullopt},
    {"bfloat16", DType::kBF16},
    {"float8e4m3fn", std::nullopt},
    {"float8e4m3fnuz", std::nullopt},
    {"float8e5m2", std::nullopt},
    {"float8e5m2fnuz", std::nullopt},
    {"uint4", std::nullopt},
    {"int4", std::nullopt},
});

constexpr int kUInt16 = 4, kUInt32 = 12, kUInt64 = 13;

// The type for the numbers of an unsigned ONNX type that heddle does not have.
std::optional<DType> Widened(int number) {
  if (number == kUInt16) return DType::kI32;
  if (number == kUInt32 || number == kUInt64) return DType::kI64;
  return DTypeFromOnnx(number);
}

template <class To, class From>
void Fill(HostTensor& tensor, const From& values, std::string_view what) {
  auto out = tensor.as<To>();
  size_t i = 0;
  for (const auto value : values) {
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(value)) {
        ThrowInput("{}: element {} is {}, which does not fit {}", what, i, value,
                   Name(tensor.dtype));
      }
    }
    out[i++] = static_cast<To>(value);
  }
}

void CheckCount(int64_t found, int64_t wanted, std::string_view what) {
  if (found != wanted) {
    ThrowInput("{}: has {} elements of data, its shape asks for {}; the file is damaged", what,
               found, wanted);
  }
}

// int32_data contains all integer types of up to 32 bits, bool, and the bits of f16 and bf16.
void FillFromInt32(HostTensor& tensor, const TensorProto& proto, std::string_view what) {
  const auto& values = proto.int32_data();
  switch (tensor.dtype) {
    case DType::kI32:
      return Fill<int32_t>(tensor, values, what);
    case DType::kI16:
      return Fill<int16_t>(tensor, values, what);
    case DType::kI8:
      return Fill<int8_t>(tensor, values, what);
    case DType::kU8:
      return Fill<uint8_t>(tensor, values, what);
    case DType::kF16:
    case DType::kBF16:
      return Fill<uint16_t>(tensor, values, what);
    default:
      break;
  }
  auto out = tensor.as<uint8_t>();
  for (int i = 0; i < values.size(); ++i) out[static_cast<size_t>(i)] = values.Get(i) != 0;
}

template <class From, class To>
void Widen(const std::string& raw, HostTensor& tensor, std::string_view what) {
  std::vector<From> values(raw.size() / sizeof(From));
  std::memcpy(values.data(), raw.data(), values.size() * sizeof(From));
  Fill<To>(tensor, values, what);
}

void FillFromRaw(HostTensor& tensor, const std::string& raw, int number, std::string_view what) {
  const int64_t size = number == kUInt16 ? 2 : number == kUInt32 ? 4 : SizeOf(tensor.dtype);
  const auto length = static_cast<int64_t>(raw.size());
  if (length % size != 0 || length / size != tensor.size()) {
    ThrowInput(
        "{}: has {} bytes of data, its shape asks for {} elements of {}; the file is damaged", what,
        length, tensor.size(), OnnxDTypeName(number));
  }
  if (number == kUInt16) return Widen<uint16_t, int32_t>(raw, tensor, what);
  if (number == kUInt32) return Widen<uint32_t, int64_t>(raw, tensor, what);
  if (number == kUInt64) return Widen<uint64_t, int64_t>(raw, tensor, what);
  if (!raw.empty()) std::memcpy(tensor.data.data(), raw.data(), raw.size());
  if (tensor.dtype == DType::kBool) {
    for (uint8_t& element : tensor.as<uint8_t>()) element = element != 0;
  }
}

// The number of elements in the typed field that ONNX uses for this type.
int64_t TypedCount(const TensorProto& proto, int number, DType dtype) {
  if (number == kUInt32 || number == kUInt64) return proto.uint64_data_size();
  if (number == kUInt16) return proto.int32_data_size();
  switch (dtype) {
    case DType::kF32:
      return proto.float_data_size();
    case DType::kF64:
      return proto.double_data_size();
    case DType::kI64:
      return proto.int64_data_size();
    default:
      return proto.int32_data_size();
  }
}

void FillFromTyped(HostTensor& tensor, const TensorProto& proto, int number,
                   std::string_view what) {
  if (number == kUInt32 || number == kUInt64)
    return Fill<int64_t>(tensor, proto.uint64_data(), what);
  switch (tensor.dtype) {
    case DType::kF32:
      return Fill<float>(tensor, proto.float_data(), what);
    case DType::kF64:
      return Fill<double>(tensor, proto.double_data(), what);
    case DType::kI64:
      return Fill<int64_t>(tensor, proto.int64_data(), what);
    default:
      return FillFromInt32(tensor, proto, what);
  }
}

void FillExternal(FileTensor& tensor, const TensorProto& proto, int number,
                  const std::filesystem::path& folder, std::string_view what) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& entry : proto.external_data()) entries.emplace_back(entry.key(), entry.value());
  const ExternalData place = ParseExternalData(entries, what);
  if (number == kUInt16 || number == kUInt32 || number == kUInt64) {
    ThrowInput("{}: external data of type {} is not supported; store it as int64", what,
               OnnxDTypeName(number));
  }
  const int64_t size = ByteCount(tensor.type, what);
  tensor.storage = fmt::format("{}:{}:{}", place.location, place.offset, size);
  auto bytes = ReadExternalData(folder, place, size, what);
  if (!bytes) return;
  HostTensor host;
  host.dtype = tensor.type.dtype;
  host.shape = tensor.type.shape;
  host.data = std::move(*bytes);
  if (host.dtype == DType::kBool) {
    for (uint8_t& element : host.as<uint8_t>()) element = element != 0;
  }
  tensor.data = std::make_shared<HostTensor>(std::move(host));
}

}  // namespace

std::optional<DType> DTypeFromOnnx(int64_t number) {
  if (number < 0 || number >= std::ssize(kTypes)) return std::nullopt;
  return kTypes[static_cast<size_t>(number)].dtype;
}

std::string OnnxDTypeName(int64_t number) {
  if (number < 0 || number >= std::ssize(kTypes)) return fmt::format("type {}", number);
  return std::string(kTypes[static_cast<size_t>(number)].name);
}

FileTensor DecodeTensor(TensorProto& proto, const std::filesystem::path& folder,
                        std::string_view what) {
  FileTensor tensor;
  tensor.name = proto.name();
  const int number = proto.data_type();
  const std::optional<DType> dtype = Widened(number);
  if (!dtype) {
    ThrowInput(
        "{}: has element type {}, which heddle does not support; use a float, integer or bool type",
        what, OnnxDTypeName(number));
  }
  if (proto.dims_size() > kMaxRank) {
    ThrowInput("{}: has {} dimensions, at most {} are supported", what, proto.dims_size(),
               kMaxRank);
  }
  tensor.type = {*dtype, Shape(proto.dims().begin(), proto.dims().end())};
  const int64_t count = ElementCount(tensor.type.shape, what);
  ByteCount(tensor.type, what);
  if (proto.data_location() == 1) {
    FillExternal(tensor, proto, number, folder, what);
    return tensor;
  }
  const bool raw = !proto.raw_data().empty();
  // Checked before memory is allocated: a few bytes of a file must not cause an allocation of gigabytes.
  if (raw) {
    const auto length = static_cast<int64_t>(proto.raw_data().size());
    if (length < count) CheckCount(length / SizeOf(*dtype), count, what);
  } else {
    CheckCount(TypedCount(proto, number, *dtype), count, what);
  }
  HostTensor host(*dtype, tensor.type.shape);
  if (raw) {
    FillFromRaw(host, proto.raw_data(), number, what);
    proto.clear_raw_data();
  } else {
    FillFromTyped(host, proto, number, what);
  }
  tensor.data = std::make_shared<HostTensor>(std::move(host));
  return tensor;
}

}  // namespace heddle
