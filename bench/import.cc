// The growth of import and folding with depth. Repeats the second layer of a GPT-2 exported by PyTorch to make models
// of 12 to 384 layers. The time per ONNX node should stay constant.
//
// Times are CPU times, the shortest of several rounds over all depths, so that other processes on the machine do not
// favour any of them.
//
//   build/bench/import [tests/data/models/gpt2.onnx.gz]
#include "frontend/onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "fold/fold.h"
#include "frontend/fuse.h"
#include "frontend/gzip.h"
#include "frontend/onnx/onnx_subset.pb.h"
#include "ops/analysis.h"
#include "timing.h"

namespace heddle {
namespace {

using heddle_onnx::GraphProto;
using heddle_onnx::ModelProto;
using heddle_onnx::NodeProto;

// The first node of each layer, which is the first that reads one of its parameters, followed by the end of the last
// layer.
std::vector<int> LayerBegins(const GraphProto& graph) {
  std::vector<int> begins;
  for (int n = 0; n < graph.node_size(); ++n) {
    for (const std::string& input : graph.node(n).input()) {
      std::string next = fmt::format(".h.{}.", begins.size());
      if (input.find(next) != std::string::npos || input.find(".ln_f.") != std::string::npos) {
        begins.push_back(n);
        if (input.find(".ln_f.") != std::string::npos) return begins;
        break;
      }
    }
  }
  ThrowInput("no layers '.h.N.' in the model");
}

std::string ReplaceFirst(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Makes a model with `layers` layers: its nodes up to the first layer, copies of the second layer, and its last nodes.
ModelProto Deepen(const ModelProto& model, int layers) {
  const GraphProto& from = model.graph();
  std::vector<int> begins = LayerBegins(from);
  ModelProto deep = model;
  GraphProto& to = *deep.mutable_graph();
  to.clear_node();
  to.clear_initializer();
  to.clear_value_info();
  auto layer_of = [&](const std::string& name) {
    size_t at = name.find(".h.");
    return at == std::string::npos ? -1 : std::stoi(name.substr(at + 3));
  };
  for (const auto& initializer : from.initializer()) {
    if (layer_of(initializer.name()) <= 0) *to.add_initializer() = initializer;
    if (layer_of(initializer.name()) != 1) continue;
    for (int k = 1; k < layers; ++k) {
      auto* copy = to.add_initializer();
      *copy = initializer;
      copy->set_name(ReplaceFirst(initializer.name(), ".h.1.", fmt::format(".h.{}.", k)));
    }
  }
  // The next layer, or the end, reads the last value that a layer makes.
  auto last_output = [&](size_t layer) { return from.node(begins[layer + 1] - 1).output(0); };
  for (int n = 0; n < begins[1]; ++n) *to.add_node() = from.node(n);
  std::string stream = last_output(0);
  for (int k = 1; k < layers; ++k) {
    std::map<std::string, std::string> renamed = {{last_output(0), stream}};
    for (int n = begins[1]; n < begins[2]; ++n) {
      NodeProto* copy = to.add_node();
      *copy = from.node(n);
      copy->set_name(fmt::format("{}@{}", copy->name(), k));
      for (std::string& input : *copy->mutable_input()) {
        if (renamed.count(input)) input = renamed[input];
        input = ReplaceFirst(input, ".h.1.", fmt::format(".h.{}.", k));
      }
      for (std::string& output : *copy->mutable_output()) {
        output = renamed[output] = fmt::format("{}@{}", output, k);
      }
    }
    stream = renamed.at(last_output(1));
  }
  std::string end = last_output(begins.size() - 2);
  for (int n = begins.back(); n < from.node_size(); ++n) {
    NodeProto* copy = to.add_node();
    *copy = from.node(n);
    for (std::string& input : *copy->mutable_input()) {
      if (input == end) input = stream;
    }
  }
  return deep;
}

struct Depth {
  int layers;
  std::string bytes = {};
  int onnx_nodes = 0;
  size_t blocks = 0;
  double import = 1e9, fold = 1e9;  // seconds, the shortest of all rounds

  double MicrosPerNode() const { return 1e6 * (import + fold) / onnx_nodes; }
};

void Measure(Depth& depth) {
  double start = CpuSeconds();
  Graph graph = ImportOnnxBytes(depth.bytes, "deep.onnx", ".", {});
  for (std::span<const Pass> passes : {CleanUpPasses(), FusionPasses(), LayoutPasses()}) {
    graph = RunPasses(std::move(graph), passes);
  }
  Rules rules = MakeRules(graph);
  double imported = CpuSeconds();
  Folding folding = Fold(graph, rules);
  depth.import = std::min(depth.import, imported - start);
  depth.fold = std::min(depth.fold, CpuSeconds() - imported);
  depth.blocks = folding.chains.empty() ? 0 : folding.chains[0].count();
}

void Run(const std::string& path) {
  constexpr int kRounds = 10;
  std::vector<Depth> depths = {{12}, {24}, {48}, {96}, {192}, {384}};
  {
    ModelProto model;
    if (!model.ParseFromString(Gunzip(ReadFile(path, 1 << 30), path, 1 << 30))) {
      ThrowInput("{}: no model", path);
    }
    for (Depth& depth : depths) {
      ModelProto deep = Deepen(model, depth.layers);
      depth.onnx_nodes = deep.graph().node_size();
      depth.bytes = deep.SerializeAsString();
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Depth& depth : depths) Measure(depth);
  }
  fmt::print("{:>7} {:>10} {:>10} {:>12} {:>12} {:>14}\n", "layers", "onnx nodes", "blocks",
             "import", "fold", "us per node");
  for (const Depth& depth : depths) {
    fmt::print("{:>7} {:>10} {:>10} {:>10.1f}ms {:>10.2f}ms {:>14.2f}\n", depth.layers,
               depth.onnx_nodes, depth.blocks, 1e3 * depth.import, 1e3 * depth.fold,
               depth.MicrosPerNode());
  }
  fmt::print("time per node, 384 layers over 12: {:.2f}\n",
             depths.back().MicrosPerNode() / depths.front().MicrosPerNode());
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  try {
    heddle::Run(argc > 1 ? argv[1] : "tests/data/models/gpt2.onnx.gz");
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
