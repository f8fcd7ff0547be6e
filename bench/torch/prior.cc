// Playouts of the tree search until a plan is within 1 % of the best known one: the network compared with the uniform
// prior, on models and topologies that it was not trained on. Both trees start from data parallelism. The best known
// plan is the best of long runs of both. If it is not reached within 800 playouts, these count as 800.
//
//   build/bench/prior [FILE|network] [pairs] [playouts of the long runs] [first topology]
//                                                                             (default: network, 56, 1000, 100)
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "../timing.h"
#include "cluster/random_topology.h"
#include "cluster/topology.h"
#include "frontend/families/built_in.h"
#include "learn/contest.h"
#include "learn/file.h"
#include "runtime/kernel_threads.h"

namespace heddle {
namespace {

// Families that 'heddle learn' uses, in sizes that it does not use; vgg19 differs only in its batch.
constexpr const char* kModels[] = {
    "vgg19:batch=100",
    "resnet:depth=18,channels=80,image=192,classes=50000,batch=90",
    "gpt:layers=5,hidden=640,heads=10,seq=20,vocab=20000,batch=300",
    "gpt:layers=3,hidden=1280,heads=10,seq=96,vocab=40000,batch=40",
    "bert:layers=4,hidden=896,heads=14,seq=100,vocab=200000,batch=36",
    "bert:layers=3,hidden=1792,heads=14,seq=48,vocab=28000,batch=72",
    "llama:layers=3,hidden=1152,heads=9,ffn=3456,seq=80,vocab=24000,batch=60",
    "vit:layers=4,hidden=640,heads=10,image=160,classes=5000,batch=80",
};
constexpr int64_t kMost = 800;

// Measures the time of a prior.
class Timed : public Prior {
 public:
  explicit Timed(std::unique_ptr<Prior> prior) : prior_(std::move(prior)) {}
  std::vector<std::vector<double>> Of(const PlacementGraph& graph,
                                      const std::vector<PrefixState>& states) override {
    double begin = CpuSeconds();
    std::vector<std::vector<double>> priors = prior_->Of(graph, states);
    seconds += CpuSeconds() - begin;
    count += static_cast<double>(states.size());
    return priors;
  }
  double seconds = 0, count = 0;

 private:
  std::unique_ptr<Prior> prior_;
};

double ParameterBytes(const Graph& graph) {
  double bytes = 0;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kParameter) bytes += static_cast<double>(ByteCount(value.type));
  }
  return bytes;
}

int Main(const std::string& file, int64_t pairs, int64_t playouts, uint64_t first) {
  SetKernelThreads(1);
  Timed network(file == "network" ? BundledPrior() : LoadPrior(file));
  std::unique_ptr<Prior> uniform = UniformPrior();
  double log_network = 0, log_uniform = 0, uniform_seconds = 0;
  int64_t done = 0;
  fmt::print("playouts until within 1 % of the best known\n{:<66} {:>8} {:>8} {:>8} {:>8}  {}\n",
             "", "actions", "network", "uniform", "ratio", "best against data parallelism");
  for (uint64_t seed = first; done < pairs; ++seed) {
    const char* name = kModels[seed % std::size(kModels)];
    Graph graph = BuildModel(name);
    Cluster cluster = RandomTopology(seed, ParameterBytes(graph));
    if (IsHomogeneous(cluster)) continue;
    Lesson lesson{Analyse(std::move(graph)), std::move(cluster)};
    Contest contest(lesson);
    if (!contest.IsOpen()) continue;
    double begin = CpuSeconds();
    TreeResult plain = contest.Run(*uniform, playouts);
    uniform_seconds += CpuSeconds() - begin;
    TreeResult guided = contest.Run(network, playouts);
    auto mine = static_cast<double>(contest.PlayoutsToBest(guided, 0.01, kMost));
    auto theirs = static_cast<double>(contest.PlayoutsToBest(plain, 0.01, kMost));
    log_network += std::log(mine);
    log_uniform += std::log(theirs);
    ++done;
    fmt::print("{:<66} {:>8} {:>8.0f} {:>8.0f} {:>8.2f}  {:.2f}x on topology {}\n", name,
               contest.game().actions(), mine, theirs, mine / theirs,
               contest.game().baseline() / contest.BestSeconds(), seed);
    std::fflush(stdout);
  }
  auto count = static_cast<double>(done);
  double mine = std::exp(log_network / count), theirs = std::exp(log_uniform / count);
  fmt::print(
      "{} pairs: {:.1f} playouts with the network, {:.1f} where all actions are alike (geometric "
      "means): {:.2f} of them\n"
      "the network takes {:.2f} ms a state, a playout without it {:.2f} ms of CPU\n",
      done, mine, theirs, mine / theirs, 1e3 * network.seconds / network.count,
      1e3 * uniform_seconds / (count * static_cast<double>(playouts)));
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) {
  std::string file = count > 1 ? arguments[1] : "network";
  int64_t pairs = count > 2 ? std::atoll(arguments[2]) : 56;
  int64_t playouts = count > 3 ? std::atoll(arguments[3]) : 1000;
  uint64_t first = count > 4 ? std::strtoull(arguments[4], nullptr, 10) : 100;
  return heddle::Main(file, pairs, playouts, first);
}
