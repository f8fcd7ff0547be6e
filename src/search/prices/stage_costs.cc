// What a stage's choices add up to: weighed for a solver, and block by block under a solution.
#include <algorithm>
#include <map>
#include <set>

#include "search/prices/stage_problem.h"

namespace heddle {

Cost Weighed(const ChoiceCost& cost, const StageScale& scale) {
  double step = 1 / scale.microbatches;
  return {cost.seconds() + step * scale.seconds_per_parameter * cost.parameters,
          cost.queued + step * (cost.step_queued + scale.queued_per_parameter * cost.parameters),
          scale.in_flight * cost.activations + scale.held * cost.held +
              scale.bytes_per_parameter * cost.parameters};
}

Problem Weighed(const StageProblem& stage, const StageScale& scale) {
  Problem problem = stage.problem;
  problem.unary.clear();
  std::map<const ChoiceCosts*, UnaryRef> made;
  for (const std::shared_ptr<const ChoiceCosts>& costs : stage.costs) {
    UnaryRef& unary = made[costs.get()];
    if (!unary) {
      auto weighed = std::make_shared<Unary>();
      weighed->Resize(costs->size());
      for (size_t c = 0; c < costs->size(); ++c) weighed->Add(c, Weighed((*costs)[c], scale));
      unary = std::move(weighed);
    }
    problem.unary.push_back(unary);
  }
  return problem;
}

BlockCosts CostsByBlock(const Model& model, const StageProblem& stage, const Solution& solution) {
  BlockCosts out{std::vector<ChoiceCost>(model.blocks.size()),
                 std::vector<ChoiceCost>(model.blocks.size())};
  auto block = [&](int variable) {
    return static_cast<size_t>(
        std::max(0, model.block_of[stage.makers[static_cast<size_t>(variable)].index()]));
  };
  auto pass = [&](const PairCost& pair, size_t entry, ChoiceCost& to, double share) {
    to.waited += share * (*pair.seconds)[entry];
    if (pair.queued) to.queued += share * (*pair.queued)[entry];
  };
  auto add = [](const ChoiceCost& cost, double share, ChoiceCost& to) {
    ChoiceCost part = cost;
    part *= share;
    to += part;
  };
  auto chosen = [&](int variable) { return solution.choice[static_cast<size_t>(variable)]; };
  for (int v = 0; v < static_cast<int>(stage.costs.size()); ++v) {
    const ChoiceCosts& of = *stage.costs[static_cast<size_t>(v)];
    out.blocks[block(v)] += of[static_cast<size_t>(chosen(v))];
  }
  PairEntries entries(stage.problem, solution);
  for (const PairCost& pair : stage.problem.pairs) {
    pass(pair, entries.Of(pair), out.blocks[std::max(block(pair.a), block(pair.b))], 1);
  }
  for (size_t c = 0; c < solution.unspelled.size(); ++c) {
    const VariableChain& chain = stage.problem.chains[c];
    const std::vector<std::vector<int>>& copies = solution.unspelled[c];
    if (copies.empty()) continue;
    double share = 1 / static_cast<double>(copies.size());
    // By variable: its place in the repeated copy, or in the one before.
    std::map<int, size_t> here, before;
    for (size_t i = 0; i < chain.copies[chain.repeated].size(); ++i) {
      here[chain.copies[chain.repeated][i]] = i;
      before[chain.copies[chain.repeated - 1][i]] = i;
    }
    std::set<int> others;  // of the chain's other copies
    for (size_t i = 0; i < chain.copies.size(); ++i) {
      if (i != chain.repeated && i + 1 != chain.repeated) {
        others.insert(chain.copies[i].begin(), chain.copies[i].end());
      }
    }
    std::vector<const PairCost*> pairs;
    for (const PairCost& pair : stage.problem.pairs) {
      bool mine = here.count(pair.a) != 0 || here.count(pair.b) != 0;
      if (mine && !others.count(pair.a) && !others.count(pair.b)) pairs.push_back(&pair);
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      auto choice = [&](int v) {
        if (auto at = here.find(v); at != here.end()) return copies[i][at->second];
        auto at = before.find(v);
        if (at == before.end()) return chosen(v);
        return i > 0 ? copies[i - 1][at->second] : chosen(chain.copies[chain.repeated][at->second]);
      };
      for (const auto& [v, place] : here) {
        const ChoiceCosts& of = *stage.costs[static_cast<size_t>(v)];
        add(of[static_cast<size_t>(copies[i][place])], share, out.unspelled[block(v)]);
      }
      for (const PairCost* pair : pairs) {
        ChoiceCost& to = out.unspelled[here.count(pair->b) ? block(pair->b) : block(pair->a)];
        size_t entry = static_cast<size_t>(choice(pair->a)) * stage.problem.domain(pair->b) +
                       static_cast<size_t>(choice(pair->b));
        pass(*pair, entry, to, share);
      }
    }
  }
  return out;
}

}  // namespace heddle
