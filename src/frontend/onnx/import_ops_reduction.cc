// ONNX reductions.
#include <numeric>

#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

struct Reduced {
  std::vector<int64_t> axes;
  int64_t keepdims = 1;
  bool nothing = false;  // noop_with_empty_axes is set and there are no axes
};

Reduced ReadReduction(CallImport& n) {
  Reduced reduced;
  reduced.keepdims = n.Int("keepdims", 1) != 0;
  std::vector<int64_t> axes;
  if (n.Has(1)) {
    axes = n.Ints(1, "axes");
  } else if (n.HasAttr("axes")) {
    axes = n.IntList("axes");
  }
  const bool noop = n.Int("noop_with_empty_axes", 0) != 0;
  reduced.nothing = axes.empty() && noop;
  if (axes.empty() && !noop) {
    axes.resize(n.shape(0).size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  reduced.axes = n.Axes(axes, n.rank(0));
  return reduced;
}

Imported EmitReduce(CallImport& n, std::string_view op, const Imported& x, const Reduced& reduced) {
  if (reduced.nothing || reduced.axes.empty()) return x;
  return n.Emit(op, {{"axes", reduced.axes}, {"keepdims", reduced.keepdims}}, {x});
}

// log(sum(exp(x))), computed after subtracting the maximum, through which no gradient flows.
void ImportLogSumExp(CallImport& n) {
  const Reduced reduced = ReadReduction(n);
  const Imported& x = n.In(0);
  if (reduced.nothing || reduced.axes.empty()) {
    n.Return(x);
    return;
  }
  const Imported top =
      n.Emit("ReduceMax",
             {{"axes", reduced.axes}, {"keepdims", int64_t{1}}, {"detached", int64_t{1}}}, {x});
  Reduced kept = reduced;
  kept.keepdims = 1;
  const Imported sum =
      EmitReduce(n, "ReduceSum", n.Emit("Exp", {}, {n.Emit("Sub", {}, {x, top})}), kept);
  Imported result = n.Emit("Add", {}, {n.Emit("Log", {}, {sum}), top});
  if (!reduced.keepdims) {
    Shape shape = result.shape();
    for (auto axis = reduced.axes.rbegin(); axis != reduced.axes.rend(); ++axis) {
      shape.erase(shape.begin() + *axis);
    }
    result = n.Reshape(result, shape);
  }
  n.Return(result);
}

Imported SumOfSquares(CallImport& n) {
  return EmitReduce(n, "ReduceSum", n.Emit("Mul", {}, {n.In(0), n.In(0)}), ReadReduction(n));
}

void ImportArg(CallImport& n, std::string_view op) {
  if (n.Int("select_last_index", 0) != 0) n.Fail("select_last_index is not supported");
  n.Return(n.Emit(
      op, {{"axis", n.Axis(n.Int("axis", 0), n.rank(0))}, {"keepdims", n.Int("keepdims", 1)}},
      {n.In(0)}));
}

}  // namespace

std::span<const OpImport> OnnxReductionOps() {
  static const OpImport ops[] = {
      {"ReduceSum", 1, 2,
       [](CallImport& n) { n.Return(EmitReduce(n, "ReduceSum", n.In(0), ReadReduction(n))); }},
      {"ReduceMean", 1, 2,
       [](CallImport& n) { n.Return(EmitReduce(n, "ReduceMean", n.In(0), ReadReduction(n))); }},
      {"ReduceMax", 1, 2,
       [](CallImport& n) { n.Return(EmitReduce(n, "ReduceMax", n.In(0), ReadReduction(n))); }},
      {"ReduceMin", 1, 2,
       [](CallImport& n) { n.Return(EmitReduce(n, "ReduceMin", n.In(0), ReadReduction(n))); }},
      {"ReduceProd", 1, 2,
       [](CallImport& n) { n.Return(EmitReduce(n, "ReduceProd", n.In(0), ReadReduction(n))); }},
      {"ReduceL1", 1, 2,
       [](CallImport& n) {
         n.Return(EmitReduce(n, "ReduceSum", n.Emit("Abs", {}, {n.In(0)}), ReadReduction(n)));
       }},
      {"ReduceL2", 1, 2, [](CallImport& n) { n.Return(n.Emit("Sqrt", {}, {SumOfSquares(n)})); }},
      {"ReduceSumSquare", 1, 2, [](CallImport& n) { n.Return(SumOfSquares(n)); }},
      {"ReduceLogSum", 1, 2,
       [](CallImport& n) {
         n.Return(n.Emit("Log", {}, {EmitReduce(n, "ReduceSum", n.In(0), ReadReduction(n))}));
       }},
      {"ReduceLogSumExp", 1, 2, ImportLogSumExp},
      {"ArgMax", 1, 1, [](CallImport& n) { ImportArg(n, "ArgMax"); }},
      {"ArgMin", 1, 1, [](CallImport& n) { ImportArg(n, "ArgMin"); }},
  };
  return ops;
}

}  // namespace heddle
