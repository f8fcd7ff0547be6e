// Ops that read or write at positions given by an operand. Indices are checked even where the indexed data repeats.
#include <algorithm>

#include "base/error.h"
#include "frontend/const_eval_internal.h"

namespace heddle::const_eval {
namespace {

int64_t Product(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t size : dims) product *= size;
  return product;
}

void RequireShape(const Call& call, std::string_view what, const Shape& actual,
                  const Shape& expected) {
  if (actual == expected) return;
  ThrowInput("{}: {} are {} where {} is needed", call.op, what, ToString(actual),
             ToString(expected));
}

// Copies `count` elements at source[begin + offsets[i]...] for every i, consecutively, to target[to_begin...].
void CopySlices(const HostTensor& source, int64_t begin, std::span<const int64_t> offsets,
                int64_t count, HostTensor& target, int64_t to_begin) {
  VisitBits(source.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = source.as<T>().data() + begin;
    T* to = target.as<T>().data() + to_begin;
    if (count == 1) {
      for (const int64_t offset : offsets) *to++ = from[offset];
    } else {
      for (const int64_t offset : offsets) to = std::copy_n(from + offset, count, to);
    }
  });
}

// --- Gathering -----------------------------------------------------------------------------------

Results Gather(const Call& call) {
  const ConstTensor& data = call.operand(0);
  const size_t axis = AxisAttr(call, data.shape.size());
  const Shape& stored = data.storage->shape;
  const auto indices = InType(call.operand(1).storage, DType::kI64);
  std::vector<int64_t> positions;
  for (const int64_t index : indices->as<int64_t>()) {
    positions.push_back(NormalIndex(call, index, data.shape[axis]));
  }
  const bool repeats = stored[axis] == 1;  // then every index gives the same elements
  if (repeats) positions = {0};
  const std::span<const int64_t> dims = stored;
  const int64_t inner = Product(dims.subspan(axis + 1));
  const int64_t outer = Product(dims.first(axis));
  Shape shape(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(axis));
  for (const int64_t size : indices->shape) shape.push_back(repeats ? 1 : size);
  shape.insert(shape.end(), stored.begin() + static_cast<std::ptrdiff_t>(axis) + 1, stored.end());
  std::optional<HostTensor> out = Allocate(data.dtype(), shape);
  if (!out) return std::nullopt;
  for (int64_t& position : positions) position *= inner;
  const int64_t written = static_cast<int64_t>(positions.size()) * inner;
  for (int64_t i = 0; i < outer; ++i) {
    CopySlices(*data.storage, i * stored[axis] * inner, positions, inner, *out, i * written);
  }
  return One(call, *std::move(out), Compression::kTry);
}

// Throws unless the indices along an axis are no larger than the data in all other dimensions.
void RequireElementIndices(const Call& call, size_t axis) {
  const Shape& data = call.shape(0);
  const Shape& indices = call.shape(1);
  bool fits = data.size() == indices.size();
  for (size_t d = 0; d < data.size() && fits; ++d) fits = d == axis || indices[d] <= data[d];
  if (!fits) {
    ThrowInput("{}: indices {} do not fit data {}", call.op, ToString(indices), ToString(data));
  }
}

Results GatherElements(const Call& call) {
  const ConstTensor& data = call.operand(0);
  const ConstTensor& indices = call.operand(1);
  const size_t axis = AxisAttr(call, data.shape.size());
  RequireElementIndices(call, axis);
  Shape shape = indices.storage->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis && data.storage->shape[d] != 1) shape[d] = indices.shape[d];
  }
  std::optional<HostTensor> out = Allocate(data.dtype(), shape);
  if (!out) return std::nullopt;
  const auto index_storage = InType(indices.storage, DType::kI64);
  Shape data_strides = BroadcastStrides(data.storage->shape);
  const int64_t axis_stride = std::exchange(data_strides[axis], 0);
  VisitBits(data.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = data.storage->as<T>().data();
    const int64_t* index = index_storage->as<int64_t>().data();
    T* to = out->as<T>().data();
    ForEachRow<3>(shape,
                  {BroadcastStrides(shape), BroadcastStrides(indices.storage->shape), data_strides},
                  [&](auto& at, int64_t n, auto& step) {
                    for (int64_t i = 0; i < n; ++i) {
                      const int64_t position =
                          NormalIndex(call, index[at[1] + i * step[1]], data.shape[axis]);
                      to[at[0] + i * step[0]] = from[at[2] + i * step[2] + position * axis_stride];
                    }
                  });
  });
  return One(call, *std::move(out), Compression::kTry);
}

// Computes the position in the data that a tuple of indices refers to. Strides and bounds are those of the indexed
// dimensions.
struct TupleIndex {
  std::span<const int64_t> strides;
  std::span<const int64_t> bounds;

