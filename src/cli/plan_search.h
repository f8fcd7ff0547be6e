// The options of a search and its execution, shared by all commands that search for plans.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/plan_args.h"
#include "cli/profile_args.h"
#include "search/searcher.h"

namespace heddle {

struct SearchArgs {
  std::string searcher = "auto";
  double budget = 30;  // seconds
  std::string memory_limit, reserve, stages;
  std::vector<std::string> keep_whole;
  double sparsity = 0;
  std::string mask;
  std::string optimizer = "adamw";
  std::string prior;  // of the tree search; empty: the network if built with libtorch
  ProfileArgs profile;
  SimOptions sim;  // how the software that will run the plan behaves

  // --searcher, --prior, --budget, --stages, and the limits.
  void Add(CLI::App& command);
  // Only --memory-limit, --reserve, --keep-whole, --optimizer, --sparsity, --mask and --profile.
  void AddLimits(CLI::App& command);
  bool SearcherGiven() const;

 private:
  CLI::Option* searcher_ = nullptr;
};

// Makes the prior of the tree search from the network that comes with heddle ("network") or from a file. heddle-torch
// sets it when it starts.
using PriorLoader = std::shared_ptr<Prior> (*)(const std::string& name);
void SetPriorLoader(PriorLoader loader);

// The search problem that the options state, without a deadline. Model and cluster must outlive it. Throws InputError
// for bad options.
SearchProblem ProblemOf(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                        const Cluster& cluster);

// Returns the best plan, judged, followed by the alternatives. The caller sets the name of its model. With degrees that
// only the expert's plan supports (--cp, --ep, --sp), or with `--searcher expert`, it is the expert's plan at those
// degrees.
//
// If devices or links differ, the process is replaced by heddle-torch, which has the network. Throws InputError for bad
// options, and Infeasible with the cheapest remedy if no plan fits.
SearchResult FindPlan(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                      const Cluster& cluster, std::string* searcher);

}  // namespace heddle
