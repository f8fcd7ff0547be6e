#include "frontend/const_eval.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "frontend/const_eval_internal.h"

namespace heddle {
namespace const_eval {
namespace {

// Whether all blocks of `block` bytes in the first `bytes` bytes are equal.
bool Repeats(const std::byte* data, size_t bytes, size_t block) {
  return bytes <= block || std::memcmp(data, data + block, bytes - block) == 0;
}

template <class T>
void CopyRow(const T* source, int64_t source_step, T* target, int64_t target_step, int64_t n) {
  if (source_step == 1 && target_step == 1) {
    std::memcpy(target, source, static_cast<size_t>(n) * sizeof(T));
  } else if (source_step == 0 && target_step == 1) {
    std::fill_n(target, n, *source);
  } else {
    for (int64_t i = 0; i < n; ++i) target[i * target_step] = source[i * source_step];
  }
}

bool Fits(const Shape& storage, const Shape& shape) {
  return std::equal(storage.begin(), storage.end(), shape.begin(), shape.end(),
                    [](int64_t stored, int64_t size) { return stored == size || stored == 1; });
}

const Entry* FindEntry(std::string_view op) {
  for (std::span<const Entry> family :
       {UnaryEntries(), BinaryEntries(), MovementEntries(), IndexEntries(), ReduceEntries()}) {
    for (const Entry& entry : family) {
      if (entry.op == op) return &entry;
    }
  }
  return nullptr;
}

bool IsEmpty(const Shape& shape) { return std::ranges::find(shape, 0) != shape.end(); }

ConstTensor EmptyTensor(const TensorType& type) {
  return {type.shape, std::make_shared<const HostTensor>(type.dtype, type.shape)};
}

}  // namespace

std::optional<HostTensor> Allocate(DType dtype, Shape shape) {
  if (ExceedsCap(dtype, shape)) return std::nullopt;
  return HostTensor(dtype, std::move(shape));
}

bool ExceedsCap(DType dtype, const Shape& shape) {
  return ByteCount({dtype, shape}, "constant") > kMaxStorageBytes;
}

ConstTensor MakeResult(const Call& call, size_t index, std::shared_ptr<const HostTensor> storage) {
  HEDDLE_CHECK(index < call.result_types.size(), "result {} of {}", index, call.op);
  const TensorType& type = call.result_types[index];
  if (!Fits(storage->shape, type.shape)) {
    ThrowInput("{}: operands and attributes give {}, which does not fit the result {}", call.op,
               ToString(storage->shape), ToString(type));
  }
  return {type.shape, InType(storage, type.dtype)};
}

ConstTensor MakeResult(const Call& call, size_t index, HostTensor storage,
                       Compression compression) {
  if (compression == Compression::kTry && storage.size() <= kMaxCompressElements) {
    storage = CompressStorage(std::move(storage));
  }
  return MakeResult(call, index, std::make_shared<const HostTensor>(std::move(storage)));
}

Results One(const Call& call, HostTensor storage, Compression compression) {
  return std::vector{MakeResult(call, 0, std::move(storage), compression)};
}

std::shared_ptr<const HostTensor> InType(const std::shared_ptr<const HostTensor>& tensor,
                                         DType dtype) {
  if (tensor->dtype == dtype) return tensor;
  return std::make_shared<const HostTensor>(CastStorage(*tensor, dtype));
}

DType Domain(DType dtype) {
  if (dtype == DType::kF64) return DType::kF64;
  return IsFloat(dtype) ? DType::kF32 : DType::kI64;
}

std::optional<ConstTensor> Unrepeat(const ConstTensor& tensor, const std::vector<bool>& dims) {
  Shape shape = tensor.storage->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (dims[d]) shape[d] = tensor.shape[d];
  }
  if (shape == tensor.storage->shape) return tensor;
  std::optional<HostTensor> dense = Allocate(tensor.dtype(), shape);
  if (!dense) return std::nullopt;
  CopyBox(shape, *tensor.storage, {0, BroadcastStrides(tensor.storage->shape)}, *dense,
          {0, BroadcastStrides(shape)});
  return ConstTensor{tensor.shape, std::make_shared<const HostTensor>(*std::move(dense))};
}

std::optional<ConstTensor> Unrepeat(const ConstTensor& tensor, size_t dim) {
  std::vector<bool> dims(tensor.shape.size());
  dims[dim] = true;
  return Unrepeat(tensor, dims);
}

std::optional<HostTensor> Dense(const ConstTensor& tensor) {
  if (ExceedsCap(tensor.dtype(), tensor.shape)) return std::nullopt;
  return Materialize(tensor, kMaxStorageBytes);
}

HostTensor CompressStorage(HostTensor tensor) {
  const auto element = static_cast<size_t>(SizeOf(tensor.dtype));
  for (size_t d = tensor.shape.size(); d-- > 0;) {
    const int64_t n = tensor.shape[d];
    if (n <= 1 || tensor.data.empty()) continue;
    size_t block = element;
    for (size_t i = d + 1; i < tensor.shape.size(); ++i)
      block *= static_cast<size_t>(tensor.shape[i]);
    const size_t run = block * static_cast<size_t>(n);
    const size_t runs = tensor.data.size() / run;
    const std::byte* data = tensor.data.data();
    bool repeats = true;
    for (size_t i = 0; i < runs && repeats; ++i) repeats = Repeats(data + i * run, run, block);
    if (!repeats) continue;
    std::vector<std::byte> kept(runs * block);
    for (size_t i = 0; i < runs; ++i) std::memcpy(kept.data() + i * block, data + i * run, block);
    tensor.data = std::move(kept);
    tensor.shape[d] = 1;
  }
  return tensor;
}

size_t AxisAttr(const Call& call, size_t rank) {
  const int64_t axis = IntAttr(call.attributes, "axis");
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) {
    ThrowInput("{}: axis {} is out of range for rank {}", call.op, axis, rank);
  }
  return static_cast<size_t>(axis);
}

