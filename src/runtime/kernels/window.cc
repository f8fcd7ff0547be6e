// Ops over windows of 1 to 3 spatial dimensions: convolutions, pooling, resizing. Spatial
// dimensions are whole; batch, channels and groups may be split.
//
// libtorch pads both ends of a dimension alike, pools with at most half a window of padding and has
// its own idea of ceil_mode. Where a call says something else, the operand is padded (or cropped)
// first so that the windows of the result fit it exactly; the result's size is the rule's.
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/kernels/factor_kernels.h"
#include "runtime/kernels/kernel_util.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

// The attributes of a window, one entry per spatial dimension.
struct Window {
  Ints kernel, strides, dilations, pad_begin, pad_end;
  size_t rank() const { return kernel.size(); }
  bool PadsAlike() const { return pad_begin == pad_end; }
  int64_t Extent(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

Window ReadWindow(const Attributes& attributes, Ints kernel) {
  const size_t n = kernel.size();
  const Ints pads = IntsAttr(attributes, "pads", Ints(2 * n, 0));
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(n);
  return {std::move(kernel), IntsAttr(attributes, "strides", Ints(n, 1)),
          IntsAttr(attributes, "dilations", Ints(n, 1)), Ints(pads.begin(), half),
          Ints(half, pads.end())};
}

Ints SpatialOf(at::IntArrayRef sizes) { return sizes.slice(2).vec(); }

// Pads the spatial dimensions; negative amounts crop.
at::Tensor PadSpatial(const at::Tensor& x, const Ints& begin, const Ints& end, double value) {
  Ints amounts;  // last dimension first
  for (size_t d = begin.size(); d-- > 0;) {
    amounts.push_back(begin[d]);
    amounts.push_back(end[d]);
  }
  if (amounts == Ints(amounts.size(), 0)) return x;
  return at::constant_pad_nd(x, amounts, value);
}

at::Tensor PerChannel(const at::Tensor& bias, size_t spatial_rank) {
  Ints sizes(spatial_rank + 2, 1);
  sizes[1] = bias.size(0);
  return bias.reshape(sizes);
}

int64_t LocalGroups(const KernelCall& call) {
  return IntAttr(call.attributes, "group", 1) == 1 ? 1 : LocalSizeOf(call, "g");
}

Tensors Conv(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const at::Tensor& w = Operand(call, 1);
  const Window window = ReadWindow(call.attributes, SpatialOf(w.sizes()));
  const Ints none(window.rank(), 0);
  at::Tensor x = Operand(call, 0);
  if (!window.PadsAlike()) x = PadSpatial(x, window.pad_begin, window.pad_end, 0);
  return {at::convolution(x, w, AddedOnce(call, OptionalOperand(call, 2)), window.strides,
                          window.PadsAlike() ? window.pad_begin : none, window.dilations, false,
                          none, LocalGroups(call))};
}

}  // namespace

at::Tensor ConvWeightGradient(const KernelCall& call, const at::Tensor& gradient) {
  const Shape shape = LocalShape(call.rule, call.rule.operands[1], call.blocks);
  const Window window = ReadWindow(call.attributes, SpatialOf(shape));
  const Ints none(window.rank(), 0);
  at::Tensor x = Operand(call, 0);
  if (x.numel() == 0 || gradient.numel() == 0) return at::zeros(shape, gradient.options());
  if (!window.PadsAlike()) x = PadSpatial(x, window.pad_begin, window.pad_end, 0);
  // Replicas must get the same bits (factors.cc).
  if (gradient.is_cuda()) at::globalContext().setDeterministicCuDNN(true);
  const at::Tensor weight = at::empty(shape, gradient.options());  // only its shape counts
  return std::get<1>(
      at::convolution_backward(gradient, x, weight, at::OptionalIntArrayRef(), window.strides,
                               window.PadsAlike() ? window.pad_begin : none, window.dilations,
                               false, none, LocalGroups(call), {false, true, false}));
}

namespace {

// The unpadded result, cropped by the pads and grown by the output padding.
Tensors ConvTranspose(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const at::Tensor &x = Operand(call, 0), &w = Operand(call, 1);
  const at::Tensor bias = AddedOnce(call, OptionalOperand(call, 2));
  const Window window = ReadWindow(call.attributes, SpatialOf(w.sizes()));
  const Ints none(window.rank(), 0);
  const Ints grown = IntsAttr(call.attributes, "output_padding", none);
  if (window.PadsAlike() && grown == none) {
    return {at::convolution(x, w, bias, window.strides, window.pad_begin, window.dilations, true,
                            none, LocalGroups(call))};
  }
  at::Tensor y = at::convolution(x, w, {}, window.strides, none, window.dilations, true, none,
                                 LocalGroups(call));
  Ints begin(window.rank()), end(window.rank());
  for (size_t d = 0; d < window.rank(); ++d) {
    begin[d] = -window.pad_begin[d];
    end[d] = grown[d] - window.pad_end[d];
  }
  y = PadSpatial(y, begin, end, 0);
  return {bias.defined() ? y + PerChannel(bias, window.rank()) : y};
}

// What must follow the operand in each dimension for exactly the windows of the result; may be
// negative.
Ints PadToFit(const KernelCall& call, const Window& window) {
  const Shape in = SpatialOf(Operand(call).sizes());
  const Shape out = call.LocalResultShape();
  Ints end(window.rank());
  for (size_t d = 0; d < window.rank(); ++d) {
    const int64_t covered = (out[d + 2] - 1) * window.strides[d] + window.Extent(d);
    end[d] = covered - in[d] - window.pad_begin[d];
  }
  return end;
}

// Can libtorch pad by itself?
bool PadsInside(const KernelCall& call, const Window& window) {
  if (IntAttr(call.attributes, "ceil_mode", 0) != 0 || !window.PadsAlike()) return false;
  for (size_t d = 0; d < window.rank(); ++d) {
    if (2 * window.pad_begin[d] > window.kernel[d]) return false;
  }
  return true;
}

Tensors MaxPool(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const Window window = ReadWindow(call.attributes, IntsAttr(call.attributes, "kernel"));
  at::Tensor x = Operand(call);
  Ints pads = window.pad_begin;
  if (!PadsInside(call, window)) {
    x = PadSpatial(x, pads, PadToFit(call, window), -std::numeric_limits<double>::infinity());
    pads.assign(window.rank(), 0);
  }
  const auto pool = window.rank() == 1   ? at::max_pool1d
                    : window.rank() == 2 ? at::max_pool2d
                                         : at::max_pool3d;
  return {pool(x, window.kernel, window.strides, pads, window.dilations, false)};
}

// Sums over unpadded windows. One spatial dimension is pooled as two: avg_pool1d cannot sum.
at::Tensor SumPool(const at::Tensor& x, const Window& window) {
  if (window.rank() == 3) {
    return at::avg_pool3d(x, window.kernel, window.strides, 0, false, true, 1);
  }
  if (window.rank() == 2) {
    return at::avg_pool2d(x, window.kernel, window.strides, 0, false, true, 1);
  }
  return at::avg_pool2d(x.unsqueeze(2), {1, window.kernel[0]}, {1, window.strides[0]}, 0, false,
                        true, 1)
      .squeeze(2);
}

// The sum over a window divided by how many of its positions count: those of the operand and, with
// count_include_pad, of the pads, but not those that ceil_mode adds beyond them.
at::Tensor AverageOfCounted(const KernelCall& call, const Window& window, bool pads_count) {
  const at::Tensor& x = Operand(call);
  const Ints none(window.rank(), 0);
  const Ints fit = PadToFit(call, window);
  Ints sizes = x.sizes().vec();
  sizes[0] = sizes[1] = 1;
  at::Tensor counted = at::ones(sizes, x.options());
  if (pads_count) {
    Ints beyond(window.rank());
    for (size_t d = 0; d < window.rank(); ++d) beyond[d] = fit[d] - window.pad_end[d];
    counted = PadSpatial(counted, window.pad_begin, window.pad_end, 1);
    counted = PadSpatial(counted, none, beyond, 0);
  } else {
    counted = PadSpatial(counted, window.pad_begin, fit, 0);
  }
  const at::Tensor sum = SumPool(PadSpatial(x, window.pad_begin, fit, 0), window);
  return sum / SumPool(counted, window).clamp_min(1);
}

Tensors AveragePool(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const Window window = ReadWindow(call.attributes, IntsAttr(call.attributes, "kernel"));
  const bool pads_count = IntAttr(call.attributes, "count_include_pad", 0) != 0;
  if (!PadsInside(call, window)) return {AverageOfCounted(call, window, pads_count)};
  const at::Tensor& x = Operand(call);
  const Ints& pads = window.pad_begin;
  if (window.rank() == 1) {
    return {at::avg_pool1d(x, window.kernel, window.strides, pads, false, pads_count)};
  }
  if (window.rank() == 2) {
    return {at::avg_pool2d(x, window.kernel, window.strides, pads, false, pads_count)};
  }
  return {at::avg_pool3d(x, window.kernel, window.strides, pads, false, pads_count)};
}

Tensors Resize(const KernelCall& call) {
  if (AnyEmpty(call.operands)) return {EmptyResult(call)};
  const at::Tensor& x = Operand(call);
  const Ints sizes = IntsAttr(call.attributes, "sizes");
  if (StringAttr(call.attributes, "mode", "nearest") == "nearest") {
    if (sizes.size() == 1) return {at::upsample_nearest1d(x, sizes)};
    if (sizes.size() == 2) return {at::upsample_nearest2d(x, sizes)};
    return {at::upsample_nearest3d(x, sizes)};
  }
  if (sizes.size() == 1) return {at::upsample_linear1d(x, sizes, false)};
  if (sizes.size() == 2) return {at::upsample_bilinear2d(x, sizes, false)};
  return {at::upsample_trilinear3d(x, sizes, false)};
}

}  // namespace

std::vector<KernelDef> WindowKernels() {
  return {
      {"Conv", Conv},       {"ConvTranspose", ConvTranspose},
      {"MaxPool", MaxPool}, {"AveragePool", AveragePool},
      {"Resize", Resize},
  };
}

}  // namespace heddle
