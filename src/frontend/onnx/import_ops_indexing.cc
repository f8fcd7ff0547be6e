// ONNX ops that read and write elements by index.
#include "frontend/onnx/ops.h"

namespace heddle {
namespace {

std::string ScatterReduction(CallImport& n) {
  const std::string reduction = n.String("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    n.Fail("reduction '{}' is not supported, must be none or add", reduction);
  }
  return reduction;
}

void ImportOneHot(CallImport& n) {
  const double depth = n.Scalar(1, "depth");
  const auto values = n.Numbers(2, "values");
  if (values.size() != 2) n.Fail("has {} values, must be off and on", values.size());
  if (!(depth >= 1 && depth <= 1e12)) n.Fail("depth is {}", depth);
  n.Return(n.Emit("OneHot",
                  {{"depth", static_cast<int64_t>(depth)},
                   {"axis", n.Axis(n.Int("axis", -1), n.rank(0) + 1)},
                   {"off", values[0]},
                   {"on", values[1]},
                   {"to", std::string(Name(n.dtype(2)))}},
                  {n.In(0)}));
}

void ImportTopK(CallImport& n) {
  auto results = n.EmitAll("TopK",
                           {{"k", n.ScalarInt(1, "k")},
                            {"axis", n.Axis(n.Int("axis", -1), n.rank(0))},
                            {"largest", n.Int("largest", 1)},
                            {"sorted", n.Int("sorted", 1)}},
                           {n.In(0)});
  n.Return(0, results[0]);
  n.Return(1, results[1]);
}

void ImportCumSum(CallImport& n) {
  n.Return(n.Emit("CumSum",
                  {{"axis", n.Axis(n.ScalarInt(1, "axis"), n.rank(0))},
                   {"exclusive", n.Int("exclusive", 0)},
                   {"reverse", n.Int("reverse", 0)}},
                  {n.In(0)}));
}

}  // namespace

std::span<const OpImport> OnnxIndexingOps() {
  static const OpImport ops[] = {
      {"Gather", 2, 2,
       [](CallImport& n) {
         n.Return(n.Emit("Gather", {{"axis", n.Axis(n.Int("axis", 0), n.rank(0))}}, n.All()));
       }},
      {"GatherElements", 2, 2,
       [](CallImport& n) {
         n.Return(
             n.Emit("GatherElements", {{"axis", n.Axis(n.Int("axis", 0), n.rank(0))}}, n.All()));
       }},
      {"GatherND", 2, 2,
       [](CallImport& n) {
         n.Return(n.Emit("GatherND", {{"batch_dims", n.Int("batch_dims", 0)}}, n.All()));
       }},
      {"ScatterND", 3, 3,
       [](CallImport& n) {
         n.Return(n.Emit("ScatterND", {{"reduction", ScatterReduction(n)}}, n.All()));
       }},
      {"ScatterElements", 3, 3,
       [](CallImport& n) {
         n.Return(n.Emit(
             "ScatterElements",
             {{"axis", n.Axis(n.Int("axis", 0), n.rank(0))}, {"reduction", ScatterReduction(n)}},
             n.All()));
       }},
      {"OneHot", 3, 3, ImportOneHot},
      {"TopK", 2, 2, ImportTopK},
      {"CumSum", 2, 2, ImportCumSum},
  };
  return ops;
}

}  // namespace heddle
