// `heddle prune` chooses the weights of a model to keep and writes them as a file of masks.
#include "runtime/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/folder.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/plan_args.h"
#include "cli/shared_options.h"
#include "cluster/load.h"
#include "frontend/glob.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "program/lower.h"
#include "runtime/accelerator.h"
#include "runtime/data/data_source.h"
#include "runtime/executor.h"
#include "runtime/kernel_threads.h"
#include "runtime/tensor.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

struct EarlyBird {
  int64_t steps = 1000, every = 20, window = 5;
  double threshold = 0.1, lr = 1e-3;
  std::string data, device = "cpu";
};

struct PruneArgs {
  ModelArgs model;
  std::string weights, output = "mask.safetensors", method = "magnitude";
  PruneOptions prune;
  bool per_layer = false;
  std::vector<std::string> keep;
  EarlyBird early;
  int threads = 0;
};

std::set<std::string> DenseNames(const Model& model, const std::vector<std::string>& patterns) {
  std::set<std::string> names;
  for (const std::string& pattern : patterns) {
    size_t before = names.size();
    for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
      const std::string& name = model.graph.value(id).name;
      if (GlobMatch(pattern, name)) names.insert(name);
    }
    if (names.size() == before) ThrowInput("--keep {}: it matches no further parameter", pattern);
  }
  return names;
}

// Early-bird pruning (You et al. 2020): trains on one device and makes a mask every few steps, until the masks of a
// window agree.
std::map<std::string, HostTensor> TrainedMasks(const Model& model, const WeightSource& weights,
                                               const PruneArgs& args, std::string* said) {
  if (args.early.steps / args.early.every < args.early.window - 1) {
    ThrowInput("--steps {}: too few for {} masks at one every {} steps", args.early.steps,
               args.early.window, args.early.every);
  }
  Program program = Lower(model, ExpertPlan(model, LoadCluster("local:1"), {}));
  std::unique_ptr<DataSource> data =
      OpenData(model.graph, {.path = args.early.data, .seed = args.prune.seed});
  ExecutorOptions options;
  options.seed = args.prune.seed;
  options.optimizer.lr = args.early.lr;
  options.device = ChooseDevice(args.early.device, 0);
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(1);
  WeightOptions start{.seed = args.prune.seed};
  Executor executor(program, *transports[0], options, weights, MakeConstants(model.graph, start),
                    [&](int64_t step, Block rows) { return data->Rows(step, rows); });
  auto masks = [&] {
    std::map<std::string, at::Tensor> held;
    for (ParameterPart& part : executor.Weights()) held.emplace(part.name, part.values.cpu());
    return MakeMasks(
        model, [&](const std::string& name) { return held.at(name); }, args.prune);
  };
  Progress progress("training until masks agree", args.early.steps);
  std::deque<std::map<std::string, HostTensor>> window = {masks()};
  for (int64_t step = 0; step < args.early.steps; ++step) {
    executor.RunStep(step);
    if ((step + 1) % args.early.every != 0) continue;
    window.push_back(masks());
    if (static_cast<int64_t>(window.size()) > args.early.window) window.pop_front();
    double farthest = 0;
    for (size_t i = 0; i + 1 < window.size(); ++i) {
      farthest = std::max(farthest, MaskDistance(window[i], window.back()));
    }
    progress.Update(step + 1, fmt::format("masks differ by {:.3f}", farthest));
    bool full = static_cast<int64_t>(window.size()) == args.early.window;
    *said = fmt::format("after {} steps the last {} masks differ by at most {:.3f}", step + 1,
                        window.size(), farthest);
    if (full && farthest < args.early.threshold) return window.back();
  }
  ThrowRun("{}, which is not below {}: give more --steps or a larger --threshold", *said,
           args.early.threshold);
}

struct LoadedWeights {
  Model model;
  WeightSource weights;
  std::unique_ptr<CheckpointReader> checkpoint;
};

// Loads a model, or the last checkpoint of a folder, whose manifest names the model.
void LoadPruned(const PruneArgs& args, LoadedWeights& out) {
  ModelArgs named = args.model;
  bool folder = std::filesystem::is_directory(args.model.model);
  if (folder) {
    std::vector<int64_t> steps = ListCheckpoints(args.model.model);
    if (steps.empty()) ThrowInput("{}: this folder has no checkpoints", args.model.model);
    std::string path = CheckpointPath(args.model.model, steps.back());
    Manifest manifest = OpenCheckpoint(path);
    const Json* model = manifest.run.is_object() && manifest.run.contains("model")
                            ? &manifest.run["model"]
                            : nullptr;
    bool known = model != nullptr && model->is_object() && model->contains("source") &&
                 (*model)["source"].is_string();
    if (!known) ThrowInput("{}: run.model.source is missing", path);
    named.model = (*model)["source"].get<std::string>();
    out.checkpoint = std::make_unique<CheckpointReader>(path, std::move(manifest));
  }
  Graph graph = named.Load();
  if (!args.weights.empty()) LoadWeights(graph, args.weights);
  out.model = AnalyseToTrain(std::move(graph), named.model);
  if (folder) {
    out.checkpoint->RequireModel(out.model.graph);
    out.weights = [reader = out.checkpoint.get()](const std::string& name) {
      return ToTorchTensor(*reader->Whole(StateKind::kWeights, name));
    };
  } else {
    out.weights = MakeWeights(out.model.graph, out.model.rules, {.seed = args.prune.seed});
  }
}

