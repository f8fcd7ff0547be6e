// The bytes of the state of a pruned model by sparsity, measured as storages during a training step: bf16 with fp32
// master weights and moments (AdamW). They are compared with 2 + 24 (1 - p), SAMO's upper bound, and with two dense
// policies: the paper's, which has gradients in both types (20 bytes), and ours, measured.
//
//   build/bench/pruned_state [hidden]
#include "alternate.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "random_mask.h"
#include "runtime/transport/threads.h"

namespace heddle {
namespace {

constexpr double kPaperDense = 20;

double Elements(const Graph& graph) {
  double sum = 0;
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    double elements = 1;
    for (int64_t size : graph.value(id).type.shape) elements *= static_cast<double>(size);
    sum += elements;
  }
  return sum;
}

StateBytes Measure(const Model& model, int64_t microbatches, double sparsity) {
  Plan plan = ExpertPlan(model, LoadCluster("local:1"),
                         {.microbatches = microbatches, .precision = DType::kBF16});
  RequireSound(plan, model, "the plan");
  std::unique_ptr<Mask> mask;
  ExecutorOptions options;
  if (sparsity > 0) {
    mask = std::make_unique<Mask>(bench::RandomMask(model, sparsity));
    plan.pruning = mask->pruning();
    options.mask = mask.get();
  }
  StateBytes state;
  RunRanks(1, [&](Transport& transport) {
    std::vector<bench::Contender> one;
    bench::Add(one, "", Lower(model, plan, options.mask), model, transport, options);
    one[0].executor->RunStep(0);
    state = one[0].executor->StateMemory();
  });
  return state;
}

void Table(const Model& model, int64_t microbatches) {
  double parameters = Elements(model.graph), before = 0, dense = 0;
  double last = 0, even_paper = 0, even_ours = 0;
  fmt::print("\n{} micro-batch{}, bytes per parameter\n", microbatches,
             microbatches == 1 ? "" : "es");
  fmt::print("{:>6} {:>9} {:>10} {:>8} {:>8} {:>7} {:>8} {:>16}\n", "p", "weights", "gradients",
             "master", "moments", "index", "all", "2 + 24 (1 - p)");
  for (double p : {0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 0.8, 0.9}) {
    StateBytes state = Measure(model, microbatches, p);
    auto each = [&](int64_t bytes) { return static_cast<double>(bytes) / parameters; };
    double all = each(state.total());
    fmt::print("{:>6} {:>9.2f} {:>10.2f} {:>8.2f} {:>8.2f} {:>7.2f} {:>8.2f} {:>16}\n",
               p == 0 ? "dense" : fmt::format("{}", p), each(state.weights), each(state.gradients),
               each(state.master), each(state.moments), each(state.index), all,
               p == 0 ? "" : fmt::format("{:.1f}", 2 + 24 * (1 - p)));
    if (p == 0) dense = all;
    // The sparsity at which the line through the last two points meets a dense policy.
    auto meets = [&](double policy, double& even) {
      if (even == 0 && p > 0.1 && all < policy)
        even = p - (policy - all) / (before - all) * (p - last);
    };
    meets(kPaperDense, even_paper);
    meets(dense, even_ours);
    before = all;
    last = p;
  }
  fmt::print(
      "break-even: p = {:.2f} against the paper's dense {}, {:.2f} against our dense {:.1f}\n",
      even_paper, kPaperDense, even_ours, dense);
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  try {
    int64_t hidden = bench::Argument(argc, argv, 1, 512);
    Model model = Analyse(LoadModel(
        fmt::format("gpt:layers=2,hidden={},heads=8,seq=16,vocab=1024,batch=4", hidden), {}));
    fmt::print("{}, {} parameters, bf16, AdamW\n", model.graph.name,
               FormatCount(Elements(model.graph)));
    Table(model, 1);
    Table(model, 4);
  } catch (const std::exception& error) {
    fmt::print(stderr, "pruned_state: {}\n", error.what());
    return 1;
  }
}
