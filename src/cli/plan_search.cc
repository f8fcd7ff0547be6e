#include "cli/plan_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/phases.h"
#include "cli/quantity_args.h"
#include "cli/shared_options.h"
#include "cluster/load.h"
#include "cluster/quantity.h"
#include "cluster/topology.h"
#include "frontend/glob.h"
#include "plan/precision.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "report/step_size.h"
#include "search/expert/expert_grid.h"
#include "search/judge/finalists.h"
#include "search/judge/judge.h"
#include "search/remedy.h"
#include "search/replicas/with_factors.h"
#include "search/searcher.h"
#include "search/searchers.h"

namespace heddle {
namespace {

std::vector<std::string_view> SearcherNames() {
  std::vector<std::string_view> names;
  for (const SearcherDef& def : AllSearchers()) names.push_back(def.name);
  return names;
}

// Reads a fraction such as 0.1, or an amount such as 4GiB, which becomes a fraction of the smallest device memory.
double ParseReserve(const std::string& text, const SearchProblem& problem) {
  double share = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (failed == std::errc() && end == text.data() + text.size()) {
    if (!(share >= 0 && share < 1)) {
      ThrowInput("--reserve {}: expected a fraction from 0 to below 1, or an amount such as 4GiB",
                 text);
    }
    return share;
  }
  SearchProblem all{.model = problem.model, .cluster = problem.cluster};
  all.memory_limit = problem.memory_limit;
  all.reserve = 0;
  double has = static_cast<double>(MemoryLimit(all));
  double bytes = static_cast<double>(ParseBytes("--reserve", text));
  if (bytes >= has) {
    ThrowInput("--reserve {}: a device has only {}: reserve less", text,
               FormatBytes(Bytes{static_cast<int64_t>(has)}));
  }
  return bytes / has;
}

std::vector<int64_t> ParseStages(const std::string& text) {
  std::vector<int64_t> layers;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at < end) {
    int64_t number = 0;
    auto [next, failed] = std::from_chars(at, end, number);
    if (failed != std::errc() || (next != end && *next != ',')) {
      ThrowInput("--stages {}: expected the number of layers of each stage, such as 7,8,8,7", text);
    }
    layers.push_back(number);
    at = next == end ? end : next + 1;
  }
  return layers;
}

std::vector<std::string> Matching(const std::vector<std::string>& patterns, const Model& model) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    size_t before = names.size();
    for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
      const std::string& name = model.graph.value(id).name;
      if (GlobMatch(pattern, name)) names.push_back(name);
    }
    if (names.size() == before) ThrowInput("--keep-whole {}: matches no parameter", pattern);
  }
  return names;
}

SearchTask WithoutDeadline(SearchTask task) {
  task.effort.deadline = std::chrono::steady_clock::time_point::max();
  task.effort.stop = nullptr;
  return task;
}

// The expert's plans at the given degrees, over all micro-batches, ZeRO levels and recomputation policies that are not
// given.
std::vector<Proposal> ExpertLadder(const Degrees& degrees, const SearchTask& task) {
  constexpr size_t kMost = 6;
  ExpertChoices choices{{degrees.tp}, {degrees.pp}, {degrees.cp}, {degrees.ep}, {0, 1, 2, 3}};
  std::vector<Degrees> points = ExpertDegrees(task, choices);
  if (!degrees.sp) {
    for (Degrees& point : points) point.sp = false;
  }
  return BestExperts(task, std::move(points), "expert", nullptr, kMost);
}

// Judges the expert's plan at the given degrees. With `best`, options that are not given are chosen by ExpertLadder.
SearchResult Expert(const DegreeArgs& args, const SearchTask& task, bool best) {
  SearchResult result;
  auto begin = std::chrono::steady_clock::now();
  Degrees degrees = args.Resolve(task.model, task.cluster);
  degrees.precision = task.precision;
  degrees.products = task.products;
  degrees.layers_per_stage = task.fixed.layers_per_stage;
  result.memory_limit = MemoryLimit(task);
  best = best && !args.ChoosesSync() && degrees.shares.empty() &&
         degrees.sync == GradientSync::kReduce;
  Proposal proposal{ExpertPlan(task.model, task.cluster, degrees), "expert", 0, 0, 0};
  if (best) {
    Finalists(task, result).Judge(ExpertLadder(degrees, task), {3, kQuickWork});
    std::stable_sort(result.judged.begin(), result.judged.end(), Better);
    if (result.feasible()) Remark(task.cluster, degrees, proposal.plan.batch);
    result.proposals.considered = std::max<size_t>(1, result.judged.size());
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!result.judged.empty() || result.stopped) return result;
  }
  if (args.ChoosesSync()) proposal = FasterSync(WithoutDeadline(task), std::move(proposal));
  Remark(task.cluster, degrees, proposal.plan.batch);
  task.effort.Report("simulating the expert's plan");
  try {
    result.judged.push_back(Judge(task, std::move(proposal)));
  } catch (const SimulationStopped&) {
    result.stopped = true;
  }
  result.proposals.considered = 1;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

