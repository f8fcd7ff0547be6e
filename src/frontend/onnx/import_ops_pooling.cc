// ONNX poolings and resizing.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/ops.h"
#include "frontend/onnx/windows.h"

namespace heddle {
namespace {

// The largest window, stride or padding, which keeps the arithmetic below far from overflow.
constexpr int64_t kMaxWindow = int64_t{1} << 31;

void CheckWindow(CallImport& n, std::string_view name, const std::vector<int64_t>& values,
                 size_t size, int64_t least) {
  if (values.size() != size) n.Fail("{} has {} numbers, must have {}", name, values.size(), size);
  for (const int64_t value : values) {
    if (value < least || value > kMaxWindow) n.Fail("{} is {}", name, ToString(values));
  }
}

// The padding for an output of ceil(size / stride). An odd element is added at the end (SAME_UPPER) or at the
// beginning.
std::vector<int64_t> SamePads(const Shape& sizes, const Shape& kernel, const Windows& windows,
                              bool upper) {
  const size_t count = kernel.size();
  std::vector<int64_t> pads(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t out = (sizes[i] + windows.strides[i] - 1) / windows.strides[i];
    const __int128 reach = static_cast<__int128>(out - 1) * windows.strides[i] +
                           static_cast<__int128>(kernel[i] - 1) * windows.dilations[i] + 1 -
                           sizes[i];
    const auto total = static_cast<int64_t>(std::clamp<__int128>(reach, 0, kMaxWindow));
    pads[i] = upper ? total / 2 : total - total / 2;
    pads[i + count] = total - pads[i];
  }
  return pads;
}

Shape PoolKernel(CallImport& n) {
  const Shape kernel = n.IntList("kernel_shape");
  if (n.rank(0) < 3 || kernel.size() + 2 != n.shape(0).size()) {
    n.Fail("kernel_shape {} does not fit {}", ToString(kernel), ToString(n.In(0).type));
  }
  return kernel;
}

void ImportMaxPool(CallImport& n) {
  n.Ignore({"storage_order"});
  n.OnlyOutputs(1, "indices are");
  const Shape kernel = PoolKernel(n);
  const Windows windows = ReadWindows(n, kernel);
  n.Return(n.Emit("MaxPool",
                  {{"kernel", kernel},
                   {"strides", windows.strides},
                   {"pads", windows.pads},
                   {"dilations", windows.dilations},
                   {"ceil_mode", n.Int("ceil_mode", 0)}},
                  {n.In(0)}));
}

void ImportAveragePool(CallImport& n) {
  const Shape kernel = PoolKernel(n);
  const Windows windows = ReadWindows(n, kernel);
  for (const int64_t dilation : windows.dilations) {
    if (dilation != 1) n.Fail("dilation {} is not supported", dilation);
  }
  n.Return(n.Emit("AveragePool",
                  {{"kernel", kernel},
                   {"strides", windows.strides},
                   {"pads", windows.pads},
                   {"ceil_mode", n.Int("ceil_mode", 0)},
                   {"count_include_pad", n.Int("count_include_pad", 0)}},
                  {n.In(0)}));
}

void GlobalPool(CallImport& n, std::string_view reduce) {
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < n.rank(0); ++i) axes.push_back(i);
  if (axes.empty()) n.Fail("{} has no spatial dimension", ToString(n.In(0).type));
  n.Return(n.Emit(reduce, {{"axes", axes}, {"keepdims", int64_t{1}}}, {n.In(0)}));
}

// The whole shape of the output, from sizes or scales.
Shape ResizedShape(CallImport& n) {
  const Shape& from = n.shape(0);
  const bool by_size = n.Has(3) && !n.shape(3).empty() && n.shape(3)[0] != 0;
  std::vector<int64_t> axes(from.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  axes = n.IntList("axes", axes);
  if (n.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    n.Fail("keep_aspect_ratio_policy is not supported");
  }
  Shape to = from;
  if (by_size) {
    const auto sizes = n.Ints(3, "sizes");
    if (sizes.size() != axes.size()) n.Fail("has {} sizes for {} axes", sizes.size(), axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      to[static_cast<size_t>(n.Axis(axes[i], n.rank(0)))] = sizes[i];
    }
    return to;
  }
  const auto scales = n.Numbers(2, "scales");
  if (scales.size() != axes.size()) n.Fail("has {} scales for {} axes", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(n.Axis(axes[i], n.rank(0)));
    const double exact = static_cast<double>(from[axis]) * scales[i];
    if (!(scales[i] > 0 && exact < 1e15) || exact != std::floor(exact)) {
      n.Fail("scale {} of dimension {} ({}) does not give a whole size; export with sizes",
             scales[i], axis, from[axis]);
    }
    to[axis] = static_cast<int64_t>(exact);
  }
  return to;
}

void ImportResize(CallImport& n) {
  n.Ignore({"cubic_coeff_a", "exclude_outside", "extrapolation_value"});
  const std::string mode = n.String("mode", "nearest");
  const std::string places = n.String("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = n.String("nearest_mode", "round_prefer_floor");
  const bool fits =
      (mode == "nearest" && places == "asymmetric" && nearest == "floor") ||
      (mode == "linear" && (places == "half_pixel" || places == "pytorch_half_pixel"));
  if (!fits || n.Int("antialias", 0) != 0) {
    n.Fail(
        "mode {} with coordinates {} and rounding {} is not supported; use nearest (asymmetric, "
        "floor) or linear (half_pixel)",
        mode, places, nearest);
  }
  const Shape to = ResizedShape(n);
  const Shape& from = n.shape(0);
  if (from.size() < 3 || to[0] != from[0] || to[1] != from[1]) {
    n.Fail("resizes {} to {}, but only dimensions after the first two may change", ToString(from),
           ToString(to));
  }
  const std::vector<int64_t> sizes(to.begin() + 2, to.end());
  for (const int64_t size : sizes) {
    if (size < 1) n.Fail("resizes to {}", ToString(to));
    if (size == 1 && places == "pytorch_half_pixel")
      n.Fail("pytorch_half_pixel to size 1 is not supported");
  }
  n.Return(to == from ? n.In(0) : n.Emit("Resize", {{"sizes", sizes}, {"mode", mode}}, {n.In(0)}));
}

}  // namespace

Windows ReadWindows(CallImport& n, const Shape& kernel) {
  const size_t count = kernel.size();
  const std::vector<int64_t> ones(count, 1);
  Windows windows;
  windows.strides = n.IntList("strides", ones);
  windows.dilations = n.IntList("dilations", ones);
  CheckWindow(n, "kernel_shape", kernel, count, 1);
  CheckWindow(n, "strides", windows.strides, count, 1);
  CheckWindow(n, "dilations", windows.dilations, count, 1);
  const std::string auto_pad = n.String("auto_pad", "NOTSET");
  const std::vector<int64_t> zeros(2 * count, 0);
  const std::vector<int64_t> stated = n.IntList("pads", zeros);
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    windows.pads = stated;
  } else if (auto_pad == "VALID") {
    windows.pads = zeros;
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    const Shape sizes(n.shape(0).begin() + 2, n.shape(0).end());
    for (const int64_t size : sizes) {
      if (size < 1 || size > kMaxWindow) n.Fail("operand is {}", ToString(n.In(0).type));
    }
    windows.pads = SamePads(sizes, kernel, windows, auto_pad == "SAME_UPPER");
  } else {
    n.Fail("auto_pad '{}' is not supported", auto_pad);
  }
  CheckWindow(n, "pads", windows.pads, 2 * count, 0);
  return windows;
}

std::span<const OpImport> OnnxPoolingOps() {
  static const OpImport ops[] = {
      {"MaxPool", 1, 1, ImportMaxPool},
      {"AveragePool", 1, 1, ImportAveragePool},
      {"GlobalAveragePool", 1, 1, [](CallImport& n) { GlobalPool(n, "ReduceMean"); }},
      {"GlobalMaxPool", 1, 1, [](CallImport& n) { GlobalPool(n, "ReduceMax"); }},
      {"Resize", 1, 4, ImportResize},
  };
  return ops;
}

}  // namespace heddle