void ThrowIndex(const Call& call, int64_t index, int64_t bound) {
  ThrowInput("{}: index {} is out of range for a dimension of {}", call.op, index, bound);
}

Shape BroadcastStrides(std::span<const int64_t> dims, size_t rank) {
  Shape strides(rank, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = dims[dims.size() - 1 - i];
    if (size != 1) strides[rank - 1 - i] = stride;
    stride = WrapMul(stride, size);  // strides can wrap only where the tensor is empty
  }
  return strides;
}

void CopyBox(std::span<const int64_t> dims, const HostTensor& source, const Strided& from,
             HostTensor& target, const Strided& to) {
  HEDDLE_CHECK(source.dtype == target.dtype, "{} and {}", Name(source.dtype), Name(target.dtype));
  if (std::ranges::find(dims, 0) != dims.end()) return;
  VisitBits(source.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* read = source.as<T>().data() + from.base;
    T* write = target.as<T>().data() + to.base;
    ForEachRow<2>(dims, {from.strides, to.strides}, [&](auto& at, int64_t n, auto& step) {
      CopyRow(read + at[0], step[0], write + at[1], step[1], n);
    });
  });
}

int64_t WrapPow(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = WrapMul(result, base);
    base = WrapMul(base, base);
  }
  return result;
}

}  // namespace const_eval

ConstTensor Compress(HostTensor tensor) {
  Shape shape = tensor.shape;
  return {std::move(shape),
          std::make_shared<const HostTensor>(const_eval::CompressStorage(std::move(tensor)))};
}

HostTensor Materialize(const ConstTensor& tensor, int64_t max_bytes) {
  const int64_t bytes = ByteCount(tensor.type(), "constant");
  if (bytes > max_bytes) {
    ThrowInput("a constant {} takes {} bytes in full, more than the {} allowed",
               ToString(tensor.type()), bytes, max_bytes);
  }
  if (tensor.storage->shape == tensor.shape) return *tensor.storage;
  HostTensor dense(tensor.dtype(), tensor.shape);
  const_eval::CopyBox(tensor.shape, *tensor.storage,
                      {0, const_eval::BroadcastStrides(tensor.storage->shape)}, dense,
                      {0, const_eval::BroadcastStrides(tensor.shape)});
  return dense;
}

std::optional<double> SplatValue(const ConstTensor& tensor) {
  const HostTensor& storage = *tensor.storage;
  if (storage.data.empty() || const_eval::IsEmpty(tensor.shape)) return std::nullopt;
  if (!const_eval::Repeats(storage.data.data(), storage.data.size(),
                           static_cast<size_t>(SizeOf(storage.dtype)))) {
    return std::nullopt;
  }
  const double value = AsDouble(storage, 0);
  if (storage.dtype != DType::kI64) return value;
  const bool exact = value < 0x1p63 && static_cast<int64_t>(value) == storage.as<int64_t>()[0];
  return exact ? std::optional(value) : std::nullopt;
}

std::vector<int64_t> ToInts(const ConstTensor& tensor, std::string_view what) {
  constexpr int64_t kMaxInts = 1024;
  if (IsFloat(tensor.dtype()) || tensor.dtype() == DType::kBool) {
    ThrowInput("{}: {} where integers are needed", what, ToString(tensor.type()));
  }
  if (ElementCount(tensor.shape, what) > kMaxInts) {
    ThrowInput("{}: {} has more than {} elements", what, ToString(tensor.type()), kMaxInts);
  }
  const HostTensor ints = const_eval::CastStorage(Materialize(tensor), DType::kI64);
  const std::span<const int64_t> values = ints.as<int64_t>();
  return {values.begin(), values.end()};
}

std::optional<std::vector<ConstTensor>> EvaluateConstant(std::string_view op,
                                                         const Attributes& attributes,
                                                         std::span<const ConstTensor> operands,
                                                         std::span<const TensorType> result_types) {
  using namespace const_eval;
  const Entry* entry = FindEntry(op);
  if (entry == nullptr) return std::nullopt;
  if (operands.size() < entry->min_operands) {
    ThrowInput("{}: {} operands where {} are needed", op, operands.size(), entry->min_operands);
  }
  for (const TensorType& type : result_types) ElementCount(type.shape, op);
  if (std::ranges::all_of(result_types, [](auto& type) { return IsEmpty(type.shape); })) {
    std::vector<ConstTensor> results;
    for (const TensorType& type : result_types) results.push_back(EmptyTensor(type));
    return results;
  }
  std::vector<ConstTensor> normal(operands.begin(), operands.end());
  for (ConstTensor& operand : normal) {
    ElementCount(operand.shape, op);
    if (IsEmpty(operand.shape)) operand = EmptyTensor(operand.type());
  }
  return entry->evaluate({op, attributes, normal, result_types});
}

}  // namespace heddle
