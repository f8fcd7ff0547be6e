#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "fold/fold.h"
#include "frontend/load.h"
#include "ops/analysis.h"

namespace heddle {
namespace {

struct OpRow {
  std::string op;
  int64_t count = 0;
  double flops = 0;
};

// Ops by forward work, then by name.
std::vector<OpRow> OpTable(const Graph& graph) {
  std::map<std::string, OpRow> rows;
  std::vector<Rule> rules = MakeRules(graph);
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

Json ToJson(const Graph& graph, const ModelSize& size, double seconds) {
  Json json;
  json["model"] = graph.name;
  json["nodes"] = size.nodes;
  json["parameters"] = size.parameters;
  json["parameter_tensors"] = size.parameter_tensors;
  json["forward_contraction_flops"] = size.work.forward.contraction_flops;
  json["forward_flops"] = size.work.forward.flops;
  json["backward_flops"] = size.work.backward.flops + size.work.weight.flops;
  json["activation_bytes"] = size.activation_bytes;
  json["blocks"] = Json::array();
  for (const Chain& chain : Fold(graph, MakeRules(graph)).chains) {
    json["blocks"].push_back({{"nodes", chain.nodes_per_block()},
                              {"count", chain.count()},
                              {"crossing_bytes", chain.crossing_bytes}});
  }
  json["ops"] = Json::object();
  for (const OpRow& row : OpTable(graph)) json["ops"][row.op] = row.count;
  json["import_seconds"] = seconds;
  return json;
}

void Print(const Graph& graph, const ModelSize& size, double seconds) {
  auto bytes = [](double count) { return FormatBytes(Bytes(static_cast<int64_t>(count))); };
  double parameters = static_cast<double>(size.parameters);
  fmt::print("{}\n", graph.name);
  for (ValueId id : graph.ValuesOf(ValueKind::kInput)) {
    fmt::print("  input        {} {}\n", graph.value(id).name, ToString(graph.value(id).type));
  }
  fmt::print("  parameters   {} ({}) in {} tensors ({} in fp32)\n", FormatCount(parameters),
             size.parameters, size.parameter_tensors, bytes(4 * parameters));
  fmt::print("  nodes        {}\n", size.nodes);
  fmt::print("  forward      {} ({} in matrix products and convolutions)\n",
             FormatFlops(Flops(size.work.forward.flops)),
             FormatFlops(Flops(size.work.forward.contraction_flops)));
  fmt::print("  backward     {}\n",
             FormatFlops(Flops(size.work.backward.flops + size.work.weight.flops)));
  fmt::print("  activations  {} kept for backward\n", bytes(size.activation_bytes));
  fmt::print("  imported in  {}\n\n", FormatSeconds(Seconds(seconds)));
  fmt::print("  {:<20} {:>7} {:>14} {:>7}\n", "op", "count", "forward", "share");
  for (const OpRow& row : OpTable(graph)) {
    fmt::print("  {:<20} {:>7} {:>14} {:>6.1f}%\n", row.op, row.count, FormatFlops(Flops(row.flops)),
               100 * row.flops / std::max(1.0, size.work.forward.flops));
  }
}

void Inspect(const ModelArgs& args) {
  auto start = std::chrono::steady_clock::now();
  Graph graph = args.Load();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ModelSize size = Measure(graph);
  if (args.json) {
    fmt::print("{}\n", ToJson(graph, size, took.count()).dump(1));
  } else {
    Print(graph, size, took.count());
  }
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "what a model is: size, work, operators");
  auto args = std::make_shared<ModelArgs>();
  args->Add(*command);
  command->footer("Example:\n  heddle inspect gpt2.onnx --dim batch=8");
  command->callback([args] { Inspect(*args); });
}

}  // namespace heddle
