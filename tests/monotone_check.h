// Tries to refute that the search is monotone. A constraint must never give a faster plan than
// `auto` finds without it, no other searcher may find a faster one, and the constraints that
// `auto`'s own plan satisfies must give its step again.
//
//   MonotoneCheck check(MonotoneCases()[0], /*seed=*/1);
//   check.Run(/*constraints=*/12, /*own=*/14);
//   check.Violations(), check.Summary(), check.bytes().Table()
//
// Only plans that fit count; a constrained search may find none. Every search prints one line when
// it ends.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/load.h"
#include "frontend/load.h"
#include "monotone_bytes.h"
#include "monotone_cases.h"
#include "monotone_diagnosis.h"
#include "monotone_draw.h"
#include "ops/rebatch.h"
#include "plan/describe.h"
#include "plan/precision.h"
#include "program/lower.h"
#include "report/step_size.h"
#include "search/judge/judge.h"
#include "search/searcher.h"
#include "search/searchers.h"

namespace heddle {

struct MonotoneViolation {
  std::string kind;  // "constraint", "searcher", "expert" or "own"
  double loss = 0;   // the relative difference to the faster step
  std::string text;
};

class MonotoneCheck {
 public:
  static constexpr double kTolerance = 0.001;

  // `searcher`: whose plan must not be beaten.
  MonotoneCheck(const MonotoneCase& at, uint64_t seed, std::string searcher = "auto")
      : case_(at),
        seed_(seed),
        searcher_(std::move(searcher)),
        model_(Analyse(Rebatch(LoadModel(at.model), at.batch))),
        cluster_(LoadCluster(at.cluster)),
        problem_(MakeProblem()),
        bytes_(
            [this](const Plan& plan) {
              return Simulate(Lower(model_, plan), cluster_, problem_.sim);
            },
            model_.graph.nodes.size()) {}
  MonotoneCheck(const MonotoneCheck&) = delete;

  // Draws constraints, two thirds of which exclude auto's own plan, and a quarter as many expert's
  // plans. `own`: the most constraints to try that auto's own plan satisfies. A test that is one of
  // several parts does its share.
  void Run(int constraints, size_t own, int part = 0) {
    free_ = Ran(searcher_, {});
    if (!free_) return;
    own_ = free_->feasible() ? OwnDegrees(model_, free_->judged.front().plan) : FixedDegrees{};
    int turn = 0;
    auto mine = [&] { return turn++ % case_.parts == part; };
    for (const FixedDegrees& fixed : case_.constraints) {
      if (mine()) CheckConstraint(fixed);
    }
    ConstraintDrawer drawer(problem_, own_, seed_);
    int share = (constraints + case_.parts - 1) / case_.parts;
    for (int tries = 0; tried_ < share && tries < 4 * constraints; ++tries) {
      FixedDegrees fixed = drawer.Draw(tries / case_.parts % 3 != 2);
      if (!OptionsOf(fixed).empty() && mine()) CheckConstraint(fixed);
    }
    for (const std::string& searcher : OtherSearchers()) {
      if (mine()) CheckSearcher(searcher);
    }
    if (part == 0) CheckExperts(constraints / 4);
    if (!free_->feasible()) return;
    ConstraintDrawer again(problem_, own_, seed_);
    for (const FixedDegrees& fixed : again.OwnConstraints(own)) {
      if (mine()) CheckOwn(fixed);
    }
  }

  bool feasible() const { return free_ && free_->feasible(); }
  int tried() const { return tried_; }  // number of constraints
  int excluding() const {
    return excluding_;
  }  // of them, those that auto's own plan does not satisfy
  const ByteErrors& bytes() const { return bytes_; }

  // Sorted by loss, the largest first.
  std::vector<MonotoneViolation> Violations() const {
    std::vector<MonotoneViolation> sorted = violations_;
    std::stable_sort(
        sorted.begin(), sorted.end(),
        [](const MonotoneViolation& a, const MonotoneViolation& b) { return a.loss > b.loss; });
    return sorted;
  }

  // One line for the table of all problems.
  std::string Summary() const {
    double faster = 0, again = 0;
    for (const MonotoneViolation& v : violations_) {
      (v.kind == "own" ? again : faster) = std::max(v.kind == "own" ? again : faster, v.loss);
    }
    return fmt::format(
        "{:<60} {:>10} {:>3} constraints {:>3} excluding {:>3} found {:>2} own | beaten by "
        "{:>6.1f} % | own lose {:>6.1f} % | {:>3} violations | bytes {:>4} of {:>4} within 2 % | "
        "auto {:.1f} s, all {:.0f} s",
        CommandLine(problem_.fixed).substr(std::string("heddle plan ").size()),
        feasible() ? fmt::format("{:.4g} s", StepOf(*free_)) : "none", tried_, excluding_, found_,
        own_tried_, 100 * faster, 100 * again, violations_.size(), bytes_.within(0.02),
        bytes_.estimated(), free_ ? free_->seconds : 0, seconds_);
  }

