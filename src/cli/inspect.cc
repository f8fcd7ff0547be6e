#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/checked_math.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "fold/fold.h"
#include "fold/recompute.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

struct OpRow {
  std::string op;
  int64_t count = 0;
  double flops = 0;
};

struct BlockRow {
  int64_t nodes = 0;
  int64_t count = 0;
  int64_t parameters = 0;  // of one block
  double forward_flops = 0;
  int64_t crossing_bytes = 0;
};

// The bytes for training in one precision, with everything on one device.
struct MemoryRow {
  std::string_view precision;
  double weights = 0;
  double gradients = 0;
  double optimizer =
      0;  // Adam: two moments in fp32, and fp32 master weights if compute is in another type
  double activations = 0;
  double recomputed = 0;
};

struct Report {
  std::string name;
  std::vector<std::string> inputs;
  int64_t batch = 1;
  ModelSize size;
  std::vector<OpRow> ops;
  std::vector<BlockRow> blocks;
  std::vector<MemoryRow> memory;
  double import_seconds = 0;
  double fold_seconds = 0;
};

// Ops in the order of their forward FLOPs, then by name.
std::vector<OpRow> OpTable(const Graph& graph, const Rules& rules) {
  std::map<std::string, OpRow> rows;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    OpRow& row = rows[graph.nodes[n].op];
    row.op = graph.nodes[n].op;
    ++row.count;
    row.flops += ForwardWork(rules[n], WholeBlocks(rules[n])).flops;
  }
  std::vector<OpRow> sorted;
  for (auto& [op, row] : rows) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpRow& a, const OpRow& b) { return a.flops > b.flops; });
  return sorted;
}

BlockRow Describe(const Graph& graph, const Rules& rules, const Chain& chain) {
  BlockRow row;
  row.nodes = static_cast<int64_t>(chain.nodes_per_block());
  row.count = static_cast<int64_t>(chain.count());
  row.crossing_bytes = chain.crossing_bytes;
  std::set<ValueId> parameters;
  for (NodeId id : chain.copies.back()) {
    row.forward_flops += ForwardWork(rules[id.index()], WholeBlocks(rules[id.index()])).flops;
    for (ValueId operand : graph.node(id).operands) {
      const Value& value = graph.value(operand);
      if (value.kind != ValueKind::kParameter || !parameters.insert(operand).second) continue;
      row.parameters = CheckedAdd(row.parameters, ElementCount(value.type.shape, value.name),
                                  "the number of parameters");
    }
  }
  return row;
}

// The bytes of frozen weights and constants, which are stored but not trained.
double ConstantBytes(const Graph& graph, int float_bytes) {
  double bytes = 0;
  for (ValueId id : graph.ValuesOf(ValueKind::kConstant)) {
    const TensorType& type = graph.value(id).type;
    bytes += static_cast<double>(ElementCount(type.shape, graph.value(id).name)) *
             static_cast<double>(IsFloat(type.dtype) ? float_bytes : SizeOf(type.dtype));
  }
  return bytes;
}

std::vector<MemoryRow> MemoryTable(const Graph& graph, const Rules& rules, const Folding& folding,
                                   double parameters) {
  GradientFlow flow = FindGradients(graph, rules);
  KeptSet kept = FindKept(graph, rules, flow, Storages(graph, rules), AllNodes(graph));
  KeptSet recomputed = FindRecomputed(graph, rules, flow, folding);
  std::vector<MemoryRow> rows;
  for (auto [precision, bytes] : {std::pair("fp32", 4), std::pair("bf16", 2)}) {
    MemoryRow row;
    row.precision = precision;
    row.gradients = bytes * parameters;
    row.weights = row.gradients + ConstantBytes(graph, bytes);
    row.optimizer = (bytes == 4 ? 8 : 12) * parameters;
    row.activations = KeptBytes(graph, kept, bytes);
    row.recomputed = KeptBytes(graph, recomputed, bytes);
    rows.push_back(row);
  }
  return rows;
}

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Report MakeReport(const ModelArgs& args) {
  Report report;
  auto start = std::chrono::steady_clock::now();
  Graph graph = args.Load();
  report.import_seconds = Since(start);
  report.name = graph.name;
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    report.inputs.push_back(fmt::format("{} {}", value.name, ToString(value.type)));
    if (!value.type.shape.empty() && report.inputs.size() == 1) {
      report.batch = std::max<int64_t>(1, value.type.shape[0]);
    }
  }
  Rules rules = MakeRules(graph);
  report.size = Measure(graph, rules);
  report.ops = OpTable(graph, rules);
  start = std::chrono::steady_clock::now();
  Folding folding = Fold(graph, rules);
  report.fold_seconds = Since(start);
  for (const Chain& chain : folding.chains) report.blocks.push_back(Describe(graph, rules, chain));
  report.memory = MemoryTable(graph, rules, folding, static_cast<double>(report.size.parameters));
  return report;
}

