#include "report/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "base/units.h"
#include "plan/axes.h"
#include "plan/precision.h"
#include "report/step_size.h"
#include "search/explore/assemble.h"
#include "search/judge/judge.h"

namespace heddle {
namespace {

constexpr size_t kPolicies = kRecomputeNames.size();

// Has a problem and an estimator for each recomputation policy.
class Evaluator {
 public:
  explicit Evaluator(const SearchProblem& problem)
      : problem_(problem),
        model_(WithComputeType(problem.model, problem.precision)),
        prices_(model_, problem.cluster, PriceOptionsOf(problem)) {
    problems_.reserve(kPolicies);
    for (size_t p = 0; p < kPolicies; ++p) {
      problems_.emplace_back(problem);
      problems_.back().fixed.recompute = static_cast<RecomputePolicy>(p);
      problems_.back().effort.simulate_all = true;
      estimators_.push_back(std::make_unique<Estimator>(problems_.back(), prices_));
    }
  }

  SpaceRow Of(const Configuration& configuration, RecomputePolicy recompute) {
    size_t p = static_cast<size_t>(recompute);
    SpaceRow row;
    row.configuration = configuration;
    row.recompute = recompute;
    Estimate estimate = estimators_[p]->Of(configuration);
    if (estimate.stages.empty()) return row;
    row.estimated_fits = estimate.fits;
    if (estimate.seconds < kForbidden) row.estimate_seconds = estimate.seconds;
    row.estimated_bytes = static_cast<int64_t>(estimate.bytes);
    double floor = estimators_[p]->Floor(configuration).floor;
    if (floor < kForbidden) row.floor_seconds = floor;
    try {
      Simulate(p, estimate, row);
    } catch (const InputError&) {
      row.step_seconds.reset();
    }
    return row;
  }

 private:
  void Simulate(size_t p, const Estimate& estimate, SpaceRow& row) {
    Proposal proposal;
    proposal.plan =
        Assemble(problems_[p], hash_, prices_, *estimators_[p], row.configuration, estimate);
    StepSize size = SizeOfStep(problem_.model, proposal.plan);
    JudgedPlan judged = Judge(problems_[p], std::move(proposal));
    const SimResult& result = judged.result;
    row.fits = judged.fits;
    row.step_seconds = result.step_seconds;
    row.reserved_bytes = result.reserved_memory_bytes;
    row.bubble = result.bubble;
    row.exposed_communication = result.exposed_communication;
    row.mfu = size.peak_flops > 0 ? size.flops / result.step_seconds / size.peak_flops : 0;
  }

