// Ops that only move elements. Repeated dimensions stay repeated where the op allows it. Reshape stores in full only
// the groups of dimensions that it mixes.
#include <algorithm>
#include <cstdlib>

#include "base/checked_math.h"
#include "base/error.h"
#include "frontend/const_eval_internal.h"

namespace heddle::const_eval {
namespace {

std::vector<int64_t> IntsOfRank(const Call& call, std::string_view name, size_t count) {
  std::vector<int64_t> ints = IntsAttr(call.attributes, name);
  if (ints.size() != count) {
    ThrowInput("{}: attribute {} has {} entries where {} are needed", call.op, name, ints.size(),
               count);
  }
  return ints;
}

HostTensor WithShape(HostTensor tensor, Shape shape) {
  tensor.shape = std::move(shape);
  return tensor;
}

// --- Reshape, Expand, Transpose ------------------------------------------------------------------

// Consecutive dimensions of the operand and of the result that contain the same elements.
struct ReshapeGroup {
  size_t from_begin, from_end;
  size_t to_begin, to_end;
};

// The finest grouping. The shapes have the same number of elements, which is not 0.
std::vector<ReshapeGroup> GroupDims(const Shape& from, const Shape& to) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup group = {i, i, j, j};
    int64_t left = i < from.size() ? from[i++] : 1;
    int64_t right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

Results Reshape(const Call& call) {
  const heddle::Shape& from = call.shape();
  const heddle::Shape& to = call.result_types[0].shape;
  if (ElementCount(from, call.op) != ElementCount(to, call.op)) {
    ThrowInput("Reshape: {} and {} differ in their number of elements", ToString(from),
               ToString(to));
  }
  if (from == to) return std::vector{MakeResult(call, 0, call.operand().storage)};
  const heddle::Shape& storage = call.storage().shape;
  heddle::Shape out = to;
  std::vector<bool> written_out(from.size());
  for (const ReshapeGroup& group : GroupDims(from, to)) {
    bool whole = true;
    bool repeated = true;
    for (size_t d = group.from_begin; d < group.from_end; ++d) {
      whole = whole && storage[d] == from[d];
      repeated = repeated && storage[d] == 1;
    }
    if (repeated) {
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(group.to_begin),
                out.begin() + static_cast<std::ptrdiff_t>(group.to_end), 1);
    } else if (!whole) {
      for (size_t d = group.from_begin; d < group.from_end; ++d) written_out[d] = true;
    }
  }
  const std::optional<ConstTensor> x = Unrepeat(call.operand(), written_out);
  if (!x) return std::nullopt;
  if (ExceedsCap(x->dtype(), out)) return std::nullopt;
  return One(call, WithShape(*x->storage, out), Compression::kTry);
}

Results Expand(const Call& call) {
  const heddle::Shape& storage = call.storage().shape;
  const size_t rank = call.result_types[0].shape.size();
  if (storage.size() >= rank) return std::vector{MakeResult(call, 0, call.operand().storage)};
  if (ExceedsCap(call.storage().dtype, storage)) return std::nullopt;
  heddle::Shape shape(rank - storage.size(), 1);
  shape.insert(shape.end(), storage.begin(), storage.end());
  return One(call, WithShape(call.storage(), std::move(shape)));
}

Results Transpose(const Call& call) {
  const HostTensor& x = call.storage();
  const std::vector<int64_t> perm = IntsOfRank(call, "perm", x.shape.size());
  const heddle::Shape from = BroadcastStrides(x.shape);
  heddle::Shape shape;
  Strided source;
  std::vector<bool> seen(perm.size());
  for (const int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(axis)]) {
      ThrowInput("Transpose: perm {} is not a permutation", ToString(perm));
    }
    seen[static_cast<size_t>(axis)] = true;
    shape.push_back(x.shape[static_cast<size_t>(axis)]);
    source.strides.push_back(from[static_cast<size_t>(axis)]);
  }
  std::optional<HostTensor> out = Allocate(x.dtype, shape);
  if (!out) return std::nullopt;
  CopyBox(shape, x, source, *out, {0, BroadcastStrides(shape)});
  return One(call, *std::move(out), Compression::kTry);
}

// --- Concat, Split, Slice ------------------------------------------------------------------------

