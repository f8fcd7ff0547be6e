#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "frontend/load.h"
#include "graph/safetensors.h"
#include "graph/text.h"

namespace heddle {
namespace {

struct ExportArgs {
  ModelArgs model;
  std::string output;
  std::string weights;
};

// The tensors that are not in the text: parameters, and constants that are too large to print.
std::vector<NamedTensor> Tensors(const Graph& graph) {
  std::vector<NamedTensor> tensors;
  for (const Value& value : graph.values) {
    bool wanted = value.kind == ValueKind::kParameter || value.kind == ValueKind::kConstant;
    if (wanted && value.data) tensors.push_back({value.name, value.data.get()});
  }
  return tensors;
}

// Throws if an output is the same file as another file that the command reads or writes.
void RequireApart(std::string_view a, const std::string& path, std::string_view b,
                  const std::string& other) {
  std::error_code error;
  if (path.empty() || other.empty()) return;
  // weakly_canonical leaves a path relative if it does not exist yet, so it is made absolute first.
  auto place = [&](const std::string& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file, error), error);
  };
  if (place(path) == place(other)) {
    ThrowInput("{} and {} are the same file {}; choose another", a, b, path);
  }
}

void Export(const ExportArgs& args) {
  if (!args.output.ends_with(".heddle")) {
    ThrowInput("-o {}: the name must end in .heddle", args.output);
  }
  RequireApart("MODEL", args.model.model, "-o", args.output);
  RequireApart("MODEL", args.model.model, "--weights", args.weights);
  RequireApart("-o", args.output, "--weights", args.weights);
  Graph graph = args.model.Load();
  std::string text = ToText(graph);
  std::vector<NamedTensor> tensors = Tensors(graph);
  AtomicFile output(args.output);
  output.stream() << text;
  if (!args.weights.empty()) WriteSafetensors(args.weights, tensors);
  output.Commit();
  if (args.model.json) {
    Json json;
    json["model"] = args.output;
    json["nodes"] = graph.nodes.size();
    json["tensors"] = args.weights.empty() ? 0 : tensors.size();
    PrintJson(json);
  } else {
    fmt::print("{}: {} nodes\n", args.output, graph.nodes.size());
    if (!args.weights.empty()) fmt::print("{}: {} tensors\n", args.weights, tensors.size());
  }
}

}  // namespace

void AddExport(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "write a model as text, and its weights");
  auto args = std::make_shared<ExportArgs>();
  args->model.Add(*command);
  command->add_option("-o,--output", args->output, "the graph as text, a .heddle file")->required();
  command->add_option("--weights", args->weights,
                      "the weights and large constants of the model, as safetensors");
  command->footer("Example:\n  heddle export gpt2.onnx -o gpt2.heddle --weights gpt2.safetensors");
  command->callback([args] { Export(*args); });
}

}  // namespace heddle