  const SearchProblem& problem_;
  Model model_;
  Prices prices_;
  uint64_t hash_ = StableHash(problem_.model.graph);
  std::vector<SearchTask> problems_;
  std::vector<std::unique_ptr<Estimator>> estimators_;
};

// The order of rows: those that fit, those that do not, those that cannot be simulated; each group by its step.
bool Before(const SpaceRow& a, const SpaceRow& b) {
  auto key = [](const SpaceRow& row) {
    return std::tuple(!row.fits, !row.step_seconds, row.step_seconds.value_or(0));
  };
  return key(a) < key(b);
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (size_t i = first; i < last; ++i) {
      ranks[order[i]] = static_cast<double>(first + last - 1) / 2;
    }
    first = last;
  }
  return ranks;
}

std::optional<double> Correlation(const std::vector<SpaceRow>& rows, bool fitting) {
  std::vector<double> estimated, simulated;
  for (const SpaceRow& row : rows) {
    if (!row.step_seconds || !row.estimate_seconds || (fitting && !row.fits)) continue;
    estimated.push_back(*row.estimate_seconds);
    simulated.push_back(*row.step_seconds);
  }
  if (estimated.size() < 2) return std::nullopt;
  return Spearman(estimated, simulated);
}

void Compare(Space& space) {
  space.spearman = Correlation(space.rows, false);
  space.spearman_fitting = Correlation(space.rows, true);
  const SpaceRow* chosen = nullptr;
  for (const SpaceRow& row : space.rows) {
    if (!row.estimated_fits || !row.estimate_seconds || !row.step_seconds) continue;
    if (chosen == nullptr || *row.estimate_seconds < *chosen->estimate_seconds) chosen = &row;
  }
  for (const SpaceRow& row : space.rows) {
    bool below = row.fits && *row.step_seconds < row.floor_seconds * (1 - 1e-9);
    space.below_floor += below ? 1 : 0;
  }
  if (!space.rows.empty() && space.rows.front().fits) {
    space.best_seconds = space.rows.front().step_seconds;
  }
  if (chosen == nullptr) return;
  space.chosen_seconds = chosen->step_seconds;
  if (chosen->fits && space.best_seconds) {
    space.regret = *chosen->step_seconds / *space.best_seconds - 1;
  }
}

// The cells of a row, in the order of the columns.
std::vector<std::pair<std::string_view, Json>> Cells(const SpaceRow& row) {
  const Configuration& c = row.configuration;
  auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  bool simulated = row.step_seconds.has_value();
  auto seen = [&](Json value) { return simulated ? value : Json(); };
  std::vector<std::pair<std::string_view, Json>> cells;
  for (const ParallelAxis& axis : AllAxes()) {
    if (axis.is_degree() && axis.searched) cells.push_back({axis.name, DegreeOf(c, axis.role)});
  }
  std::vector<std::pair<std::string_view, Json>> others = {
      {"microbatches", c.microbatches},
      {"schedule", c.schedule},
      {"chunks", c.chunks},
      {"zero", c.zero},
      {"offload", Name(c.offload)},
      {"recompute", Name(row.recompute)},
      {"feasible", row.fits},
      {"step_seconds", number(row.step_seconds)},
      {"estimate_seconds", number(row.estimate_seconds)},
      {"floor_seconds", row.floor_seconds > 0 ? Json(row.floor_seconds) : Json()},
      {"reserved_memory_bytes", seen(row.reserved_bytes)},
      {"estimated_memory_bytes", row.estimated_bytes > 0 ? Json(row.estimated_bytes) : Json()},
      {"bubble", seen(row.bubble)},
      {"exposed_communication", seen(row.exposed_communication)},
      {"mfu", seen(row.mfu)}};
  cells.insert(cells.end(), others.begin(), others.end());
  return cells;
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::vector<std::pair<Configuration, RecomputePolicy>> SpaceOf(const SearchProblem& problem) {
  std::vector<std::pair<Configuration, RecomputePolicy>> all;
  auto add = [&](const Configuration& configuration) {
    for (size_t p = 0; p < kPolicies; ++p) {
      RecomputePolicy policy = static_cast<RecomputePolicy>(p);
      if (problem.fixed.recompute && policy != *problem.fixed.recompute) continue;
      all.push_back({configuration, policy});
    }
  };
  for (const Configuration& configuration : Enumerate(problem, false)) {
    add(configuration);
    if (auto offloaded = Offloaded(problem, configuration)) add(*offloaded);
  }
  return all;
}

Space EvaluateSpace(const SearchProblem& problem,
                    const std::function<void(size_t done)>& progress) {
  std::vector<std::pair<Configuration, RecomputePolicy>> all = SpaceOf(problem);
  Evaluator evaluator(problem);
  Space space;
  space.memory_limit = MemoryLimit(problem);
  space.rows.resize(all.size());
  std::atomic<size_t> done = 0;
  InParallel(all.size(), [&](size_t i) {
    space.rows[i] = evaluator.Of(all[i].first, all[i].second);
    size_t count = ++done;
    if (progress) progress(count);
  });
  std::stable_sort(space.rows.begin(), space.rows.end(), Before);
  Compare(space);
  return space;
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> x = Ranks(a), y = Ranks(b);
  double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

std::string ToCsv(const Space& space) {
  std::string text;
  for (const auto& [name, value] : Cells(SpaceRow{})) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", name);
  }
  text += "\n";
  for (const SpaceRow& row : space.rows) {
    std::vector<std::string> line;
    for (const auto& [name, value] : Cells(row)) {
      std::string cell = value.is_null()     ? ""
                         : value.is_string() ? value.get<std::string>()
                                             : value.dump();
      line.push_back(std::move(cell));
    }
    text += fmt::format("{}\n", fmt::join(line, ","));
  }
  return text;
}

Json SummaryJson(const Space& space) {
  auto fitting = std::count_if(space.rows.begin(), space.rows.end(),
                               [](const SpaceRow& row) { return row.fits; });
  return {{"configurations", space.rows.size()},
          {"fitting", fitting},
          {"memory_limit_bytes", space.memory_limit},
          {"spearman", OrNull(space.spearman)},
          {"spearman_fitting", OrNull(space.spearman_fitting)},
          {"regret", OrNull(space.regret)},
          {"chosen_seconds", OrNull(space.chosen_seconds)},
          {"best_seconds", OrNull(space.best_seconds)},
          {"below_floor", space.below_floor}};
}

Json ToJson(const Space& space) {
  Json json = SummaryJson(space);
  json["simulated"] = true;
  json["rows"] = Json::array();
  for (const SpaceRow& row : space.rows) {
    Json object = Json::object();
    for (auto& [name, value] : Cells(row)) object[std::string(name)] = value;
    json["rows"].push_back(std::move(object));
  }
  return json;
}

std::string SummaryLine(const Space& space) {
  auto text = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4f}", *value) : std::string("unknown");
  };
  Json summary = SummaryJson(space);
  std::string line = fmt::format(
      "{} configurations, {} fit; rank correlation of estimated and simulated step {} (of those "
      "that fit {}); ",
      space.rows.size(), summary["fitting"].get<int64_t>(), text(space.spearman),
      text(space.spearman_fitting));
  if (space.below_floor > 0) {
    line += fmt::format("{} that fit are below floor_seconds; ", space.below_floor);
  }
  if (space.regret) {
    return line + fmt::format("taking the best estimate costs {:.2f} %: {}, and the best is {}",
                              100 * *space.regret, FormatSeconds(Seconds{*space.chosen_seconds}),
                              FormatSeconds(Seconds{*space.best_seconds}));
  }
  return line + (space.chosen_seconds ? "the best estimate does not fit when it is simulated"
                                      : "nothing is estimated to fit");
}

}  // namespace heddle
