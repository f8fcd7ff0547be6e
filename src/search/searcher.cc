#include "search/searcher.h"

#include <algorithm>

#include "base/clock.h"
#include "plan/axes.h"
#include "search/judge/judge.h"
#include "search/run_search.h"
#include "search/searchers.h"

namespace heddle {
std::span<const SearcherDef> AllSearchers() {
  static const std::vector<SearcherDef> all = {AutoSearcher(), DataSearcher(),  ExpertSearcher(),
                                               IlpSearcher(),  BruteSearcher(), MctsSearcher()};
  return all;
}

const SearcherDef* FindSearcher(std::string_view name) {
  for (const SearcherDef& def : AllSearchers()) {
    if (def.name == name) return &def;
  }
  return nullptr;
}

namespace {

// Is the plan in the space that SpaceInWords describes? All plans of the exact search are, and those other plans that have
// only its axes and stages of whole units.
bool IsInSpace(const Model& model, const JudgedPlan& judged) {
  const Plan& plan = judged.plan;
  if (judged.factors || plan.offload == Offload::kAll) return false;
  if (judged.bound > 0) return true;
  std::vector<int> ends;
  for (const Stage& stage : plan.stages) {
    for (const MeshAxis& axis : stage.mesh.axes) {
      const ParallelAxis* known = FindAxis(axis.name);
      bool alike = stage.mesh.axes == plan.stages.front().mesh.axes;
      if (known == nullptr || !known->searched || !alike) return false;
    }
    ends.push_back(stage.last_block);
  }
  if (ends.size() == 1) return true;
  ModelUnits units = UnitsOf(model);
  if (plan.chunks > 1) return IsEvenCut(units, ends);
  return std::all_of(ends.begin(), ends.end(), [&](int end) {
    return std::find(units.begins.begin(), units.begins.end(), end) != units.begins.end();
  });
}

// The expert's grid has axes that the bound does not cover. If such a plan is faster than the bound, no bound is reported.
void CloseBound(SearchResult& out) {
  Proposals& proposals = out.proposals;
  if (proposals.close_bound) proposals.close_bound(proposals);
  proposals.close_bound = nullptr;
  bool refuted = out.feasible() && out.judged.front().result.step_seconds < proposals.lower_bound;
  if (refuted) proposals.lower_bound = 0;
}

}  // namespace

SearchResult Search(const SearcherDef& searcher, const SearchTask& task) {
  double begin = SteadySeconds();
  SearchResult out;
  out.memory_limit = MemoryLimit(task);
  try {
    RunSearch(searcher, task, out);
  } catch (const SimulationStopped&) {  // the plans judged until then are the result
    out.stopped = true;
  }
  // Configurations may still be weighed in the background, which uses the task: waits for that.
  out.proposals.more = nullptr;
  std::stable_sort(out.judged.begin(), out.judged.end(), Better);
  CloseBound(out);
  for (JudgedPlan& judged : out.judged) judged.in_space = IsInSpace(task.model, judged);
  out.seconds = SteadySeconds() - begin;
  return out;
}

}  // namespace heddle
