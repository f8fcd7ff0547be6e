// Small models for the tests of the simulator.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "ops/op.h"
#include "sim/engine.h"

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

// In each stage and half, the first main segment takes the given seconds; everything else takes no time.
inline void SetUnitTimes(const Program& program, Prepared& prepared, double forward,
                         double backward, double weight) {
  for (size_t c = 0; c < prepared.costs.size(); ++c) {
    size_t run = static_cast<size_t>(prepared.classes.devices[c].run);
    const TaskList& tasks = prepared.lists[run];
    std::set<std::pair<StageId, Half>> seen;
    for (size_t k = 0; k < tasks.keys.size(); ++k) {
      const Instruction& at = program.runs[run].instructions[static_cast<size_t>(tasks.keys[k])];
      prepared.costs[c][k] = {};
      if (at.op != Opcode::kRun || at.microbatch < 0) continue;
      const StageProgram& stage = program.stages[at.stage];
      if (stage.segments[at.segment()].phase != Phase::kMain) continue;
      if (!seen.insert({at.stage, at.half}).second) continue;
      double seconds = at.half == Half::kF   ? forward
                       : at.half == Half::kB ? backward
                       : at.half == Half::kW ? weight
                                             : backward + weight;
      prepared.costs[c][k].terms[Term::kHost] = seconds;
      prepared.costs[c][k].seconds = seconds;
    }
  }
  for (MessageClass& message : prepared.classes.messages) message.latency = message.bytes = 0;
}

}  // namespace heddle
