// What the commands that make or take plans share: the options for degrees, and plan files.
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
  // Was any of dp, tp, pp, cp and ep given?
  bool Given() const;
  // The first option given of all of these, or nothing.
  std::string FirstGiven() const;
  // What was given, for a search over the rest. Throws InputError for names that are not known and for what no schedule
  // takes.
  FixedDegrees Fixed() const;
  // The first of --cp, --ep, --sp, --shares and --sync that was given, or nothing: what the expert alone knows.
  std::string FirstOfExpert() const;
  // As asked for; `auto` is FastestPrecision (plan/precision.h), but for `--offload all` never f16.
  NamedPrecision PrecisionFor(const Cluster& cluster) const;
  bool ChoosesPrecision() const { return precision == "auto"; }
  bool LocalStatistics() const;
  // --sync auto: the caller's to choose (FasterSync of search/searchers.h).
  bool ChoosesSync() const { return sync == "auto"; }
  // The degrees asked for. Without --dp: as many as the cluster has left and the micro-batches can be divided by.
  // Throws InputError for names that are not known and for what the schedule does not take.
  Degrees Resolve(const Model& model, const Cluster& cluster) const;

 private:
  bool IsGiven(std::string_view name) const;

  std::vector<CLI::Option*> given_, others_;
  CLI::Option* dp_ = nullptr;
};

// What planning needs to know of a graph that is to be trained; `source` names it in errors. Every command that needs
// gradients comes through here. Throws InputError where there is nothing to train.
Model AnalyseToTrain(Graph graph, const std::string& source);

// How a plan names its model: a built-in as it is, a file by its path from the folder of the plan.
ModelRef RefOf(const ModelArgs& args, const std::string& plan_path);

// Reads a plan and the model it is for; `model`, where it is not empty, is taken instead of the one the plan names.
// Throws InputError.
struct LoadedPlan {
  Plan plan;
  Model model;
};
LoadedPlan LoadPlan(const std::string& path, const std::string& model = "");

}  // namespace heddle
