// The gain of pruning in traffic-bound data parallelism: the same ranks train an MLP with few samples and wide layers,
// dense and with masks.
//
//   mpirun -np 2 build/bench/pruned_traffic [batch] [width] [layers] [rounds]
#include "alternate.h"
#include "cluster/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "random_mask.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/mpi.h"

namespace heddle {
namespace {

void Measure(Transport& transport, int64_t batch, int64_t width, int64_t layers, int rounds) {
  Model model = bench::Mlp(batch, width, layers);
  Cluster cluster = LoadCluster(fmt::format("local:{}", transport.size()));
  Plan plan = ExpertPlan(model, cluster, {.dp = transport.size()});
  RequireSound(plan, model, "the plan");
  std::vector<bench::Contender> runs;
  bench::Add(runs, "dense", Lower(model, plan), model, transport, {});
  std::vector<std::unique_ptr<Mask>> masks;
  for (double sparsity : {0.5, 0.8, 0.9}) {
    masks.push_back(std::make_unique<Mask>(bench::RandomMask(model, sparsity)));
    ExecutorOptions options;
    options.mask = masks.back().get();
    plan.pruning = masks.back()->pruning();
    bench::Add(runs, fmt::format("p = {}", sparsity), Lower(model, plan, options.mask), model,
               transport, options);
  }
  bench::Alternate(runs, transport, rounds);
  if (transport.rank() != 0) return;
  fmt::print("batch {}, {} layers of {} x {}, fp32, {} ranks, {} rounds\n", batch, layers, width,
             width, transport.size(), rounds);
  for (const bench::Contender& run : runs) fmt::print("{}\n", bench::Beside(run, runs[0]));
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  using namespace heddle;
  return RunMpi([&](Transport& transport) {
    SetKernelThreads(1);
    auto argument = [&](int i, int64_t otherwise) {
      return bench::Argument(argc, argv, i, otherwise);
    };
    Measure(transport, argument(1, 8), argument(2, 2048), argument(3, 4),
            static_cast<int>(argument(4, 20)));
  });
}