Json ToJson(const Report& report) {
  const ModelSize& size = report.size;
  Json json;
  json["model"] = report.name;
  json["batch"] = report.batch;
  json["nodes"] = size.nodes;
  json["parameters"] = size.parameters;
  json["parameter_tensors"] = size.parameter_tensors;
  json["forward_contraction_flops"] = size.work.forward.contraction_flops;
  json["forward_flops"] = size.work.forward.flops;
  json["backward_flops"] = size.work.backward.flops + size.work.weight.flops;
  json["activation_bytes"] = size.activation_bytes;
  json["blocks"] = Json::array();
  for (const BlockRow& row : report.blocks) {
    json["blocks"].push_back({{"nodes", row.nodes},
                              {"count", row.count},
                              {"parameters", row.parameters},
                              {"forward_flops", row.forward_flops},
                              {"crossing_bytes", row.crossing_bytes}});
  }
  json["memory"] = Json::array();
  for (const MemoryRow& row : report.memory) {
    json["memory"].push_back({{"precision", row.precision},
                              {"weights", row.weights},
                              {"gradients", row.gradients},
                              {"optimizer", row.optimizer},
                              {"activations", row.activations},
                              {"activations_recomputed", row.recomputed}});
  }
  json["ops"] = Json::object();
  for (const OpRow& row : report.ops) json["ops"][row.op] = row.count;
  json["import_seconds"] = report.import_seconds;
  json["fold_seconds"] = report.fold_seconds;
  return json;
}

std::string AsBytes(double count) {
  return FormatBytes(Bytes{static_cast<int64_t>(std::min(count, 9e18))});
}
std::string AsFlops(double count) { return FormatFlops(Flops{count}); }

void PrintSizes(const Report& report) {
  const ModelSize& size = report.size;
  fmt::print("{}\n", report.name);
  for (const std::string& input : report.inputs) fmt::print("  input        {}\n", input);
  fmt::print("  parameters   {} ({}) in {} tensors\n",
             FormatCount(static_cast<double>(size.parameters)), size.parameters,
             size.parameter_tensors);
  fmt::print("  nodes        {}\n", size.nodes);
  fmt::print("  forward      {} ({} in matrix products and convolutions)\n",
             AsFlops(size.work.forward.flops), AsFlops(size.work.forward.contraction_flops));
  fmt::print("  backward     {}\n", AsFlops(size.work.backward.flops + size.work.weight.flops));
  fmt::print("  imported in  {}, folded in {}\n", FormatSeconds(Seconds{report.import_seconds}),
             FormatSeconds(Seconds{report.fold_seconds}));
}

void PrintBlocks(const Report& report) {
  if (report.blocks.empty()) return;
  fmt::print("\n  {:<20} {:>7} {:>12} {:>14} {:>10} {:>12}\n", "repeated blocks", "nodes",
             "parameters", "forward", "share", "crossing");
  for (const BlockRow& row : report.blocks) {
    double share = static_cast<double>(row.count) * row.forward_flops /
                   std::max(1.0, report.size.work.forward.flops);
    fmt::print("  {:<20} {:>7} {:>12} {:>14} {:>9.1f}% {:>12}\n", fmt::format("{} x", row.count),
               row.nodes, FormatCount(static_cast<double>(row.parameters)),
               AsFlops(row.forward_flops), 100 * share,
               AsBytes(static_cast<double>(row.crossing_bytes)));
  }
}

void PrintMemory(const Report& report) {
  fmt::print("\n  {:<20} {:>10} {:>10} {:>11} {:>13} {:>13} {:>11}\n", "memory to train", "weights",
             "gradients", "Adam state", "activations", "recomputed", "total");
  fmt::print("  {:<20} {:>10} {:>10} {:>11} {:>13} {:>13} {:>11}\n", "", "", "", "", "per sample",
             "per sample", fmt::format("batch {}", report.batch));
  double batch = static_cast<double>(report.batch);
  for (const MemoryRow& row : report.memory) {
    double state = row.weights + row.gradients + row.optimizer;
    fmt::print("  {:<20} {:>10} {:>10} {:>11} {:>13} {:>13} {:>11}\n", row.precision,
               AsBytes(row.weights), AsBytes(row.gradients), AsBytes(row.optimizer),
               AsBytes(row.activations / batch), AsBytes(row.recomputed / batch),
               AsBytes(state + row.activations));
  }
}

void PrintOps(const Report& report) {
  fmt::print("\n  {:<20} {:>7} {:>14} {:>10}\n", "op", "count", "forward", "share");
  for (const OpRow& row : report.ops) {
    fmt::print("  {:<20} {:>7} {:>14} {:>9.1f}%\n", row.op, row.count, AsFlops(row.flops),
               100 * row.flops / std::max(1.0, report.size.work.forward.flops));
  }
}

void Inspect(const ModelArgs& args) {
  Report report = MakeReport(args);
  if (args.json) {
    PrintJson(ToJson(report));
    return;
  }
  PrintSizes(report);
  PrintBlocks(report);
  PrintMemory(report);
  PrintOps(report);
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "show a model's size, FLOPs, repeated blocks and memory");
  auto args = std::make_shared<ModelArgs>();
  args->Add(*command);
  command->footer("Example:\n  heddle inspect gpt2.onnx --batch 16");
  command->callback([args] { Inspect(*args); });
}

}  // namespace heddle
