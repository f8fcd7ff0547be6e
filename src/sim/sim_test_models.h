// Small models for the tests of the simulator.
#pragma once

#include <string>

#include "ops/op.h"

namespace heddle {

// `layers` equal pairs of a product and a ReLU, and a loss.
inline Graph Layers(int layers, int64_t batch, int64_t width = 16) {
  Graph graph;
  graph.name = "layers";
  ValueId x = graph.AddValue("x", {DType::kF32, {batch, width}}, ValueKind::kInput);
  ValueId labels = graph.AddValue("labels", {DType::kI64, {batch}}, ValueKind::kInput);
  for (int i = 0; i < layers; ++i) {
    std::string at = "h" + std::to_string(i);
    ValueId w = graph.AddValue(at + ".w", {DType::kF32, {width, width}}, ValueKind::kParameter);
    x = AddOp(graph, "MatMul", {}, {x, w}, at + ".m")[0];
    x = AddOp(graph, "Relu", {}, {x}, at)[0];
  }
  ValueId count = AddOp(graph, "LabelCount", {}, {labels}, "count")[0];
  graph.outputs = AddOp(graph, "CrossEntropy", {}, {x, labels, count}, "loss");
  return graph;
}

}  // namespace heddle
