// ONNX matrix products and convolutions.
#include <algorithm>
#include <cctype>
#include <map>

#include "base/checked_math.h"
#include "frontend/onnx/ops.h"
#include "frontend/onnx/windows.h"

namespace heddle {
namespace {

// Vectors are reshaped to matrices, and the added dimension of 1 is removed from the result.
void ImportMatMul(CallImport& n) {
  Imported a = n.In(0), b = n.In(1);
  if (a.rank() == 0 || b.rank() == 0) n.Fail("cannot multiply a scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = n.Reshape(a, {1, a.shape()[0]});
  if (column) b = n.Reshape(b, {b.shape()[0], 1});
  Imported result = n.Emit("MatMul", {}, {a, b});
  if (row || column) {
    Shape shape = result.shape();
    if (column) shape.pop_back();
    if (row) shape.erase(shape.end() - (column ? 1 : 2));
    result = n.Reshape(result, shape);
  }
  n.Return(result);
}

void ImportGemm(CallImport& n) {
  Imported a = n.In(0), b = n.In(1);
  const bool trans_a = n.Int("transA", 0) != 0, trans_b = n.Int("transB", 0) != 0;
  const double alpha = n.Float("alpha", 1), beta = n.Float("beta", 1);
  if (a.rank() != 2 || b.rank() != 2) {
    n.Fail("multiplies {} by {}, must be matrices", ToString(a.type), ToString(b.type));
  }
  const int64_t columns = b.shape()[trans_b ? 0 : 1];
  const bool has_bias = n.Has(2) && !n.In(2).is_zero() && beta != 0;
  const std::vector<int64_t> swap = {1, 0};
  const bool row_bias =
      has_bias && (n.shape(2) == Shape{columns} || n.shape(2) == Shape{1, columns});
  if (!trans_a && alpha == 1 && (!has_bias || (beta == 1 && row_bias))) {
    std::vector<Imported> operands = {a, b};
    if (has_bias) operands.push_back(n.Reshape(n.In(2), {columns}));
    n.Return(n.Emit("Linear", {{"transpose_weight", int64_t{trans_b}}}, operands));
    return;
  }
  if (trans_a) a = n.Emit("Transpose", {{"perm", swap}}, {a});
  if (trans_b) b = n.Emit("Transpose", {{"perm", swap}}, {b});
  Imported result = n.Emit("MatMul", {}, {a, b});
  result = n.Emit("Mul", {}, {result, n.Number(result.type.dtype, alpha)});
  if (has_bias) {
    const Imported bias = n.Emit("Mul", {}, {n.In(2), n.Number(n.dtype(2), beta)});
    const Shape product = result.shape();
    result = n.Emit("Add", {}, {result, bias});
    if (result.shape() != product)
      n.Fail("C is {}, which does not broadcast to the product", ToString(n.In(2).type));
  }
  n.Return(result);
}

// "bij, bjk" -> "bij,bjk->bik": without spaces, in lower case, with the output.
std::string NormalisedEquation(CallImport& n, std::string equation) {
  std::erase_if(equation, [](char c) { return c == ' '; });
  std::map<char, int> count;
  std::map<char, char> lower;
  const auto arrow = equation.find("->");
  const std::string terms = equation.substr(0, arrow);
  for (const char c : equation) {
    if (std::isalpha(static_cast<unsigned char>(c)) &&
        std::islower(static_cast<unsigned char>(c))) {
      lower[c] = c;
    }
  }
  for (const char c : terms) {
    if (!std::isalpha(static_cast<unsigned char>(c))) continue;
    ++count[c];
    if (lower.contains(c)) continue;
    for (char to = 'a'; to <= 'z'; ++to) {
      const bool taken = std::any_of(lower.begin(), lower.end(),
                                     [to](const auto& entry) { return entry.second == to; });
      if (taken) continue;
      lower[c] = to;
      break;
    }
    if (!lower.contains(c)) n.Fail("equation '{}' has more than 26 letters", equation);
  }
  if (arrow == std::string::npos) {
    equation += "->";
    if (terms.find("...") != std::string::npos) equation += "...";
    for (const auto& [letter, times] : count) {
      if (times == 1) equation += letter;  // the map is in alphabetical order, capitals first
    }
  }
  for (char& c : equation) {
    if (const auto it = lower.find(c); it != lower.end()) c = it->second;
  }
  return equation;
}

std::vector<Imported> WithBias(CallImport& n) {
  std::vector<Imported> operands = {n.In(0), n.In(1)};
  if (n.Has(2) && !n.In(2).is_zero()) operands.push_back(n.In(2));
  return operands;
}

Shape KernelOf(CallImport& n) {
  if (n.rank(0) < 3 || n.rank(1) != n.rank(0)) {
    n.Fail("convolves {} with {}, must be of equal rank from 3 to 5", ToString(n.In(0).type),
           ToString(n.In(1).type));
  }
  const Shape kernel(n.shape(1).begin() + 2, n.shape(1).end());
  if (n.IntList("kernel_shape", kernel) != kernel) {
    n.Fail("kernel_shape is {}, the weight is {}", ToString(n.IntList("kernel_shape")),
           ToString(n.In(1).type));
  }
  return kernel;
}

void ImportConv(CallImport& n) {
  const Windows windows = ReadWindows(n, KernelOf(n));
  n.Return(n.Emit("Conv",
                  {{"strides", windows.strides},
                   {"pads", windows.pads},
                   {"dilations", windows.dilations},
                   {"group", n.Int("group", 1)}},
                  WithBias(n)));
}

void ImportConvTranspose(CallImport& n) {
  const Shape kernel = KernelOf(n);
  if (n.String("auto_pad", "NOTSET") != "NOTSET" || n.HasAttr("output_shape")) {
    n.Fail("auto_pad and output_shape are not supported; export with explicit pads");
  }
  const Windows windows = ReadWindows(n, kernel);
  const std::vector<int64_t> none(kernel.size(), 0);
  n.Return(n.Emit("ConvTranspose",
                  {{"strides", windows.strides},
                   {"pads", windows.pads},
                   {"dilations", windows.dilations},
                   {"group", n.Int("group", 1)},
                   {"output_padding", n.IntList("output_padding", none)}},
                  WithBias(n)));
}

}  // namespace

std::span<const OpImport> OnnxContractionOps() {
  static const OpImport ops[] = {
      {"MatMul", 2, 2, ImportMatMul},
      {"Gemm", 2, 3, ImportGemm},
      {"Einsum", 1, -1,
       [](CallImport& n) {
         const std::string equation = NormalisedEquation(n, n.String("equation"));
         n.Return(n.Emit("Einsum", {{"equation", equation}}, n.All()));
       }},
      {"Conv", 2, 3, ImportConv},
      {"ConvTranspose", 2, 3, ImportConvTranspose},
  };
  return ops;
}

}  // namespace heddle