  int64_t Offset(const Call& call, const int64_t* tuple, int64_t tuple_step) const {
    int64_t offset = 0;
    for (size_t k = 0; k < strides.size(); ++k) {
      offset +=
          strides[k] * NormalIndex(call, tuple[static_cast<int64_t>(k) * tuple_step], bounds[k]);
    }
    return offset;
  }
};

// The length of the index tuples, which is the last dimension of operand 1.
size_t TupleLength(const Call& call, int64_t batch_dims) {
  const int64_t data_rank = static_cast<int64_t>(call.shape(0).size());
  const int64_t index_rank = static_cast<int64_t>(call.shape(1).size());
  if (index_rank < 1 || batch_dims < 0 || batch_dims >= index_rank || batch_dims > data_rank ||
      call.shape(1).back() > data_rank - batch_dims) {
    ThrowInput("{}: indices {} do not fit data {} with batch_dims {}", call.op,
               ToString(call.shape(1)), ToString(call.shape(0)), batch_dims);
  }
  return static_cast<size_t>(call.shape(1).back());
}

Results GatherND(const Call& call) {
  const ConstTensor& data = call.operand(0);
  const int64_t batch_dims = IntAttr(call.attributes, "batch_dims", 0);
  const size_t tuple_length = TupleLength(call, batch_dims);
  const auto batch = static_cast<size_t>(batch_dims);
  const auto indices = InType(call.operand(1).storage, DType::kI64);
  const Shape& stored = data.storage->shape;

  // `lead` are the positions of the tuples; `rest` is what each tuple copies.
  Shape lead(indices->shape.begin(), indices->shape.end() - 1);
  Shape data_strides = BroadcastStrides(stored);
  Shape batch_strides(lead.size(), 0);
  for (size_t d = 0; d < batch; ++d) {
    if (data.shape[d] != call.shape(1)[d]) {
      ThrowInput("GatherND: batch dimensions of {} and {} differ", ToString(data.shape),
                 ToString(call.shape(1)));
    }
    lead[d] = std::max(lead[d], stored[d]);
    batch_strides[d] = data_strides[d];
  }
  const Shape rest(stored.begin() + static_cast<std::ptrdiff_t>(batch + tuple_length),
                   stored.end());
  Shape shape = lead;
  shape.insert(shape.end(), rest.begin(), rest.end());
  std::optional<HostTensor> out = Allocate(data.dtype(), shape);
  if (!out) return std::nullopt;

  Shape index_strides = BroadcastStrides(indices->shape);
  const int64_t tuple_step = index_strides.back();
  index_strides.pop_back();
  const TupleIndex tuple = {std::span(data_strides).subspan(batch, tuple_length),
                            std::span(data.shape).subspan(batch, tuple_length)};
  std::vector<int64_t> offsets;
  const int64_t* index = indices->as<int64_t>().data();
  ForEachRow<2>(lead, {index_strides, batch_strides}, [&](auto& at, int64_t n, auto& step) {
    for (int64_t i = 0; i < n; ++i) {
      offsets.push_back(at[1] + i * step[1] +
                        tuple.Offset(call, index + at[0] + i * step[0], tuple_step));
    }
  });
  CopySlices(*data.storage, 0, offsets, Product(rest), *out, 0);
  return One(call, *std::move(out), Compression::kTry);
}

// --- Scattering ----------------------------------------------------------------------------------

// Writes or adds the i-th block of `count` elements of the updates at data[offsets[i]...].
Results Scatter(const Call& call, HostTensor data, HostTensor updates,
                std::span<const int64_t> offsets, int64_t count) {
  const std::string reduction = StringAttr(call.attributes, "reduction", "none");
  if (reduction != "none" && reduction != "add") return std::nullopt;
  if (data.dtype != updates.dtype) return std::nullopt;
  const auto apply = [&](auto zero, auto combine) {
    using T = decltype(zero);
    const T* from = updates.as<T>().data();
    for (const int64_t offset : offsets) {
      T* to = data.as<T>().data() + offset;
      for (int64_t i = 0; i < count; ++i) to[i] = combine(to[i], *from++);
    }
  };
  if (reduction == "none") {
    VisitBits(data.dtype,
              [&](auto zero) { apply(zero, [](auto, auto update) { return update; }); });
    return One(call, std::move(data), Compression::kTry);
  }
  const DType domain = Domain(data.dtype);
  data = CastStorage(data, domain);
  updates = CastStorage(updates, domain);
  VisitDomain(domain, [&](auto zero) {
    apply(zero, [](auto old, auto update) { return WrapAdd(old, update); });
  });
  return One(call, std::move(data), Compression::kTry);
}

