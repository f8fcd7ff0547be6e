// Compares the exact solver for a stage with an integer program in Alpa's formulation, solved by CBC
// (search/solver/ilp.h). Both solve the same problems with the same costs and one thread each, in one run: T5 of
// growing depth, a GPT, and ResNet-50 with a growing head, on one and two machines of eight GPUs.
//
//   variables, pairs, choices   sizes of the problem; choices are summed over all variables
//   make       seconds for making the problem, which are not part of either side
//   cbc        seconds for building and solving the program
//   folded     SolveFolded: chains of equal blocks are powers of a matrix; the best of several
//   whole      SolveWhole: block by block; the best of several
//   cbc worse  excess cost of CBC's choice over ours, by our costs; negative values are a bug of ours
//
// Times are CPU seconds. If CBC reached its time limit, the ratio is a lower bound, and CBC's choice may be worse or
// missing. The exit code is 1 if CBC found a better choice than we did.
//
//   build/bench/vs_ilp [--seconds 120] [--only t5] [--json]
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cluster/load.h"
#include "comparison.h"
#include "frontend/families/built_in.h"
#include "search/prices/stage_problem.h"
#include "search/solver/eliminate.h"
#include "search/solver/ilp.h"
#include "timing.h"

namespace heddle {
namespace {

constexpr double kBetter = 1e-6;  // relative

struct Case {
  std::string name, model;
  int64_t nodes = 1;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int64_t nodes : {1, 2}) {
    for (int layers : {2, 4, 8, 16, 24}) {
      cases.push_back(
          {fmt::format("t5, {} layers", layers), fmt::format("t5:layers={}", layers), nodes});
    }
    cases.push_back({"gpt, 12 layers",
                     "gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=50257,batch=32", nodes});
    for (int classes : {1000, 10000, 100000}) {
      cases.push_back({fmt::format("resnet-50, {} classes", classes),
                       fmt::format("resnet:depth=50,batch=256,classes={}", classes), nodes});
    }
  }
  return cases;
}

Mesh MeshOf(int64_t nodes) {
  if (nodes == 1) return {0, {{"x", 8}}};
  return {0, {{"x", nodes}, {"y", 8}}};
}

struct Row {
  Case at;
  size_t variables = 0, pairs = 0, choices = 0;
  double make = 0, cbc = 0, folded = 0, whole = 0;
  std::optional<Solution> ours, unfolded;
  IlpResult ilp;

  double ratio() const { return cbc / folded; }
  std::optional<double> worse() const {
    if (!ours || !ilp.solution) return std::nullopt;
    return (ilp.solution->objective - ours->objective) / ours->objective;
  }
  bool wrong() const { return worse() && *worse() < -kBetter; }
};

Row Measure(const Case& at, double seconds) {
  Row row;
  row.at = at;
  double start = CpuSeconds();
  Model model = Analyse(BuildModel(at.model));
  Cluster cluster = LoadCluster(fmt::format("dgx-h100:{}", at.nodes));
  StageCosts costs(model, cluster, MeshOf(at.nodes), {});
  StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
  row.make = CpuSeconds() - start;
  const Problem& problem = stage.problem;
  row.variables = problem.unary.size();
  row.pairs = problem.pairs.size();
  for (const UnaryRef& unary : problem.unary) row.choices += unary->size();
  std::tie(row.folded, row.ours) = BestOf(3, 0.5, [&] { return SolveFolded(problem); });
  std::tie(row.whole, row.unfolded) = BestOf(3, 0.5, [&] { return SolveWhole(problem); });
  start = CpuSeconds();
  row.ilp = SolveIlp(problem, {.seconds = seconds});
  row.cbc = CpuSeconds() - start;
  return row;
}

std::string Line(const Row& row) {
  std::string mesh = row.at.nodes == 1 ? "8" : fmt::format("{}x8", row.at.nodes);
  std::string worse = "nothing found";
  if (row.worse()) worse = fmt::format("{:+.1e}", *row.worse());
  if (!row.ours) worse = "no table fits";
  if (row.wrong()) worse += " WRONG";
  return fmt::format(
      "{:<25} {:>4} {:>9} {:>6} {:>7} {:>8} {:>6.2f} {:>9.3f} {:>10.6f} {:>10.6f} {:>9} {:>10}",
      row.at.name, mesh, row.variables, row.pairs, row.choices, row.ilp.columns, row.make, row.cbc,
      row.folded, row.whole, fmt::format("{}{:.0f}", row.ilp.proven ? "" : ">= ", row.ratio()),
      worse);
}

Json ToJson(const Row& row) {
  Json json = {
      {"model", row.at.model},        {"nodes", row.at.nodes},      {"variables", row.variables},
      {"pairs", row.pairs},           {"choices", row.choices},     {"columns", row.ilp.columns},
      {"make_seconds", row.make},     {"cbc_seconds", row.cbc},     {"cbc_proven", row.ilp.proven},
      {"folded_seconds", row.folded}, {"whole_seconds", row.whole}, {"ratio", row.ratio()}};
  json["objective"] = row.ours ? Json(row.ours->objective) : Json();
  json["cbc_objective"] = row.ilp.solution ? Json(row.ilp.solution->objective) : Json();
  json["cbc_worse"] = row.worse() ? Json(*row.worse()) : Json();
  return json;
}

std::string TableHead() {
  return fmt::format(
      "{:<25} {:>4} {:>9} {:>6} {:>7} {:>8} {:>6} {:>9} {:>10} {:>10} {:>9} {:>10}\n", "", "mesh",
      "variables", "pairs", "choices", "columns", "make s", "cbc s", "folded s", "whole s", "ratio",
      "cbc worse");
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  double seconds = 120;
  std::string only;
  bool json = false;
  CLI::App app("Compares the exact solver for a stage with an integer program");
  app.add_option("--seconds", seconds, "that CBC may take for a problem");
  app.add_option("--only", only, "part of the names of the problems to solve");
  app.add_flag("--json", json, "one JSON object");
  return ParseAndRun(app, argc, argv, [&] {
    std::vector<Case> cases = Cases();
    std::erase_if(cases, [&](const Case& at) { return at.name.find(only) == std::string::npos; });
    return Compare(cases, json, TableHead(), [&](const Case& at) { return Measure(at, seconds); },
                   {{"limit_seconds", seconds}});
  });
}
