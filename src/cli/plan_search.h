// What commands that search for plans share: the options of a search, and running one.
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
  std::string prior;  // of the tree search; empty: the network, where there is libtorch
  ProfileArgs profile;
  SimOptions sim;  // habits of what will run the plan

  // --searcher, --prior, --budget, --stages, and the limits.
  void Add(CLI::App& command);
  // --memory-limit, --reserve, --keep-whole, --optimizer, --sparsity, --mask and --profile alone.
  void AddLimits(CLI::App& command);
  bool SearcherGiven() const;

 private:
  CLI::Option* searcher_ = nullptr;
};

// Makes the prior of the tree search: of the network that comes with heddle ("network"), or of a file. The program with
// libtorch sets it at its start.
using PriorLoader = std::shared_ptr<Prior> (*)(const std::string& name);
void SetPriorLoader(PriorLoader loader);

// What is asked for, without a deadline; model and cluster must outlive it. Throws InputError for bad options.
SearchProblem ProblemOf(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                        const Cluster& cluster);

// Where devices or links differ this program becomes heddle-torch, which has the network, unless it is that already.
//
// The plan, judged, with those that lost behind it; its model is named by the caller. Where degrees are given that are
// the expert's alone (--cp, --ep, --sp), or with `--searcher expert`, it is the expert's at those degrees. Throws
// InputError for bad options, Infeasible with the cheapest remedy where nothing fits.
SearchResult FindPlan(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                      const Cluster& cluster, std::string* searcher);

}  // namespace heddle
