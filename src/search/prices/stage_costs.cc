// The costs of a stage's choices: weighed for a solver, and block by block under a solution.
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

namespace {

class BlockAdder {
 public:
  BlockAdder(const Model& model, const StageProblem& stage, const Solution& solution)
      : model_(model),
        stage_(stage),
        solution_(solution),
        out_{std::vector<ChoiceCost>(model.blocks.size()),
             std::vector<ChoiceCost>(model.blocks.size())} {}

  BlockCosts Run() {
    for (int v = 0; v < static_cast<int>(stage_.costs.size()); ++v) {
      const ChoiceCosts& of = *stage_.costs[static_cast<size_t>(v)];
      out_.blocks[BlockOf(v)] += of[static_cast<size_t>(Chosen(v))];
    }
    PairEntries entries(stage_.problem, solution_);
    for (const PairCost& pair : stage_.problem.pairs) {
      AddPair(pair, entries.Of(pair), out_.blocks[std::max(BlockOf(pair.a), BlockOf(pair.b))], 1);
    }
    for (size_t c = 0; c < solution_.left_out.size(); ++c) {
      if (!solution_.left_out[c].empty())
        AddLeftOut(stage_.problem.chains[c], solution_.left_out[c]);
    }
    return std::move(out_);
  }

 private:
  size_t BlockOf(int variable) const {
    NodeId maker = stage_.makers[static_cast<size_t>(variable)];
    return static_cast<size_t>(std::max(0, model_.block_of[maker.index()]));
  }
  int Chosen(int variable) const { return solution_.choice[static_cast<size_t>(variable)]; }

  static void AddPair(const PairCost& pair, size_t entry, ChoiceCost& to, double share) {
    to.waited += share * (*pair.seconds)[entry];
    if (pair.queued) to.queued += share * (*pair.queued)[entry];
  }
  static void AddChoice(const ChoiceCost& cost, double share, ChoiceCost& to) {
    ChoiceCost part = cost;
    part *= share;
    to += part;
  }

  // The copies of a chain that are left out of the problem: their mean, at the block that they repeat.
  void AddLeftOut(const VariableChain& chain, const std::vector<std::vector<int>>& copies) {
    double share = 1 / static_cast<double>(copies.size());
    const std::vector<int>& repeated = chain.copies[chain.repeated];
    // Index of a variable in the repeated copy, and in the copy before it.
    std::map<int, size_t> here, before;
    for (size_t i = 0; i < repeated.size(); ++i) {
      here[repeated[i]] = i;
      before[chain.copies[chain.repeated - 1][i]] = i;
    }
    std::vector<const PairCost*> pairs = PairsWithin(chain, here);
    for (size_t i = 0; i < copies.size(); ++i) {
      auto choice = [&](int v) {
        if (auto at = here.find(v); at != here.end()) return copies[i][at->second];
        auto at = before.find(v);
        if (at == before.end()) return Chosen(v);
        return i > 0 ? copies[i - 1][at->second] : Chosen(repeated[at->second]);
      };
      for (const auto& [v, place] : here) {
        const ChoiceCosts& of = *stage_.costs[static_cast<size_t>(v)];
        AddChoice(of[static_cast<size_t>(copies[i][place])], share, out_.left_out[BlockOf(v)]);
      }
      for (const PairCost* pair : pairs) {
        ChoiceCost& to = out_.left_out[BlockOf(here.count(pair->b) ? pair->b : pair->a)];
        size_t entry = static_cast<size_t>(choice(pair->a)) * stage_.problem.domain(pair->b) +
                       static_cast<size_t>(choice(pair->b));
        AddPair(*pair, entry, to, share);
      }
    }
  }

  // The pairs of the repeated copy with itself, the copy before it, and variables outside the chain.
  std::vector<const PairCost*> PairsWithin(const VariableChain& chain,
                                           const std::map<int, size_t>& here) const {
    std::set<int> others;  // variables of the chain's other copies
    for (size_t i = 0; i < chain.copies.size(); ++i) {
      if (i != chain.repeated && i + 1 != chain.repeated) {
        others.insert(chain.copies[i].begin(), chain.copies[i].end());
      }
    }
    std::vector<const PairCost*> pairs;
    for (const PairCost& pair : stage_.problem.pairs) {
      bool mine = here.count(pair.a) != 0 || here.count(pair.b) != 0;
      if (mine && !others.count(pair.a) && !others.count(pair.b)) pairs.push_back(&pair);
    }
    return pairs;
  }

  const Model& model_;
  const StageProblem& stage_;
  const Solution& solution_;
  BlockCosts out_;
};

}  // namespace

BlockCosts CostsByBlock(const Model& model, const StageProblem& stage, const Solution& solution) {
  return BlockAdder(model, stage, solution).Run();
}

}  // namespace heddle
