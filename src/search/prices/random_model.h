// Random small models and meshes for the tests of stage problems.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ops/op.h"
#include "plan/mesh.h"
#include "plan/model.h"

namespace heddle {

// Random products, sums, activations and reductions of earlier values; the loss is the sum of the
// last value. Rows are 4 to 16 times 2^scale, columns 4 to 512.
inline Model RandomModel(std::mt19937_64& rng, size_t nodes, int scale = 0) {
  auto below = [&](size_t bound) { return static_cast<size_t>(rng() % bound); };
  Graph graph;
  graph.name = "random";
  int64_t rows = int64_t{4} << below(3), width = int64_t{4} << below(8);
  rows <<= scale;
  std::vector<ValueId> values = {
      graph.AddValue("x", {DType::kF32, {rows, width}}, ValueKind::kInput)};
  ValueId shared = graph.AddValue("w", {DType::kF32, {width, width}}, ValueKind::kParameter);
  for (size_t n = 0; n + 1 < nodes; ++n) {
    ValueId a = values[values.size() - 1 - below(std::min<size_t>(2, values.size()))];
    ValueId b = values[below(values.size())];
    std::string name = fmt::format("v{}", n);
    size_t kind = n == 0 ? 0 : below(5);
    if (kind <= 1) {
      ValueId w = below(3) == 0 ? shared
                                : graph.AddValue("w" + name, {DType::kF32, {width, width}},
                                                 ValueKind::kParameter);
      values.push_back(AddOp(graph, "MatMul", {}, {a, w}, name)[0]);
    } else if (kind == 2) {
      values.push_back(AddOp(graph, "Add", {}, {a, b}, name)[0]);
    } else if (kind == 3) {
      values.push_back(AddOp(graph, "Mul", {}, {a, b}, name)[0]);
    } else {
      values.push_back(AddOp(graph, "Relu", {}, {a}, name)[0]);
    }
  }
  Attributes axes = {{"axes", std::vector<int64_t>{0, 1}}, {"keepdims", int64_t{0}}};
  graph.outputs = AddOp(graph, "ReduceSum", axes, {values.back()}, "loss");
  return Analyse(std::move(graph));
}

// Axes x, y, z of these sizes.
inline Mesh MeshOfSizes(const std::vector<int64_t>& sizes) {
  Mesh mesh;
  for (size_t a = 0; a < sizes.size(); ++a) {
    mesh.axes.push_back({std::string(1, static_cast<char>('x' + a)), sizes[a]});
  }
  return mesh;
}

}  // namespace heddle
