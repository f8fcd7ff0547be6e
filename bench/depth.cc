// How the search inside a mesh grows with depth: GPT of 12 to 768 layers on two meshes.
//
//   folded   the problem of the shortened model, solved with its chain of equal layers as a power of a matrix
//            (search/prices/prices.h), as the planner does for every mesh and micro-batch. Shortening happens once per
//            model and has its own column
//   whole    the problem of all layers, solved layer by layer (SolveWhole)
//
// Columns without a unit are relative to 24 layers. Times are the best of several, in CPU seconds.
//
//   build/bench/depth
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cluster/load.h"
#include "frontend/families/built_in.h"
#include "search/prices/prices.h"
#include "search/prices/stage_problem.h"
#include "search/solver/eliminate.h"
#include "timing.h"

namespace heddle {
namespace {

struct Row {
  int layers = 0;
  size_t variables = 0;
  double shorten = 0, folded = 0, whole = 0;
  std::optional<Solution> ours, unfolded;
};

Row Measure(const std::vector<int64_t>& axes, int layers) {
  Row row;
  row.layers = layers;
  Model model = Analyse(BuildModel(
      fmt::format("gpt:layers={},hidden=1024,heads=16,seq=1024,vocab=50304,batch=32", layers)));
  Cluster cluster = LoadCluster("dgx-h100:1");
  double start = CpuSeconds();
  Shorten(model);
  row.shorten = CpuSeconds() - start;
  PriceKey key{axes, 32, 1, RecomputePolicy::kNone, 0, 0};
  double best = 0;
  for (int round = 0; round < 15; ++round) {
    Prices prices(model, cluster, {});
    start = CpuSeconds();
    const Priced* priced = prices.Of(key);
    double took = CpuSeconds() - start;
    best = round == 0 ? took : std::min(best, took);
    if (priced != nullptr) row.ours = priced->solution;
  }
  row.folded = best;
  Mesh mesh;
  for (int64_t size : axes) mesh.axes.push_back({fmt::format("x{}", size), size});
  std::tie(row.whole, row.unfolded) = BestOf(3, 0.5, [&] {
    CostOptions options;
    options.tied_alike = true;
    StageCosts costs(model, cluster, mesh, options);
    StageProblem stage = MakeStageProblem(costs, 0, static_cast<int>(model.blocks.size()));
    row.variables = stage.problem.unary.size();
    return SolveWhole(stage.problem);
  });
  return row;
}

void Report(const std::vector<int64_t>& axes, std::string_view name) {
  std::vector<Row> rows;
  for (int layers : {12, 24, 48, 96, 192, 384, 768}) rows.push_back(Measure(axes, layers));
  const Row& against = rows[1];
  for (const Row& row : rows) {
    std::string differ = "too large";
    if (row.ours && row.unfolded) {
      differ = fmt::format("{:.0e}", row.ours->objective / row.unfolded->objective - 1);
    }
    fmt::print("{:<5} {:>6} {:>9} {:>10.3f} {:>10.3f} {:>10.3f} {:>8.2f} {:>8.2f} {:>10}\n", name,
               row.layers, row.variables, 1e3 * row.shorten, 1e3 * row.folded, 1e3 * row.whole,
               row.folded / against.folded, row.whole / against.whole, differ);
  }
}

}  // namespace
}  // namespace heddle

int main() {
  fmt::print("{:<5} {:>6} {:>9} {:>10} {:>10} {:>10} {:>8} {:>8} {:>10}\n", "mesh", "layers",
             "variables", "shorten ms", "folded ms", "whole ms", "folded", "whole", "differ by");
  heddle::Report({8}, "8");
  heddle::Report({2, 4}, "2x4");
  return 0;
}