void PrintMasks(const PruneArgs& args, const std::map<std::string, HostTensor>& masks,
                const std::string& said) {
  double kept = 0, all = 0;
  Json list = Json::array();
  std::string table = fmt::format("{:>12} {:>12}  {:>6}  {}\n", "kept", "of", "share", "parameter");
  for (const auto& [name, mask] : masks) {
    auto ones = std::count(mask.data.begin(), mask.data.end(), std::byte{1});
    kept += static_cast<double>(ones);
    all += static_cast<double>(mask.data.size());
    double share = static_cast<double>(ones) / static_cast<double>(mask.data.size());
    table +=
        fmt::format("{:>12} {:>12}  {:>5.1f}%  {}\n", ones, mask.data.size(), 100 * share, name);
    list.push_back({{"name", name}, {"kept", ones}, {"weights", mask.data.size()}});
  }
  if (args.model.json) {
    PrintJson({{"output", args.output},
               {"sparsity", 1 - kept / all},
               {"method", args.method},
               {"parameters", std::move(list)}});
    return;
  }
  fmt::print("{}{:>12.0f} {:>12.0f}  {:>5.1f}%  of {} parameters\n", table, kept, all,
             100 * kept / all, masks.size());
  if (!said.empty()) fmt::print("{}\n", said);
  fmt::print("written to {}: give it to train as --mask {}\n", args.output, args.output);
}

void RunPrune(PruneArgs args) {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  SetKernelThreads(args.threads > 0 ? args.threads : cores);
  LoadedWeights loaded;
  LoadPruned(args, loaded);
  args.prune.dense = DenseNames(loaded.model, args.keep);
  args.prune.random = args.method == "random";
  std::string said;
  std::map<std::string, HostTensor> masks =
      args.method == "early-bird" ? TrainedMasks(loaded.model, loaded.weights, args, &said)
                                  : MakeMasks(loaded.model, loaded.weights, args.prune);
  std::vector<NamedTensor> named;
  for (const auto& [name, mask] : masks) named.push_back({name, &mask});
  WriteSafetensors(args.output, named,
                   {{"heddle_mask", "1"},
                    {"method", args.method},
                    {"sparsity", fmt::format("{}", args.prune.sparsity)}});
  PrintMasks(args, masks, said);
}

}  // namespace

void AddPrune(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("prune", "choose the weights of a model to keep, as a mask");
  auto args = std::make_shared<PruneArgs>();
  args->model.Add(*command);
  command->add_option("--sparsity", args->prune.sparsity, "fraction of the weights to prune")
      ->transform(RealBelow(0, 1))
      ->capture_default_str();
  command
      ->add_option(
          "--method", args->method,
          "magnitude: keep the largest; early-bird: train until the largest stay the same; random")
      ->check(CLI::IsMember({"magnitude", "early-bird", "random"}))
      ->capture_default_str();
  CLI::Option* layers = command->add_flag("--per-layer", args->per_layer,
                                          "prune the same fraction of each parameter (default)");
  command
      ->add_flag("--global", args->prune.global,
                 "keep the largest weights of all parameters together")
      ->excludes(layers);
  command->add_option("--keep", args->keep, "parameters that are not pruned, by name (* and ?)")
      ->allow_extra_args(false);
  command->add_option("--weights", args->weights,
                      "safetensors with the weights, by parameter name");
  AddSeedOption(*command, args->prune.seed, "of initial weights, data and random masks");
  command->add_option("-o,--output", args->output, "the file to write")->capture_default_str();
  command->add_option("--data", args->early.data, "early-bird: training data, as for 'train'");
  AddStepsOption(*command, args->early.steps, "early-bird: largest number of training steps");
  command->add_option("--every", args->early.every, "early-bird: steps between masks")
      ->transform(IntegerIn(1, int64_t{1} << 40))
      ->capture_default_str();
  command
      ->add_option("--threshold", args->early.threshold,
                   "early-bird: fraction of weights in which masks may differ")
      ->transform(RealIn(0, 1))
      ->capture_default_str();
  command->add_option("--window", args->early.window, "early-bird: number of masks that must agree")
      ->transform(IntegerIn(2, 1000))
      ->capture_default_str();
  command->add_option("--lr", args->early.lr, "early-bird: learning rate")
      ->transform(RealAbove(0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--device", args->early.device, "early-bird: device to train on, as for 'train'")
      ->check(CLI::IsMember(DeviceNames()))
      ->capture_default_str();
  AddThreadsOption(*command, args->threads, "that share the work (0: one per core)", 0);
  command->footer(
      "MODEL may be a folder of checkpoints, of which the last one is used. Matrices, convolutions "
      "and\nembeddings that are trained are pruned; biases and norms are not.\n\n"
      "Examples:\n"
      "  heddle prune gpt2.onnx --sparsity 0.9 -o mask.safetensors\n"
      "  heddle prune run/checkpoints --sparsity 0.8 --global --keep '*embedding*'\n"
      "  heddle prune gpt2 --method early-bird --data text.txt --every 50\n"
      "  heddle train gpt2 --mask mask.safetensors");
  command->callback([args] { RunPrune(*args); });
}

}  // namespace heddle
