// The gain of gradient factors with few samples and wide layers: the same ranks train a data-parallel MLP with reduced
// gradients, with a server and with factors. Losses are compared at the end.
//
//   mpirun -np 2 build/bench/factors [batch] [width] [layers] [rounds]
#include "alternate.h"
#include "cluster/load.h"
#include "plan/expert.h"
#include "plan/verify.h"
#include "program/lower.h"
#include "runtime/kernel_threads.h"
#include "runtime/transport/mpi.h"

namespace heddle {
namespace {

void Measure(Transport& transport, int64_t batch, int64_t width, int64_t layers, int rounds) {
  Model model = bench::Mlp(batch, width, layers);
  Cluster cluster = LoadCluster(fmt::format("local:{}", transport.size()));
  ExecutorOptions options;
  options.optimizer.lr = 1e-5;  // small, so that losses can be compared
  std::vector<bench::Contender> runs;
  for (GradientSync sync : {GradientSync::kReduce, GradientSync::kServer, GradientSync::kFactors}) {
    Plan plan = ExpertPlan(model, cluster, {.dp = transport.size(), .sync = sync});
    RequireSound(plan, model, "the plan");
    bench::Add(runs, std::string(Name(sync)), Lower(model, plan), model, transport, options);
  }
  bench::Alternate(runs, transport, rounds);
  for (const bench::Contender& run : runs) {
    if (std::abs(run.loss - runs[0].loss) > 1e-6 * std::abs(runs[0].loss))
      ThrowRun("the losses differ: {} and {}", run.loss, runs[0].loss);
  }
  if (transport.rank() != 0) return;
  fmt::print("batch {}, {} layers of {} x {}, {} ranks, {} rounds; final loss {:.6f}\n", batch,
             layers, width, width, transport.size(), rounds, runs[0].loss);
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
