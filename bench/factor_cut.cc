// Compares two methods for choosing what replicas compute whole (search/replicas/stage_cut.h): a minimum cut, and TAG's
// integer program solved by CBC. Both solve the same problems with one thread each, in one run. The problems are
// data-parallel plans over slow links with a decision for every half of a node, as in the paper.
//
//   operations, values   sizes of the problem
//   whole     operations that are computed whole in the optimum; `once`: if a value that is gathered once costs once
//   saved     gain in milliseconds of a step's additive costs, for both cases
//   cbc       seconds for building and solving the program
//   cut       seconds for building the graph and cutting it; the best of several
//
// Times are CPU seconds without making the problem. The exit code is 1 if the methods disagree, or if the optimum of
// paying once is worse than that of paying for every reader.
//
//   build/bench/factor_cut [--data tests/data] [--only vgg] [--json]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "cluster/load.h"
#include "comparison.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/expert.h"
#include "search/replicas/factor_cases.h"
#include "search/replicas/stage_cut.h"
#include "timing.h"

namespace heddle {
namespace {

struct Solver {
  double cbc = 0, cut = 0;
  Cut by_cut, by_cbc;
  double ratio() const { return cbc / cut; }
  long whole() const { return std::count(by_cut.whole.begin(), by_cut.whole.end(), true); }
  bool wrong() const {
    return std::abs(by_cut.objective - by_cbc.objective) >
           1e-9 * std::abs(by_cbc.objective) + 1e-15;
  }
};

struct Row {
  FactorCase at;
  size_t operations = 0, values = 0;
  Solver per_reader, once;
  double paid_once = 0;  // cost of the choice of per_reader if values are paid once
  bool wrong() const {
    return per_reader.wrong() || once.wrong() || once.by_cut.objective > paid_once + 1e-15;
  }
  double ratio() const { return std::min(per_reader.ratio(), once.ratio()); }
};

Solver Measure(const CutProblem& problem, Payment payment) {
  Solver solver;
  std::tie(solver.cut, solver.by_cut) =
      BestOf(3, 0.1, [&] { return SolveByCut(problem, payment); });
  double start = CpuSeconds();
  solver.by_cbc = SolveByCbc(problem, payment);
  solver.cbc = CpuSeconds() - start;
  return solver;
}

Row Measure(const FactorCase& at, const std::string& data) {
  Row row;
  row.at = at;
  bool file = at.model.ends_with(".onnx.gz");
  Model model = Analyse(Rebatch(LoadModel(file ? data + "/" + at.model : at.model), at.batch));
  Cluster cluster = LoadCluster(at.cluster);
  Degrees degrees;
  degrees.dp = at.dp;
  degrees.microbatches = at.microbatches;
  degrees.zero = at.zero;
  Plan plan = ExpertPlan(model, cluster, degrees);
  CostOptions options;
  options.parts = at.microbatches;
  options.microbatches = static_cast<double>(at.microbatches);
  StageCosts costs(model, cluster, plan.stages[0].mesh, options);
  // There is one set of axes, that of the replicas.
  CutProblem problem = std::move(StageCuts(costs, plan, 0, Whole::kHalves).at(0).problem);
  row.operations = problem.operations.size();
  row.values = problem.values.size();
  row.per_reader = Measure(problem, Payment::kPerReader);
  row.once = Measure(problem, Payment::kOnce);
  row.paid_once = Evaluate(problem, row.per_reader.by_cut.whole, Payment::kOnce);
  return row;
}

std::string Line(const Row& row) {
  auto milliseconds = [](const Solver& solver) {
    return fmt::format("{:.3f}", -1e3 * solver.by_cut.objective);
  };
  return fmt::format(
      "{:<56} {:<10} {:>3} {:>6} {:>6} {:>5} {:>5} {:>10} {:>10} {:>8.4f} {:>9.6f} {:>6.0f} "
      "{:>8.4f} {:>9.6f} {:>6.0f}{}",
      row.at.model, row.at.cluster, row.at.dp, row.operations, row.values, row.per_reader.whole(),
      row.once.whole(), milliseconds(row.per_reader), milliseconds(row.once), row.per_reader.cbc,
      row.per_reader.cut, row.per_reader.ratio(), row.once.cbc, row.once.cut, row.once.ratio(),
      row.wrong() ? " WRONG" : "");
}

Json ToJson(const Solver& solver) {
  return {{"objective_seconds", solver.by_cut.objective},
          {"whole", solver.whole()},
          {"cbc_objective_seconds", solver.by_cbc.objective},
          {"cbc_seconds", solver.cbc},
          {"cut_seconds", solver.cut},
          {"ratio", solver.ratio()}};
}

Json ToJson(const Row& row) {
  return {{"model", row.at.model},
          {"cluster", row.at.cluster},
          {"dp", row.at.dp},
          {"batch", row.at.batch},
          {"operations", row.operations},
          {"values", row.values},
          {"per_reader", ToJson(row.per_reader)},
          {"once", ToJson(row.once)}};
}

std::string TableHead() {
  return fmt::format("{:<56} {:<10} {:>3} {:>6} {:>6} {:>11} {:>21} {:>25} {:>25}\n", "", "", "",
                     "opera-", "", "whole", "saved ms", "per reader, s", "once, s") +
         fmt::format(
             "{:<56} {:<10} {:>3} {:>6} {:>6} {:>5} {:>5} {:>10} {:>10} {:>8} {:>9} {:>6} {:>8} "
             "{:>9} {:>6}\n",
             "model", "cluster", "dp", "tions", "values", "", "once", "", "once", "cbc", "cut",
             "ratio", "cbc", "cut", "ratio");
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  std::string data = "tests/data", only;
  bool json = false;
  CLI::App app(
      "Compares a minimum cut with an integer program for choosing what replicas compute whole");
  app.add_option("--data", data, "the folder of the models of test data");
  app.add_option("--only", only, "part of the names of the models");
  app.add_flag("--json", json, "one JSON object");
  return ParseAndRun(app, argc, argv, [&] {
    std::vector<FactorCase> cases = FactorCases();
    std::erase_if(cases,
                  [&](const FactorCase& at) { return at.model.find(only) == std::string::npos; });
    return Compare(cases, json, TableHead(),
                   [&](const FactorCase& at) { return Measure(at, data); });
  });
}
