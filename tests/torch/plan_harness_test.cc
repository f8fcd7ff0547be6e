#include "plan_harness.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "program/lower.h"
#include "runtime/data/batch.h"
#include "runtime/kernel_threads.h"
#include "runtime/tensor.h"
#include "runtime/tiles.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

void Place(std::map<std::string, at::Tensor>& into, std::map<std::string, at::Tensor>& seen,
           const std::vector<ParameterPart>& parts) {
  for (ParameterPart part : parts) {
    part.values = part.values.cpu();
    if (!into.count(part.name)) {
      into[part.name] = at::zeros(part.shape);
      seen[part.name] = at::zeros(part.shape);
    }
    at::Tensor before = TakeTile(into[part.name], part.tile);
    at::Tensor known = TakeTile(seen[part.name], part.tile);
    // Copies of a parameter stay equal.
    double apart =
        part.values.numel() == 0 ? 0 : ((before - part.values) * known).abs().max().item<double>();
    EXPECT_LT(apart, 1e-4) << part.name;
    PutTile(into[part.name], part.tile, part.values);
    PutTile(seen[part.name], part.tile, at::ones_like(part.values));
  }
}

std::map<std::string, int64_t> Counted(const TrafficCount& traffic) {
  std::map<std::string, int64_t> bytes;
  for (const auto& group : traffic.groups) {
    for (size_t k = 0; k < group.size(); ++k) {
      if (group[k].bytes) bytes[std::string(kCollectiveNames[k])] += group[k].bytes;
    }
  }
  for (const auto& peer : traffic.sent) {
    if (peer.bytes) bytes["send"] += peer.bytes;
  }
  for (const auto& peer : traffic.received) {
    if (peer.bytes) bytes["recv"] += peer.bytes;
  }
  return bytes;
}

}  // namespace

std::vector<std::map<std::string, int64_t>> StepBytes(const Program& program) {
  std::vector<std::map<std::string, int64_t>> all;
  for (int64_t device = 0; device < program.device_count(); ++device) {
    std::map<std::string, int64_t> bytes;
    for (const Instruction& i : program.RunOf(device).instructions) {
      if (i.op == Opcode::kSend || i.op == Opcode::kRecv) {
        const StageTransfer& transfer = program.transfers[i.transfer()];
        const Local& local = program.stages[transfer.from_stage].locals[transfer.from_local];
        for (const PeerMessage& message : MessagesOf(program, i, device)) {
          int64_t elements = 1;
          for (int64_t size : ShapeOf(message.message.give)) elements *= size;
          int64_t payload = elements * SizeOf(local.dtype);
          if (payload) bytes[i.op == Opcode::kSend ? "send" : "recv"] += payload;
        }
        continue;
      }
      Payload payload = CollectiveOf(program, i, device);
      int64_t given = payload.ranks.empty() ? 0 : payload.GivenBy(device);
      if (given) bytes[std::string(Name(payload.kind))] += given;
    }
    all.push_back(std::move(bytes));
  }
  return all;
}

Curve OneDevice(const Graph& graph, const Batch& batch, const CurveOptions& options) {
  SingleDevice model(graph, {.seed = options.seed});
  Optimizer optimizer(options.optimizer);
  Curve curve;
  for (int64_t step = 0; step < options.steps; ++step) {
    StepResult result = model.Run(batch, step);
    curve.losses.push_back(result.loss);
    double squares = 0;
    for (const at::Tensor& gradient : result.gradients)
      squares += gradient.pow(2).sum().item<double>();
    for (size_t p = 0; p < result.gradients.size(); ++p) {
      if (step == 0) curve.gradients[model.parameter_names()[p]] = result.gradients[p].clone();
      double norm = std::sqrt(squares);
      if (options.clip_norm > 0 && norm > options.clip_norm) {
        result.gradients[p] = result.gradients[p] * (options.clip_norm / (norm + 1e-6));
      }
    }
    optimizer.Step(model.parameters(), result.gradients);
  }
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    curve.weights[model.parameter_names()[p]] = model.parameters()[p].detach().clone();
  }
  return curve;
}

Curve OnThreads(const Model& model, const Plan& plan, const Batch& batch,
                const CurveOptions& options) {
  Program program = Lower(model, plan, options.mask);
  std::vector<std::map<std::string, int64_t>> step_bytes = StepBytes(program);
  SingleDevice source(model.graph, {.seed = options.seed});  // weights, the same under every plan
  std::map<std::string, at::Tensor> initial;
  for (size_t p = 0; p < source.parameters().size(); ++p) {
    initial[source.parameter_names()[p]] = source.parameters()[p].detach();
  }
  WeightSource weights = [&](const std::string& name) { return initial.at(name); };
  ConstantSource constants = [](const Value& value) { return ToTorchTensor(*value.data); };
  DataFn data = [&](int64_t, Block rows) { return RowsOf(batch, rows); };
  Curve curve;
  std::map<std::string, at::Tensor> seen_gradients, seen_weights;
  std::mutex mutex;
  RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
    SetKernelThreads(1);
    ExecutorOptions run;
    run.seed = options.seed;
    run.optimizer = options.optimizer;
    run.clip_norm = options.clip_norm;
    run.keep_gradients = true;
    run.device = options.device;
    run.mask = options.mask;
    Executor executor(program, transport, run, weights, constants, data);
    std::vector<double> losses;
    for (int64_t step = 0; step < options.steps; ++step) {
      losses.push_back(executor.RunStep(step).loss);
      if (step != 0) continue;
      std::lock_guard<std::mutex> lock(mutex);
      Place(curve.gradients, seen_gradients, executor.Gradients());
    }
    std::vector<ParameterPart> parts = executor.Weights();
    std::lock_guard<std::mutex> lock(mutex);
    Place(curve.weights, seen_weights, parts);
    if (curve.losses.empty()) curve.losses = losses;
    EXPECT_EQ(curve.losses, losses);
  });
  // Runs again without reading gradients, so that the bytes are those of the program.
  RunRanks(static_cast<int>(program.device_count()), [&](Transport& transport) {
    SetKernelThreads(1);
    ExecutorOptions run;
    run.device = options.device;
    run.mask = options.mask;
    Executor executor(program, transport, run, weights, constants, data);
    executor.RunStep(0);
    std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(Counted(transport.traffic()), step_bytes[static_cast<size_t>(transport.rank())]);
  });
  return curve;
}

void ExpectSame(const Curve& got, const Curve& expected, double tolerance) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t s = 0; s < got.losses.size(); ++s) {
    EXPECT_NEAR(got.losses[s], expected.losses[s], tolerance * std::abs(expected.losses[s]))
        << "step " << s;
  }
  double largest = 0;
  for (const auto& [name, gradient] : expected.gradients)
    largest = std::max(largest, gradient.norm().item<double>());
  for (const auto& [name, gradient] : expected.gradients) {
    auto found = got.gradients.find(name);
    if (found == got.gradients.end()) {
      ADD_FAILURE() << name << " has no gradient";
      continue;
    }
    double scale = std::max(gradient.norm().item<double>(), 1e-4 * largest);
    double error = (found->second - gradient).norm().item<double>() / scale;
    EXPECT_LT(error, tolerance) << name << " " << gradient.sizes();
  }
}

}  // namespace heddle
