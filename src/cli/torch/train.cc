#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "frontend/load.h"
#include "graph/safetensors.h"
#include "runtime/train.h"

namespace heddle {
namespace {

struct TrainArgs {
  ModelArgs model;
  TrainOptions train;
  std::vector<double> betas = {0.9, 0.95};
  std::string weights;
  std::string reference;
  std::string init = "file";
  int64_t seed = 0;
  int64_t ranks = 1;
};

// Losses to print beside ours, from a safetensors file.
std::vector<double> ReadReference(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  for (std::string_view name : {"losses", "adamw_losses"}) {
    if (file.Find(name) == nullptr) continue;
    HostTensor tensor = file.Load(name);
    std::vector<double> losses;
    for (int64_t i = 0; i < tensor.size(); ++i) losses.push_back(AsDouble(tensor, i));
    bool finite = std::all_of(losses.begin(), losses.end(), [](double x) { return std::isfinite(x); });
    if (losses.empty() || !finite) ThrowInput("{}: tensor '{}' holds no finite losses", path, name);
    return losses;
  }
  ThrowInput("{}: no tensor 'losses' or 'adamw_losses'", path);
}

double MedianSeconds(const std::vector<TrainStep>& steps) {
  std::vector<double> seconds;
  for (const TrainStep& step : steps) seconds.push_back(step.seconds);
  if (seconds.empty()) return 0;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

void Train(const TrainArgs& args) {
  if (args.ranks != 1) ThrowInput("--np {}: training runs on one device so far; use --np 1", args.ranks);
  TrainOptions options = args.train;
  if (args.betas.size() != 2) ThrowInput("--betas takes two numbers, {} given", args.betas.size());
  options.seeded = args.init == "seeded";
  options.seed = static_cast<uint64_t>(args.seed);
  options.optimizer.betas = {args.betas[0], args.betas[1]};
  Graph graph = args.model.Load();
  if (!args.weights.empty()) LoadWeights(graph, args.weights);
  std::vector<double> reference;
  if (!args.reference.empty()) {
    reference = ReadReference(args.reference);
    if (static_cast<int64_t>(reference.size()) < options.steps) {
      ThrowInput("{}: {} losses for {} steps; use --steps {}", args.reference, reference.size(),
                 options.steps, reference.size());
    }
  }

  double worst = 0;
  auto print = [&](const TrainStep& step) {
    size_t at = static_cast<size_t>(step.step);
    std::string beside;
    if (at < reference.size()) {
      double error = std::abs(step.loss - reference[at]) / std::max(1e-12, std::abs(reference[at]));
      worst = std::max(worst, error);
      beside = fmt::format("{:>14.8f} {:>10.1e} ", reference[at], error);
    }
    if (args.model.json) return;
    if (step.step == 0) {
      fmt::print("{:>6} {:>14} {}{:>12}\n", "step", "loss",
                 reference.empty() ? "" : fmt::format("{:>14} {:>10} ", "reference", "relative"), "time");
    }
    fmt::print("{:>6} {:>14.8f} {}{:>12}\n", step.step, step.loss, beside,
               FormatSeconds(Seconds{step.seconds}));
    std::fflush(stdout);
  };
  std::vector<TrainStep> steps = TrainOnOneDevice(graph, options, print);
  if (args.model.json) {
    Json json;
    json["losses"] = Json::array();
    for (const TrainStep& step : steps) json["losses"].push_back(step.loss);
    json["step_seconds"] = MedianSeconds(steps);
    if (!reference.empty()) json["max_relative_difference"] = worst;
    PrintJson(json);
  } else if (!reference.empty()) {
    fmt::print("largest relative difference {:.1e}\n", worst);
  }
}

}  // namespace

void AddTrain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a model");
  auto args = std::make_shared<TrainArgs>();
  args->model.Add(*command);
  TrainOptions& train = args->train;
  command->add_option("--np", args->ranks, "number of ranks")->capture_default_str();
  command->add_option("--data", train.data,
                      "safetensors with a tensor NAME or input.NAME per input; synthetic if not given");
  command->add_option("--weights", args->weights, "safetensors to start from, by parameter name");
  command->add_option("--init", args->init,
                      "where weights start: in the file (seeded if it has none), or seeded")
      ->check(CLI::IsMember({"file", "seeded"}))
      ->capture_default_str();
  command->add_option("--steps", train.steps, "steps to train")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--seed", args->seed, "of initial weights, synthetic data and dropout")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--fill-constants", train.fill_constants,
                    "make up constants whose data the file does not hold (a stripped export)");
  command->add_option("--optimizer", train.optimizer.name, "how weights are updated")
      ->check(CLI::IsMember(OptimizerNames()))
      ->capture_default_str();
  command->add_option("--lr", train.optimizer.lr, "learning rate")->capture_default_str();
  command->add_option("--betas", args->betas, "of Adam and AdamW, as in --betas 0.9,0.95")
      ->delimiter(',')
      ->type_name("A,B");
  command->add_option("--eps", train.optimizer.eps, "of Adam and AdamW")->capture_default_str();
  command->add_option("--weight-decay", train.optimizer.weight_decay, "weight decay")
      ->capture_default_str();
  command->add_option("--reference", args->reference,
                      "safetensors with a tensor 'losses' to print beside ours");
  command->footer("Example:\n  heddle train tiny-gpt2.onnx --np 1 --data batch.safetensors --steps 20");
  command->callback([args] { Train(*args); });
}

}  // namespace heddle