 private:
  static double StepOf(const SearchResult& result) {
    return result.judged.front().result.step_seconds;
  }

  SearchProblem MakeProblem() const {
    SearchProblem problem{.model = model_, .cluster = cluster_};
    NamedPrecision precision = FastestPrecision(cluster_);
    problem.precision = precision.compute;
    problem.products = precision.products;
    problem.memory_limit = static_cast<int64_t>(case_.memory_gb * 1e9);
    problem.reserve = case_.reserve;
    return problem;
  }

  std::string CommandLine(const FixedDegrees& fixed, const std::string& searcher = "auto") const {
    std::string text = fmt::format("heddle plan '{}' --cluster {} --batch {}", case_.model,
                                   case_.cluster, case_.batch);
    if (case_.memory_gb > 0) text += fmt::format(" --memory-limit {}GB", case_.memory_gb);
    if (case_.reserve != SearchProblem{model_, cluster_}.reserve) {
      text += fmt::format(" --reserve {}", case_.reserve);
    }
    if (searcher != "auto") text += " --searcher " + searcher;
    std::string options = OptionsOf(fixed);
    return options.empty() ? text : text + " " + options;
  }

  // Nothing where the constraint is rejected.
  std::optional<SearchResult> Ran(const std::string& searcher, const FixedDegrees& fixed) {
    SearchProblem problem = problem_;
    problem.fixed = fixed;
    // As --precision auto does: loss scaling is not supported for weights that are updated shard by
    // shard.
    if (fixed.offload == Offload::kAll && problem.precision == DType::kF16) return std::nullopt;
    try {
      SearchResult result = Search(*FindSearcher(searcher), problem);
      seconds_ += result.seconds;
      bytes_.Add(result, OptionsOf(fixed));
      Say(searcher == "auto" ? "" : searcher, OptionsOf(fixed), result);
      return result;
    } catch (const InputError& error) {
      fmt::print("  {:<8} {}: refused: {}\n", searcher, OptionsOf(fixed), error.what());
      return std::nullopt;
    }
  }

  void Say(const std::string& who, const std::string& options, const SearchResult& result) const {
    std::string ratio;
    if (result.feasible() && feasible()) {
      ratio = fmt::format("{:.4f} of auto's", StepOf(result) / StepOf(*free_));
    }
    fmt::print("  {:<8} {}: {} {} ({:.1f} s)\n", who, options, Words(result), ratio,
               result.seconds);
    std::fflush(stdout);
  }

  // The best plan: its step, its origin and its estimate.
  std::string Words(const SearchResult& result) const {
    if (result.judged.empty()) return "no plan";
    const JudgedPlan& best = result.judged.front();
    if (!best.fits) return fmt::format("nothing fits, '{}' needs least", best.from);
    std::string text = fmt::format("{:.6g} s, '{}' ({})", best.result.step_seconds, best.from,
                                   DescribePlan(best.plan));
    if (best.estimate > 0) {
      text += fmt::format(", estimated {:.6g} s, floor {:.6g} s", best.estimate, best.bound);
    }
    if (best.estimated_bytes > 0) {
      text += fmt::format(", estimated {:.4g} GB, allocated {:.4g} GB", best.estimated_bytes / 1e9,
                          static_cast<double>(best.result.peak_memory_bytes) / 1e9);
    }
    return text;
  }

  void CheckConstraint(const FixedDegrees& fixed) {
    std::optional<SearchResult> result = Ran("auto", fixed);
    if (!result) return;
    ++tried_;
    bool excludes = !feasible() || Excludes(fixed, own_);
    excluding_ += excludes ? 1 : 0;
    found_ += result->feasible() ? 1 : 0;
    MustNotBeFaster("constraint", CommandLine(fixed), *result);
  }

  std::vector<std::string> OtherSearchers() const {
    std::vector<std::string> searchers = {"data", "expert"};
    if (case_.tree) searchers.push_back("mcts");
    if (case_.solvers) searchers.insert(searchers.end(), {"ilp", "brute"});
    return searchers;
  }

  void CheckSearcher(const std::string& searcher) {
    std::optional<SearchResult> result = Ran(searcher, {});
    if (result) MustNotBeFaster("searcher", CommandLine({}, searcher), *result);
  }

  void CheckOwn(const FixedDegrees& fixed) {
    std::optional<SearchResult> result = Ran("auto", fixed);
    ++own_tried_;
    double loss = std::numeric_limits<double>::infinity();
    std::string words = "refused";
    if (result) {
      if (MustNotBeFaster("constraint", CommandLine(fixed), *result)) return;
      words = Words(*result);
      if (result->feasible()) loss = StepOf(*result) / StepOf(*free_) - 1;
    }
    if (loss <= kTolerance) return;
    violations_.push_back(
        {"own", loss,
         fmt::format("own: {:.2f} % slower with constraints that auto's plan satisfies\n"
                     "    {}\n      {}\n    {}\n      {}",
                     100 * loss, CommandLine({}, searcher_), Words(*free_), CommandLine(fixed),
                     words)});
  }

