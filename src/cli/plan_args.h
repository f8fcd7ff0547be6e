// The options for degrees and the reading of plan files, shared by all commands that make or read plans.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/commands.h"
#include "plan/expert.h"
#include "plan/precision.h"
#include "search/searcher.h"

namespace heddle {

// --dp, --tp and so on, the same for every command.
struct DegreeArgs {
  Degrees degrees;
  std::string recompute = "none";
  std::string offload = "none";
  std::vector<int64_t> shares;
  std::string sync = "reduce";
  std::string precision = "auto";
  std::string statistics = "global";

  void Add(CLI::App& command);
  // True if --dp, --tp, --pp, --cp or --ep is given.
  bool Given() const;
  // The name of the first given option of all of these, or empty.
  std::string FirstGiven() const;
  // The given options, for a search over the others. Throws InputError for unknown names and for values that no
  // schedule accepts.
  FixedDegrees Fixed() const;
  // The first given option of --cp, --ep, --sp, --shares and --sync, or empty. Only the expert's plan supports these.
  std::string FirstOfExpert() const;
  // The precision of --precision. `auto` is FastestPrecision (plan/precision.h), but never f16 with `--offload all`.
  NamedPrecision PrecisionFor(const Cluster& cluster) const;
  bool ChoosesPrecision() const { return precision == "auto"; }
  bool LocalStatistics() const;
  // True for --sync auto: the caller chooses the policy (FasterSync of search/searchers.h).
  bool ChoosesSync() const { return sync == "auto"; }
  // The given degrees. Without --dp, dp is the largest degree that the cluster has devices for and that divides the
  // micro-batches. Throws InputError for unknown names and for values that the schedule does not accept.
  Degrees Resolve(const Model& model, const Cluster& cluster) const;

 private:
  bool IsGiven(std::string_view name) const;

  std::vector<CLI::Option*> given_, others_;
  CLI::Option* dp_ = nullptr;
};

// Analyses a graph for training; `source` names it in errors. Every command that needs gradients calls this. Throws
// InputError if there is nothing to train.
Model AnalyseToTrain(Graph graph, const std::string& source);

// The reference to its model that a plan has: the name of a built-in model, or the path of a file relative to the plan.
ModelRef RefOf(const ModelArgs& args, const std::string& plan_path);

// Reads a plan and its model. If `model` is not empty, it replaces the model that the plan names. Throws InputError.
struct LoadedPlan {
  Plan plan;
  Model model;
};
LoadedPlan LoadPlan(const std::string& path, const std::string& model = "");

}  // namespace heddle
