// `heddle checkpoint` lists and verifies the checkpoints in a folder, and exports their weights as plain safetensors.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "base/units.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/shared_options.h"
#include "graph/safetensors.h"

namespace heddle {
namespace {

struct CheckpointCommand {
  std::string folder, output;
  int64_t step = -1;  // -1: all; to export, the last valid one
  bool json = false;
};

struct Row {
  int64_t step = 0, bytes = 0;
  std::string path, wrong;  // wrong: the damage; empty if the checkpoint is valid
  Manifest manifest;
};

Row Look(const std::string& folder, int64_t step) {
  Row row;
  row.step = step;
  row.path = CheckpointPath(folder, step);
  Progress progress("verifying " + row.path);
  try {
    row.manifest = OpenCheckpoint(row.path);
    for (const auto& [name, file] : row.manifest.files) row.bytes += file.bytes;
    RequireSound(folder, step, [&](int64_t done, int64_t all) {
      progress.Update(100 * done / std::max<int64_t>(1, all), "per cent");
    });
  } catch (const InputError& error) {
    row.wrong = error.what();
  }
  return row;
}

// A text of the manifest's `run` object, or empty. Manifests are untrusted input.
std::string RunText(const Manifest& manifest, const char* group, const char* key) {
  auto found = manifest.run.find(group);
  if (found == manifest.run.end() || !found->is_object()) return "";
  auto text = found->find(key);
  return text != found->end() && text->is_string() ? text->get<std::string>() : "";
}

void List(const CheckpointCommand& args, const std::vector<Row>& rows) {
  if (args.json) {
    Json json = Json::array();
    for (const Row& row : rows) {
      Json entry = {{"step", row.step},
                    {"path", row.path},
                    {"sound", row.wrong.empty()},
                    {"bytes", row.bytes},
                    {"ranks", row.manifest.ranks},
                    {"tensors", row.manifest.tensors.size()},
                    {"model", RunText(row.manifest, "model", "source")}};
      if (!row.wrong.empty()) entry["wrong"] = row.wrong;
      json.push_back(std::move(entry));
    }
    PrintJson({{"checkpoints", std::move(json)}});
    return;
  }
  fmt::print("{:>10} {:>10} {:>6} {:>8}  {:<10} {}\n", "step", "size", "ranks", "tensors", "state",
             "model");
  for (const Row& row : rows) {
    fmt::print("{:>10} {:>10} {:>6} {:>8}  {:<10} {}\n", row.step, FormatBytes(Bytes{row.bytes}),
               row.manifest.ranks, row.manifest.tensors.size(),
               row.wrong.empty() ? "valid" : "damaged", RunText(row.manifest, "model", "source"));
    if (!row.wrong.empty()) fmt::print("           {}\n", row.wrong);
  }
}

void Export(const CheckpointCommand& args, const std::vector<Row>& rows) {
  const Row* chosen = nullptr;
  for (const Row& row : rows) {
    if (args.step >= 0 ? row.step == args.step : row.wrong.empty()) chosen = &row;
  }
  if (chosen == nullptr && args.step >= 0) {
    ThrowInput("{}: no checkpoint of step {}: 'heddle checkpoint {}' lists all checkpoints",
               args.folder, args.step, args.folder);
  }
  if (chosen == nullptr) {
    ThrowInput("{}: no checkpoint is valid: 'heddle checkpoint {}' says why", args.folder,
               args.folder);
  }
  if (!chosen->wrong.empty()) ThrowInput("{}", chosen->wrong);
  CheckpointReader reader(chosen->path, chosen->manifest);
  std::map<std::string, HostTensor> tensors;
  Progress progress("reading", static_cast<int64_t>(chosen->manifest.tensors.size()));
  for (const auto& [name, tensor] : chosen->manifest.tensors) {
    tensors[name] = *reader.Whole(StateKind::kWeights, name);
    progress.Update(static_cast<int64_t>(tensors.size()), name);
  }
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, &tensor});
  WriteSafetensors(args.output, named, {{"format", "pt"}, {"step", std::to_string(chosen->step)}});
  if (args.json) {
    PrintJson({{"step", chosen->step}, {"tensors", named.size()}, {"file", args.output}});
  } else {
    fmt::print("{}: {} tensors of step {}\n", args.output, named.size(), chosen->step);
  }
}

void Run(const CheckpointCommand& args) {
  std::vector<int64_t> steps = ListCheckpoints(args.folder);
  if (steps.empty()) ThrowInput("{}: this folder has no checkpoints", args.folder);
  std::vector<Row> rows;
  for (int64_t step : steps) {
    if (args.step < 0 || args.step == step) rows.push_back(Look(args.folder, step));
  }
  if (!args.output.empty()) {
    Export(args, rows);
    return;
  }
  if (rows.empty()) ThrowInput("{}: no checkpoint of step {}", args.folder, args.step);
  List(args, rows);
  auto damaged =
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.wrong.empty(); });
  if (damaged > 0) ThrowRun("{} of {} checkpoints are damaged", damaged, rows.size());
}

}  // namespace

void AddCheckpoint(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("checkpoint", "list, verify and export the checkpoints of a run");
  auto args = std::make_shared<CheckpointCommand>();
  command->add_option("DIR", args->folder, "the folder given to 'train --checkpoint'")->required();
  command
      ->add_option("--step", args->step,
                   "only this step (default: all; to export, the last valid one)")
      ->transform(IntegerIn(0));
  command->add_option("--export", args->output,
                      "write the weights as safetensors, under the model's own names");
  AddJsonFlag(*command, args->json);
  command->footer(
      "Examples:\n  heddle checkpoint runs/gpt2\n"
      "  heddle checkpoint runs/gpt2 --step 400 --export gpt2.safetensors");
  command->callback([args] { Run(*args); });
}

}  // namespace heddle