Results Concat(const Call& call) {
  const size_t rank = call.shape().size();
  const size_t axis = AxisAttr(call, rank);
  heddle::Shape shape(rank, 1);
  shape[axis] = 0;
  for (const ConstTensor& x : call.operands) {
    if (x.shape.size() != rank || x.dtype() != call.storage().dtype) {
      ThrowInput("Concat: operands {} and {} differ", ToString(call.operand().type()),
                 ToString(x.type()));
    }
    for (size_t d = 0; d < rank; ++d) {
      if (d != axis && x.shape[d] != call.shape()[d]) {
        ThrowInput("Concat: operands {} and {} differ", ToString(call.operand().type()),
                   ToString(x.type()));
      }
      if (d == axis) {
        shape[d] = CheckedAdd(shape[d], x.shape[d], call.op);
      } else {
        shape[d] = std::max(shape[d], x.storage->shape[d]);
      }
    }
  }
  std::optional<HostTensor> out = Allocate(call.storage().dtype, shape);
  if (!out) return std::nullopt;
  Strided target = {0, BroadcastStrides(shape)};
  for (const ConstTensor& x : call.operands) {
    heddle::Shape box = shape;
    box[axis] = x.shape[axis];
    CopyBox(box, *x.storage, {0, BroadcastStrides(x.storage->shape)}, *out, target);
    target.base += target.strides[axis] * x.shape[axis];
  }
  return One(call, *std::move(out), Compression::kTry);
}

// A range of indices along one dimension.
struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

std::optional<HostTensor> TakeRanges(const ConstTensor& x, std::span<const Range> ranges) {
  Strided source = {0, BroadcastStrides(x.storage->shape)};
  heddle::Shape shape = x.storage->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (ranges[d].count == 0) shape[d] = 0;
    if (shape[d] <= 1) continue;
    shape[d] = ranges[d].count;
    source.base += source.strides[d] * ranges[d].start;
    source.strides[d] *= ranges[d].count > 1 ? ranges[d].step : 0;
  }
  std::optional<HostTensor> out = Allocate(x.dtype(), shape);
  if (out) CopyBox(shape, *x.storage, source, *out, {0, BroadcastStrides(shape)});
  return out;
}

std::vector<Range> WholeRanges(const heddle::Shape& shape) {
  std::vector<Range> ranges;
  for (const int64_t size : shape) ranges.push_back({0, 1, size});
  return ranges;
}

Results Split(const Call& call) {
  const size_t axis = AxisAttr(call, call.shape().size());
  const std::vector<int64_t> sizes = IntsOfRank(call, "sizes", call.result_types.size());
  std::vector<Range> ranges = WholeRanges(call.shape());
  int64_t start = 0;
  std::vector<ConstTensor> results;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > call.shape()[axis] - start) {
      ThrowInput("Split: sizes {} exceed the dimension of {}", ToString(sizes), call.shape()[axis]);
    }
    ranges[axis] = {start, 1, sizes[i]};
    start += sizes[i];
    std::optional<HostTensor> part = TakeRanges(call.operand(), ranges);
    if (!part) return std::nullopt;
    results.push_back(MakeResult(call, i, *std::move(part), Compression::kTry));
  }
  return results;
}

// The indices start, start + step, ... before end in a dimension.
Range SliceRange(const Call& call, int64_t start, int64_t end, int64_t step, int64_t size) {
  if (step == 0) ThrowInput("Slice: a step of 0");
  end = std::clamp(end, int64_t{-1}, size);
  const bool forward = step > 0;
  const int64_t begin = std::clamp(start, int64_t{-1}, size);
  const int64_t span = forward ? end - begin : begin - end;
  if (span <= 0) return {0, 1, 0};
  if (start < 0 || start >= size) ThrowIndex(call, start, size);
  const uint64_t stride = forward ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  const uint64_t count = (static_cast<uint64_t>(span) - 1) / stride + 1;
  return {start, step, static_cast<int64_t>(count)};
}

Results Slice(const Call& call) {
  const std::vector<int64_t> axes = IntsAttr(call.attributes, "axes");
  const std::vector<int64_t> starts = IntsOfRank(call, "starts", axes.size());
  const std::vector<int64_t> ends = IntsOfRank(call, "ends", axes.size());
  const std::vector<int64_t> steps = IntsOfRank(call, "steps", axes.size());
  std::vector<Range> ranges = WholeRanges(call.shape());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(ranges.size())) {
      ThrowInput("Slice: axis {} is out of range for rank {}", axes[i], ranges.size());
    }
    const auto axis = static_cast<size_t>(axes[i]);
    ranges[axis] = SliceRange(call, starts[i], ends[i], steps[i], call.shape()[axis]);
  }
  std::optional<HostTensor> out = TakeRanges(call.operand(), ranges);
  if (!out) return std::nullopt;
  return One(call, *std::move(out), Compression::kTry);
}

// --- Pad, Tile, Trilu ----------------------------------------------------------------------------