// The dense operands of a scatter; empty where one is too large.
struct ScatterOperands {
  HostTensor data;
  HostTensor indices;
  HostTensor updates;
};

std::optional<ScatterOperands> DenseOperands(const Call& call) {
  std::optional<HostTensor> data = Dense(call.operand(0));
  std::optional<HostTensor> indices = Dense(call.operand(1));
  std::optional<HostTensor> updates = Dense(call.operand(2));
  if (!data || !indices || !updates) return std::nullopt;
  return ScatterOperands{*std::move(data), CastStorage(*indices, DType::kI64), *std::move(updates)};
}

Results ScatterND(const Call& call) {
  const size_t tuple_length = TupleLength(call, 0);
  const Shape& data = call.shape(0);
  const auto split = data.begin() + static_cast<std::ptrdiff_t>(tuple_length);
  const Shape rest(split, data.end());
  Shape expected(call.shape(1).begin(), call.shape(1).end() - 1);
  const int64_t tuples = ElementCount(expected, call.op);
  expected.insert(expected.end(), rest.begin(), rest.end());
  RequireShape(call, "updates", call.shape(2), expected);
  std::optional<ScatterOperands> dense = DenseOperands(call);
  if (!dense) return std::nullopt;
  const Shape strides = BroadcastStrides(data);
  const TupleIndex tuple = {std::span(strides).first(tuple_length),
                            std::span(data).first(tuple_length)};
  std::vector<int64_t> offsets;
  const int64_t* index = dense->indices.as<int64_t>().data();
  for (int64_t i = 0; i < tuples; ++i) {
    offsets.push_back(tuple.Offset(call, index, 1));
    index += tuple_length;
  }
  return Scatter(call, std::move(dense->data), std::move(dense->updates), offsets, Product(rest));
}

Results ScatterElements(const Call& call) {
  const size_t axis = AxisAttr(call, call.shape(0).size());
  RequireElementIndices(call, axis);
  RequireShape(call, "updates", call.shape(2), call.shape(1));
  std::optional<ScatterOperands> dense = DenseOperands(call);
  if (!dense) return std::nullopt;
  Shape strides = BroadcastStrides(dense->data.shape);
  const int64_t axis_stride = std::exchange(strides[axis], 0);
  std::vector<int64_t> offsets;
  const int64_t* index = dense->indices.as<int64_t>().data();
  ForEachRow<1>(dense->indices.shape, {strides}, [&](auto& at, int64_t n, auto& step) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t position = NormalIndex(call, *index++, call.shape(0)[axis]);
      offsets.push_back(at[0] + i * step[0] + position * axis_stride);
    }
  });
  return Scatter(call, std::move(dense->data), std::move(dense->updates), offsets, 1);
}

// --- OneHot --------------------------------------------------------------------------------------

// An index outside of [-depth, depth) gives a row of `off`.
Results OneHot(const Call& call) {
  const ConstTensor& indices = call.operand();
  const size_t axis = AxisAttr(call, indices.shape.size() + 1);
  const int64_t depth = IntAttr(call.attributes, "depth");
  const auto stored = InType(indices.storage, DType::kI64);
  Shape shape = stored->shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  const DType dtype = call.result_types[0].dtype;
  std::optional<HostTensor> out = Allocate(dtype, shape);
  if (!out) return std::nullopt;
  const std::vector<double> choices = {FloatAttr(call.attributes, "off", 0.0),
                                       FloatAttr(call.attributes, "on", 1.0)};
  const HostTensor values = CastStorage(MakeTensor(DType::kF64, {2}, choices), dtype);
  CopyBox(shape, values, {0, Shape(shape.size(), 0)}, *out, {0, BroadcastStrides(shape)});
  const std::span<const int64_t> index = stored->as<int64_t>();
  const int64_t inner = Product(std::span(stored->shape).subspan(axis));
  VisitBits(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t hot = index[i] < 0 ? index[i] + depth : index[i];
      if (hot < 0 || hot >= depth) continue;
      const int64_t at = static_cast<int64_t>(i);
      out->as<T>()[static_cast<size_t>((at / inner * depth + hot) * inner + at % inner)] =
          values.as<T>()[1];
    }
  });
  return One(call, *std::move(out), Compression::kTry);
}

}  // namespace

std::span<const Entry> IndexEntries() {
  static const Entry kEntries[] = {
      {"Gather", 2, Gather},       {"GatherElements", 2, GatherElements},
      {"GatherND", 2, GatherND},   {"ScatterElements", 3, ScatterElements},
      {"ScatterND", 3, ScatterND}, {"OneHot", 1, OneHot},
  };
  return kEntries;
}

}  // namespace heddle::const_eval
