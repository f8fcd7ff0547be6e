// The same ranks run several programs of one model alternately, step by step, so that other processes on the machine
// affect all of them equally. A step ends with its slowest rank.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "ops/op.h"
#include "plan/model.h"
#include "program/program.h"
#include "program/text.h"
#include "runtime/data/batch.h"
#include "runtime/executor.h"
#include "runtime/transport/transport.h"
#include "runtime/weights.h"

namespace heddle::bench {

// Wide layers with few samples, so that gradients are large relative to compute.
inline Model Mlp(int64_t batch, int64_t width, int64_t layers) {
  Graph graph;
  graph.name = "mlp";
  ValueId x = graph.AddValue("x", {DType::kF32, {batch, width}}, ValueKind::kInput);
  ValueId labels = graph.AddValue("labels", {DType::kI64, {batch}}, ValueKind::kInput);
  for (int64_t l = 0; l < layers; ++l) {
    ValueId w =
        graph.AddValue(fmt::format("w{}", l), {DType::kF32, {width, width}}, ValueKind::kParameter);
    ValueId b =
        graph.AddValue(fmt::format("b{}", l), {DType::kF32, {width}}, ValueKind::kParameter);
    x = AddOp(graph, "Linear", {}, {x, w, b}, fmt::format("m{}", l))[0];
    if (l + 1 < layers) x = AddOp(graph, "Relu", {}, {x}, fmt::format("h{}", l))[0];
  }
  ValueId count = AddOp(graph, "LabelCount", {}, {labels}, "count")[0];
  graph.outputs = AddOp(graph, "CrossEntropy", {}, {x, labels, count}, "loss");
  return Analyse(std::move(graph));
}

struct Contender {
  std::string name;
  std::unique_ptr<Program> program;
  std::unique_ptr<Executor> executor;
  int64_t predicted = 0, handed = 0;  // bytes per step
  std::vector<double> seconds;
  double loss = 0;
};

inline int64_t HandedOver(const Transport& transport) {
  int64_t bytes = 0;
  for (const auto& group : transport.traffic().groups) {
    for (const TrafficCount::Count& count : group) bytes += count.bytes;
  }
  return bytes;
}

inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Adds a contender: a program of a model with synthetic samples. All ranks must call it together.
inline void Add(std::vector<Contender>& to, std::string name, Program program, const Model& model,
                Transport& transport, const ExecutorOptions& options) {
  Contender& made = to.emplace_back();
  made.name = std::move(name);
  made.program = std::make_unique<Program>(std::move(program));
  for (const Instruction& at : made.program->RunOf(transport.rank()).instructions)
    made.predicted += PayloadBytes(*made.program, at, transport.rank());
  Batch samples = SyntheticBatch(model.graph, 1);
  made.executor = std::make_unique<Executor>(
      *made.program, transport, options, MakeWeights(model.graph, model.rules, {}),
      MakeConstants(model.graph, {}),
      [samples](int64_t, Block rows) { return RowsOf(samples, rows); });
}

// Runs the contenders alternately, `rounds` steps each after some warm-up steps. The bytes must be as predicted.
inline void Alternate(std::vector<Contender>& contenders, Transport& transport, int rounds) {
  constexpr int kWarm = 3;
  std::vector<int> ranks(static_cast<size_t>(transport.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  GroupHandle all = transport.AddGroup(ranks);
  for (int round = 0; round < rounds + kWarm; ++round) {
    for (Contender& run : contenders) {
      transport.Barrier();
      int64_t before = HandedOver(transport);
      double begin = SteadySeconds();
      run.loss = run.executor->RunStep(round).loss;
      at::Tensor took = at::full({1}, SteadySeconds() - begin, at::kDouble);
      run.handed = HandedOver(transport) - before;
      Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kMax, all, took, took);
      transport.Wait(ticket);
      if (round >= kWarm) run.seconds.push_back(took.item<double>());
      if (run.handed != run.predicted)
        ThrowRun("{}: {} bytes were handed over, {} predicted", run.name, run.handed,
                 run.predicted);
    }
  }
}

// A line of text: bytes and time of a step relative to the first contender.
inline std::string Beside(const Contender& run, const Contender& first) {
  std::vector<double> ratios;
  for (size_t i = 0; i < run.seconds.size(); ++i)
    ratios.push_back(first.seconds[i] / run.seconds[i]);
  std::sort(ratios.begin(), ratios.end());
  size_t quarter = ratios.size() / 4;
  return fmt::format(
      "{:<12} {:>10} a step by rank 0, as predicted ({:.3f} of {})   {:>9} median step   {:.2f} x "
      "as fast (quartiles {:.2f} to {:.2f})",
      run.name, FormatBytes(Bytes{run.handed}),
      static_cast<double>(run.handed) / static_cast<double>(std::max<int64_t>(1, first.handed)),
      first.name, FormatSeconds(Seconds{Median(run.seconds)}), Median(ratios), ratios[quarter],
      ratios[ratios.size() - 1 - quarter]);
}

inline int64_t Argument(int argc, char** argv, int i, int64_t otherwise) {
  return i < argc ? std::max<int64_t>(1, std::atoll(argv[i])) : otherwise;
}

}  // namespace heddle::bench