Results Pad(const Call& call) {
  if (StringAttr(call.attributes, "mode", "constant") != "constant") return std::nullopt;
  const size_t rank = call.shape().size();
  const std::vector<int64_t> pads = IntsOfRank(call, "pads", 2 * rank);
  const heddle::Shape& result = call.result_types[0].shape;
  if (result.size() != rank) ThrowInput("Pad: {} to {}", ToString(call.shape()), ToString(result));
  heddle::Shape shape = call.storage().shape;
  heddle::Shape box = shape;
  Strided source = {0, BroadcastStrides(shape)};
  Strided target;
  heddle::Shape begin(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t before = pads[d];
    const int64_t after = pads[rank + d];
    if (before == 0 && after == 0) continue;
    const int64_t size = call.shape()[d];
    const int64_t padded = CheckedAdd(CheckedAdd(before, after, call.op), size, call.op);
    if (padded != result[d] || std::min(before, after) < -size) {
      ThrowInput("Pad: pads {} and {} do not take a dimension of {} to {}", before, after, size,
                 result[d]);
    }
    shape[d] = padded;
    const int64_t skipped = std::max<int64_t>(0, -before);
    box[d] = size - skipped - std::max<int64_t>(0, -after);
    if (box[d] < 0) ThrowInput("Pad: pads {} and {} crop a dimension of {}", before, after, size);
    begin[d] = std::max<int64_t>(0, before);
    source.base += source.strides[d] * skipped;
  }
  const HostTensor value = CastStorage(
      MakeTensor(DType::kF64, {}, std::vector{FloatAttr(call.attributes, "value", 0.0)}),
      call.storage().dtype);
  std::optional<HostTensor> out = Allocate(value.dtype, shape);
  if (!out) return std::nullopt;
  target.strides = BroadcastStrides(shape);
  CopyBox(shape, value, {0, heddle::Shape(rank, 0)}, *out, target);
  for (size_t d = 0; d < rank; ++d) target.base += target.strides[d] * begin[d];
  CopyBox(box, call.storage(), source, *out, target);
  return One(call, *std::move(out), Compression::kTry);
}

Results Tile(const Call& call) {
  const HostTensor& x = call.storage();
  const std::vector<int64_t> repeats = IntsOfRank(call, "repeats", x.shape.size());
  const heddle::Shape strides = BroadcastStrides(x.shape);
  heddle::Shape shape;
  heddle::Shape box;  // every dimension as [repeats, size]
  Strided source;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) ThrowInput("Tile: negative repeats {}", ToString(repeats));
    const int64_t repeat = x.shape[d] == 1 ? 1 : repeats[d];
    box.insert(box.end(), {repeat, x.shape[d]});
    source.strides.insert(source.strides.end(), {0, strides[d]});
    shape.push_back(CheckedMul(repeat, x.shape[d], call.op));
  }
  std::optional<HostTensor> out = Allocate(x.dtype, shape);
  if (!out) return std::nullopt;
  CopyBox(box, x, source, *out, {0, BroadcastStrides(box)});
  return One(call, *std::move(out), Compression::kTry);
}

Results Trilu(const Call& call) {
  const size_t rank = call.shape().size();
  if (rank < 2) ThrowInput("Trilu: {} needs two dimensions or more", ToString(call.shape()));
  const bool upper = IntAttr(call.attributes, "upper") != 0;
  const int64_t rows = call.shape()[rank - 2];
  const int64_t columns = call.shape()[rank - 1];
  const int64_t k = std::clamp(IntAttr(call.attributes, "k", 0), -rows, columns);
  std::vector<bool> dims(rank);
  dims[rank - 2] = dims[rank - 1] = true;
  const std::optional<ConstTensor> x = Unrepeat(call.operand(), dims);
  if (!x) return std::nullopt;
  HostTensor out = *x->storage;
  const int64_t element = SizeOf(out.dtype);
  for (int64_t row = 0; row < out.size() / columns; ++row) {
    // In each row the diagonal gives the column at which the upper part begins or the lower part ends.
    const int64_t i = row % rows;
    const int64_t edge = std::clamp<int64_t>(upper ? i + k : i + k + 1, 0, columns);
    std::byte* data = out.data.data() + row * columns * element;
    if (upper) {
      std::fill_n(data, edge * element, std::byte{0});
    } else {
      std::fill_n(data + edge * element, (columns - edge) * element, std::byte{0});
    }
  }
  return One(call, std::move(out), Compression::kTry);
}

}  // namespace

std::span<const Entry> MovementEntries() {
  static const Entry kEntries[] = {
      {"Reshape", 1, Reshape}, {"Expand", 1, Expand}, {"Transpose", 1, Transpose},
      {"Concat", 1, Concat},   {"Split", 1, Split},   {"Slice", 1, Slice},
      {"Pad", 1, Pad},         {"Tile", 1, Tile},     {"Trilu", 1, Trilu},
  };
  return kEntries;
}

}  // namespace heddle::const_eval
