// The speedup of a search by several cores. The same problem is planned by processes that may use one, two, four, ...
// and all cores. Times are wall seconds, the best of five. Every process must find the same plan.
//
//   build/bench/search_cores [model cluster batch]     # gpt3-175b dgx-h100:128 1536
#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parallel.h"
#include "cluster/load.h"
#include "frontend/load.h"
#include "ops/rebatch.h"
#include "plan/plan_file.h"
#include "search/searcher.h"

namespace heddle {
namespace {

struct Found {
  double seconds = std::numeric_limits<double>::infinity();
  double step = 0;
  uint64_t plan = 0;  // hash
};

Found Plan(const char* model_name, const char* cluster_name, int64_t batch) {
  Model model = Analyse(Rebatch(LoadModel(model_name), batch));
  Cluster cluster = LoadCluster(cluster_name);
  Found best;
  for (int i = 0; i < 5; ++i) {
    SearchProblem problem{.model = model, .cluster = cluster};
    problem.precision = DType::kBF16;
    SearchResult result = Search(*FindSearcher("auto"), problem);
    if (!result.feasible()) ThrowInput("no plan fits");
    best.seconds = std::min(best.seconds, result.seconds);
    best.step = result.judged.front().result.step_seconds;
    best.plan = HashString(ToJson(result.judged.front().plan, model));
  }
  return best;
}

// Searches in a separate process, because the number of threads is fixed once per process.
Found PlanOn(int cores, const char* model, const char* cluster, int64_t batch) {
  int pipe_of[2];
  if (pipe(pipe_of) != 0) ThrowInput("cannot create a pipe");
  pid_t child = fork();
  if (child == 0) {
    cpu_set_t all, some;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&some);
    for (int cpu = 0, taken = 0; cpu < CPU_SETSIZE && taken < cores; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &some);
      ++taken;
    }
    sched_setaffinity(0, sizeof some, &some);
    Found found = Plan(model, cluster, batch);
    bool written = write(pipe_of[1], &found, sizeof found) == sizeof found;
    std::_Exit(written ? 0 : 1);
  }
  close(pipe_of[1]);
  Found found;
  bool known = read(pipe_of[0], &found, sizeof found) == sizeof found;
  close(pipe_of[0]);
  waitpid(child, nullptr, 0);
  if (!known) ThrowInput("the search failed on {} cores", cores);
  return found;
}

int Compare(const char* model, const char* cluster, int64_t batch) {
  fmt::print("{} on {}, batch {}\n{:>6} {:>10} {:>12} {:>10}\n", model, cluster, batch, "cores",
             "search s", "of one core", "step s");
  std::optional<Found> one;
  bool same = true;
  auto most = static_cast<int>(CoreCount());
  for (int cores = 1;; cores = std::min(2 * cores, most)) {
    Found found = PlanOn(cores, model, cluster, batch);
    if (!one) one = found;
    same = same && found.plan == one->plan && found.step == one->step;
    fmt::print("{:>6} {:>10.3f} {:>12.2f} {:>10.4g}\n", cores, found.seconds,
               found.seconds / one->seconds, found.step);
    if (cores == most) break;
  }
  fmt::print("{}\n", same ? "the same plan each time" : "the plans differ");
  return same ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  if (argc != 1 && argc != 4) {
    fmt::print(stderr, "usage: search_cores [model cluster batch]\n");
    return 2;
  }
  try {
    if (argc == 1) return heddle::Compare("gpt3-175b", "dgx-h100:128", 1536);
    return heddle::Compare(argv[1], argv[2], std::stoll(argv[3]));
  } catch (const std::exception& e) {
    fmt::print(stderr, "search_cores: {}\n", e.what());
    return 2;
  }
}