  // True where it is.
  bool MustNotBeFaster(const std::string& kind, const std::string& command,
                       const SearchResult& result) {
    if (!result.feasible()) return false;
    double loss =
        feasible() ? StepOf(*free_) / StepOf(result) - 1 : std::numeric_limits<double>::infinity();
    if (feasible() && StepOf(result) >= (1 - kTolerance) * StepOf(*free_)) return false;
    violations_.push_back(
        {kind, loss,
         fmt::format(
             "{}: auto's step is {:.2f} % longer\n    {}\n      {}\n    {}\n      {}\n      {}",
             kind, 100 * loss, CommandLine({}, searcher_), Words(*free_), command, Words(result),
             Why(result.judged.front()))});
    return true;
  }

  std::string Why(const JudgedPlan& better) {
    if (!diagnosis_) diagnosis_ = std::make_unique<Diagnosis>(problem_);
    return diagnosis_->Why(*free_, better);
  }

  // --- the expert's plans -------------------------------------------------------------------------------------------

  void CheckExperts(int drawn) {
    for (const Degrees& degrees : case_.experts) CheckExpert(degrees);
    Random rng(seed_);
    for (int tries = 0; drawn > 0 && tries < 100; ++tries) {
      if (std::optional<Degrees> degrees = DrawExpert(rng)) drawn -= CheckExpert(*degrees) ? 1 : 0;
    }
  }

  // Degrees whose product is the number of devices, in which context or expert parallelism replaces
  // some of auto's degrees.
  std::optional<Degrees> DrawExpert(Random& rng) const {
    auto pick = [&](const std::vector<int64_t>& values) {
      return values[static_cast<size_t>(Below(rng, values.size()))];
    };
    int64_t devices = DeviceCount(cluster_), node = NodeOf(cluster_, DeviceId{0}).count;
    Degrees at;
    at.tp = own_.tp && Below(rng, 2) == 0 ? *own_.tp : pick(Divisors(node));
    at.pp = own_.pp && Below(rng, 2) == 0 ? *own_.pp : pick(Divisors(devices));
    at.cp = std::vector<int64_t>{1, 2, 4}[static_cast<size_t>(Below(rng, 3))];
    if (devices % (at.tp * at.pp * at.cp) != 0) return std::nullopt;
    at.dp = devices / (at.tp * at.pp * at.cp);
    if (case_.batch % at.dp != 0) return std::nullopt;
    bool experts = case_.model.starts_with("moe") || case_.model.starts_with("mixtral") ||
                   case_.model.starts_with("deepseek") || case_.model.starts_with("qwen3");
    if (experts) at.ep = pick(Divisors(at.dp));
    at.sp = at.tp > 1 && Below(rng, 4) > 0;
    at.microbatches = pick(Divisors(case_.batch / at.dp));
    at.zero = static_cast<int>(Below(rng, 4));
    at.recompute = static_cast<RecomputePolicy>(Below(rng, kRecomputePolicies.size()));
    if (at.pp > 1 && at.microbatches % at.pp == 0 && Below(rng, 2) == 0) {
      at.schedule = "interleaved";
      at.chunks = static_cast<int>(2 + Below(rng, 7));
    }
    return at;
  }

  std::string ExpertCommandLine(const Degrees& at) const {
    std::string text = CommandLine(FixedDegrees{}, "expert");
    text +=
        fmt::format(" --dp {} --tp {} --pp {} --cp {} --ep {}{} --microbatches {} --zero {}", at.dp,
                    at.tp, at.pp, at.cp, at.ep, at.sp ? " --sp" : "", at.microbatches, at.zero);
    text += fmt::format(" --schedule {} --chunks {} --recompute {}", at.schedule, at.chunks,
                        Name(at.recompute));
    return text;
  }

  // False where there is no such plan.
  bool CheckExpert(Degrees degrees) {
    degrees.precision = problem_.precision;
    degrees.gradients = problem_.gradients;
    degrees.products = problem_.products;
    SearchResult result;
    try {
      Proposal proposal{ExpertPlan(model_, cluster_, degrees), "expert", 0, 0, 0};
      result.judged.push_back(Judge(problem_, std::move(proposal)));
    } catch (const InputError&) {
      return false;
    }
    std::string command = ExpertCommandLine(degrees);
    Say("expert", command.substr(command.find("--dp")), result);
    MustNotBeFaster("expert", command, result);
    return true;
  }

  const MonotoneCase case_;
  const uint64_t seed_;
  const std::string searcher_;
  const Model model_;
  const Cluster cluster_;
  const SearchProblem problem_;
  std::optional<SearchResult> free_;  // auto without constraints
  FixedDegrees own_;
  int tried_ = 0, excluding_ = 0, found_ = 0, own_tried_ = 0;
  double seconds_ = 0;
  ByteErrors bytes_;
  std::unique_ptr<Diagnosis> diagnosis_;
  std::vector<MonotoneViolation> violations_;
};

}  // namespace heddle