// While an object of this class exists, an interrupt stops the search, which returns the best plan so far. A second
// interrupt ends the program.
class StopOnInterrupt {
 public:
  StopOnInterrupt() {
    stop_ = false;
    before_ = std::signal(SIGINT, [](int) {
      stop_ = true;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~StopOnInterrupt() { std::signal(SIGINT, before_); }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  const std::atomic<bool>* stop() const { return &stop_; }

 private:
  static inline std::atomic<bool> stop_ = false;
  void (*before_)(int) = SIG_DFL;
};

PriorLoader load_prior = nullptr;

// The prior of the tree search. Null: all actions have equal probability, or there is no tree search.
std::shared_ptr<Prior> PriorFor(const SearchArgs& search, const Cluster& cluster) {
  bool tree = search.searcher == "mcts" || (search.searcher == "auto" && !IsHomogeneous(cluster));
  if (!tree) {
    if (!search.prior.empty())
      LogInfo("--prior {} is ignored: this problem needs no tree search", search.prior);
    return nullptr;
  }
  if (search.prior == "uniform") return nullptr;
  if (load_prior == nullptr) BecomeTorch();
  if (load_prior != nullptr) return load_prior(search.prior.empty() ? "network" : search.prior);
  if (!search.prior.empty()) {
    ThrowInput(
        "--prior {}: this heddle was built without libtorch (no heddle-torch beside it); use "
        "--prior uniform, or build with -DHEDDLE_TORCH=ON",
        search.prior);
  }
  LogInfo(
      "no heddle-torch beside this heddle: the tree search gives all actions equal probability");
  return nullptr;
}

}  // namespace

void SetPriorLoader(PriorLoader loader) { load_prior = loader; }

void SearchArgs::Add(CLI::App& command) {
  searcher_ =
      command
          .add_option("--searcher", searcher,
                      fmt::format("how plans are found: {}", fmt::join(SearcherNames(), ", ")))
          ->capture_default_str();
  command.add_option("--prior", prior,
                     "prior of the tree search on clusters of unlike devices or links: network "
                     "(default), uniform, or a file of 'heddle learn'");
  AddBudgetOption(command, budget, "seconds the search may take");
  command.add_option("--stages", stages, "layers of each pipeline stage, such as 7,8,8,7");
  AddLimits(command);
}

void SearchArgs::AddLimits(CLI::App& command) {
  AddMemoryLimitOption(command, memory_limit, "memory a device may use, such as 40GiB");
  command.add_option("--reserve", reserve,
                     "memory of a device to keep free: a fraction or an amount (default 0.06)");
  command
      .add_option("--keep-whole", keep_whole, "parameters that are never split, by name (* and ?)")
      ->allow_extra_args(false);
  command
      .add_option("--optimizer", optimizer,
                  "optimizer: " + fmt::format("{}", fmt::join(kOptimizers, ", ")))
      ->check(CLI::IsMember(std::vector<std::string>(kOptimizers.begin(), kOptimizers.end())))
      ->capture_default_str();
  CLI::Option* share = command.add_option(
      "--sparsity", sparsity,
      "fraction of the weights of matrices to prune; only the others have state and traffic");
  share->transform(RealBelow(0, 1));
  command
      .add_option("--mask", mask, "prune the weights that this mask prunes (see 'heddle prune')")
      ->excludes(share);
  profile.Add(command);
}

bool SearchArgs::SearcherGiven() const { return searcher_ != nullptr && searcher_->count() > 0; }

SearchProblem ProblemOf(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                        const Cluster& cluster) {
  SearchProblem problem{.model = model, .cluster = cluster};
  problem.fixed = degrees.Fixed();
  NamedPrecision precision = degrees.PrecisionFor(cluster);
  problem.precision = precision.compute;
  problem.products = precision.products;
  problem.local_batch_statistics = degrees.LocalStatistics();
  problem.optimizer = search.optimizer;
  if (!search.memory_limit.empty()) {
    problem.memory_limit = ParseBytes("--memory-limit", search.memory_limit);
  }
  if (!search.reserve.empty()) problem.reserve = ParseReserve(search.reserve, problem);
  if (!search.stages.empty()) problem.fixed.layers_per_stage = ParseStages(search.stages);
  problem.whole = Matching(search.keep_whole, model);
  problem.sim = search.sim;
  search.profile.ApplyTo(problem.sim, cluster);
  problem.pruning = search.mask.empty() ? PruneAll(model, search.sparsity)
                                        : Mask::Open(search.mask, model).pruning();
  return problem;
}

SearchResult FindPlan(const SearchArgs& search, const DegreeArgs& degrees, const Model& model,
                      const Cluster& cluster, std::string* searcher) {
  const SearcherDef* def = FindSearcher(search.searcher);
  if (def == nullptr) {
    ThrowInput("--searcher {}: {}", search.searcher, DidYouMean(search.searcher, SearcherNames()));
  }
  SearchTask task = ProblemOf(search, degrees, model, cluster);
  std::string of_expert = degrees.FirstOfExpert();
  bool expert = search.searcher == "expert" || (!of_expert.empty() && !search.SearcherGiven());
  if (!expert && !of_expert.empty()) {
    ThrowInput("{} is only for --searcher expert: {} chooses it itself", of_expert,
               search.searcher);
  }
  *searcher = expert ? "expert" : search.searcher;
  std::shared_ptr<Prior> prior = expert ? nullptr : PriorFor(search, cluster);
  task.effort.prior = prior.get();
  Phases phases("planning", 1);
  phases.Begin("preparing the search");
  auto budget = std::chrono::duration<double>(search.budget);
  task.effort.deadline = std::chrono::steady_clock::now() +
                         std::chrono::duration_cast<std::chrono::steady_clock::duration>(budget);
  task.effort.progress = [&](const std::string& what) { phases.Rename(what); };
  StopOnInterrupt interrupt;
  task.effort.stop = interrupt.stop();
  if (expert)
    return RequireFitting(Expert(degrees, task, search.SearcherGiven()), *FindSearcher("auto"),
                          task);
  return RequireFitting(Search(*def, task), *def, task);
}

}  // namespace heddle
