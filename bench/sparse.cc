// The gains of pruning in the setting of SAMO (Singh and Bhatele, IPDPS 2023): its models with 90 % of the weights
// pruned, on V100s of Summit, six per node with 16 GB each. All figures are SIMULATED; nothing here was run.
//
//   dense      as AxoNN: stages x replicas, weights and gradients in fp16, the other state on every replica;
//              the fewest stages that fit, with the best micro-batch
//              `replicas near`: the same with heddle's placement, in which gradients are reduced within nodes first
//   3-D        as DeepSpeed: stages x tensor parallelism x replicas with ZeRO 1, each at least 2, tensor
//              parallelism within nodes; the fastest plan
//   sparse     as `ours`, but zeros are not stored, which may save stages, and products with weights take 6 or 22 times
//              as
//   kernels    long, which are the extremes that the paper measured for sparse kernels on a V100 at 90 %
//   ours       as `dense`, with gradients and state only for kept weights; the fewest stages that fit
//              `more stages`: the next number that divides the devices, in case a little more memory is needed
//   planner    the plans of `auto` without constraints, dense and pruned
//
// Layers of GPTs are recomputed unless the planner chooses otherwise; convolution networks are data parallel. AxoNN's
// runtime is modelled after its source: the devices of a pipeline are neighbours and replicas are on different nodes;
// messages overlap compute; all gradients are reduced together in fp16 after the last backward; the update uses an
// additional fp32 copy of gradients, which is added to the memory here (20 bytes per parameter in total, or 2, and 22
// for each kept one). DeepSpeed does not overlap communication. Kernels are the same for all, with unfused attention;
// dropout is as in Megatron.
//
//   work, messages, bubble, collectives    seconds of a step, mean over devices; they add up to it. Messages between
//                                          stages and collectives count as far as they are exposed
//   communication                          messages and collectives
//   memory                                 of the device that needs most memory
//
// The exit code is 1 if, for the 2.7B model on 512 devices, communication of `ours` is not 40 % below that of `dense`,
// or its step is not 1.34 times as fast.
//
//   build/bench/sparse [models] [--devices N] [--budget 10] [--no-planner]
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "comparison.h"
#include "frontend/families/built_in.h"
#include "plan/expert.h"
#include "search/searcher.h"
#include "search/searchers.h"
#include "sparse_case.h"
#include "step_parts.h"
#include "validate/configure.h"
#include "weights_of.h"

namespace heddle {
namespace {

constexpr double kSparsity = 0.9;
constexpr double kSlowLeast = 6, kSlowMost = 22;  // sparse kernels against dense ones
constexpr int64_t kTogether = int64_t{1} << 50;   // bytes of a bucket: all gradients
constexpr double kGradientCopy = 4;               // bytes, fp32
constexpr double kWantedCommunication = 0.4, kWantedSpeed = 1.34;
constexpr const char* kWantedModel = "gpt3-2.7b";
constexpr int64_t kWantedDevices = 512;

// Built-in models.
std::vector<BenchModel> Models() {
  return {
      {"gpt3-1.3b", 512, {512, 256, 128, 64}},
      {kWantedModel, 512, {512, 256, 128, 64}, true, true},
      {"gpt3-6.7b", 1024, {1024, 512, 256, 128}},
      {"gpt3-13b", 2048, {2048, 1024, 512, 256}},
      {"wide-resnet-101", 128, {128, 64, 32, 16}, false},
      {"vgg19", 128, {128, 64, 32, 16}, false},
  };
}

// The kernels of GPTs on V100s at that time.
constexpr std::string_view kKernels = "attention=unfused,dropout=0.1,attention_dropout=0.1,";

// Pipelines of neighbours, as AxoNN has them: device d is stage d mod stages.
void PlaceNeighbours(Plan& plan) {
  auto stages = static_cast<int64_t>(plan.stages.size());
  for (int64_t s = 0; s < stages; ++s) {
    Mesh& mesh = plan.stages[static_cast<size_t>(s)].mesh;
    std::vector<int64_t> devices;
    for (int64_t d = 0; d < mesh.size(); ++d) devices.push_back(d * stages + s);
    Place(mesh, devices);
  }
}

// The numbers of samples that a micro-batch of a replica may have.
std::vector<int64_t> SampleCounts(int64_t batch, int64_t dp) {
  std::vector<int64_t> counts;
  for (int64_t samples : {1, 2, 4, 8}) {
    if (batch % (dp * samples) == 0) counts.push_back(samples);
  }
  return counts;
}

struct Scheme {
  std::string name;
  double sparsity = 0;
  double slow = 1;              // factor on the time of products with weights
  bool sparse_weights = false;  // zeros are not stored
  bool near = false;            // replicas are neighbours, instead of the devices of a pipeline
  int64_t stages = 1;           // at least
};

// Layers per stage: balanced by FLOPs, and with fewer layers in the stages of the embedding and the head.
std::vector<std::vector<int64_t>> Layouts(const Model& model, int64_t stages) {
  if (stages == 1) return {{}};
  return {{}, LayerLayout(LayersOf(model), stages)};
}

// Memory of a scheme in addition to simulated memory, and a lower bound on its state.
struct State {
  double more = 0;
  double least = 0;
};

State StateOf(const Model& model, const Plan& plan, bool sparse_weights) {
  StageWeights weights = MostOf(model, plan);
  double more = kGradientCopy * weights.kept;
  if (sparse_weights) more -= 2 * (weights.all - weights.kept);
  return {more, 2 * weights.all + 14 * weights.kept + more};
}

// The plan with the fewest stages that fit, with their best micro-batch and layout.
std::optional<Row> AxoNN(const Case& at, const Scheme& scheme) {
  SimOptions options = Options();
  options.stack.overlap_gradients = false;
  options.stack.products *= 1 + (scheme.slow - 1) * ShareOfWeights(at.model);
  SearchProblem problem = ProblemOf(at, scheme.sparsity);
  auto limit = static_cast<double>(MemoryLimit(problem));
  Degrees degrees = DegreesOf(at);
  std::optional<Row> best;
  auto attempt = [&] {
    Plan plan = ExpertPlan(at.model, at.cluster, degrees);
    plan.bucket_bytes = kTogether;
    plan.pruning = problem.pruning;
    if (!scheme.near) PlaceNeighbours(plan);
    State state = StateOf(at.model, plan, scheme.sparse_weights);
    if (state.least <= limit) Keep(Simulated(at, plan, options, state.more), limit, best);
  };
  int64_t most = at.of.stages ? std::min(at.devices, LayersOf(at.model)) : 1;
  for (degrees.pp = scheme.stages; degrees.pp <= most && !(best && best->fits); ++degrees.pp) {
    if (at.devices % degrees.pp != 0) continue;
    degrees.dp = at.devices / degrees.pp;
    for (int64_t samples : SampleCounts(at.of.batch, degrees.dp)) {
      degrees.microbatches = at.of.batch / degrees.dp / samples;
      if (!at.of.stages && degrees.microbatches > 1) continue;
      for (const std::vector<int64_t>& layers : Layouts(at.model, degrees.pp)) {
        degrees.layers_per_stage = layers;
        attempt();
      }
    }
  }
  if (best) best->scheme = scheme.name;
  return best;
}

// The fastest plan that fits.
std::optional<Row> DeepSpeed(const Case& at) {
  SimOptions options = Options();
  options.stack.overlap_gradients = options.stack.overlap_transfers = false;
  SearchProblem problem = ProblemOf(at, 0);
  auto limit = static_cast<double>(MemoryLimit(problem));
  Degrees degrees = DegreesOf(at);
  degrees.zero = 1;
  std::optional<Row> best;
  for (degrees.tp = 2; degrees.tp <= kGpusPerMachine; ++degrees.tp) {
    if (kGpusPerMachine % degrees.tp != 0) continue;
    for (degrees.pp = 2; degrees.pp <= 16; degrees.pp *= 2) {
      if (at.devices % (degrees.tp * degrees.pp) != 0) continue;
      degrees.dp = at.devices / degrees.tp / degrees.pp;
      for (int64_t samples : SampleCounts(at.of.batch, degrees.dp)) {
        degrees.microbatches = at.of.batch / degrees.dp / samples;
        Plan plan = ExpertPlan(at.model, at.cluster, degrees);
        plan.bucket_bytes = kTogether;
        Keep(Simulated(at, plan, options, 0), limit, best);
      }
    }
  }
  if (best) best->scheme = "3-D";
  return best;
}

// `auto` without the tree search for unlike devices: all devices are alike, but the last node has fewer of them.
Proposals ProposeAlike(const SearchTask& task) { return ProposeExact(task, nullptr); }

std::optional<Row> Planned(const Case& at, double sparsity, double budget) {
  SearchTask problem = ProblemOf(at, sparsity);
  problem.effort.deadline = std::chrono::steady_clock::now() +
                            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(budget));
  SearchResult result = Search({"auto", "", ProposeAlike}, problem);
  if (!result.feasible()) return std::nullopt;
  Row row = Simulated(at, result.judged.front().plan, problem.sim, 0);
  row.scheme = sparsity > 0 ? "planner, pruned" : "planner, dense";
  return row;
}

std::string Line(const Row& row, const Row* dense) {
  const StepParts& parts = row.parts;
  std::string line =
      fmt::format("  {:<20} {:>4} {:>3} {:>5} {:>4} {:>4} x {:<3} {:>8.1f}", row.scheme, row.pp,
                  row.tp, row.dp, row.zero, row.microbatches, row.samples, row.memory / (1 << 30));
  if (!row.fits) return line + "  does not fit";
  line += fmt::format(" {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}", parts.work,
                      parts.messages, parts.bubble, parts.collectives, parts.communication(),
                      parts.step);
  if (dense == nullptr) return line;
  return line + fmt::format(" {:>+7.0f} % {:>7.2f}x",
                            100 * (parts.communication() / dense->parts.communication() - 1),
                            dense->parts.step / parts.step);
}

struct Args {
  std::vector<std::string> models;
  int64_t devices = 0;
  double budget = 10;
  bool no_planner = false;
};

std::vector<Row> Rows(const Case& at, const Args& args, bool planner) {
  std::vector<Row> rows;
  auto add = [&](std::optional<Row> row) {
    if (row) rows.push_back(std::move(*row));
  };
  add(AxoNN(at, {.name = "dense"}));
  if (at.of.stages) {
    add(AxoNN(at, {.name = "dense, replicas near", .near = true}));
    add(DeepSpeed(at));
    for (double slow : {kSlowLeast, kSlowMost}) {
      add(AxoNN(at, {.name = fmt::format("sparse kernels {}x", slow),
                     .sparsity = kSparsity,
                     .slow = slow,
                     .sparse_weights = true}));
    }
  }
  std::optional<Row> ours = AxoNN(at, {.name = "ours", .sparsity = kSparsity});
  add(ours);
  if (ours && ours->fits && at.of.stages) {
    add(AxoNN(at, {.name = "ours, more stages", .sparsity = kSparsity, .stages = ours->pp + 1}));
  }
  if (planner) {
    add(Planned(at, 0, args.budget));
    add(Planned(at, kSparsity, args.budget));
  }
  return rows;
}

// Null if the scheme does not fit.
const Row* Find(const std::vector<Row>& rows, std::string_view scheme) {
  auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.scheme == scheme; });
  return found == rows.end() || !found->fits ? nullptr : &*found;
}

// Prints the gains of pruning. Returns whether they reach the goals.
bool Gains(const Row& dense, const Row& ours) {
  const StepParts &before = dense.parts, &after = ours.parts;
  double less = 1 - after.communication() / before.communication();
  double speed = before.step / after.step;
  auto gib = [](const Row& row) { return row.memory * static_cast<double>(row.pp) / (1 << 30); };
  fmt::print(
      "  {} against dense (simulated): communication {:.0f} % less, with bubbles {:.0f} %; {:.2f} "
      "times as fast, a step {:.0f} % shorter; a replica takes at most {:.0f} GiB, not {:.0f}\n",
      ours.scheme, 100 * less, 100 * (1 - after.waits() / before.waits()), speed,
      100 * (1 - 1 / speed), gib(ours), gib(dense));
  return less >= kWantedCommunication && speed >= kWantedSpeed;
}

bool Reached(const std::vector<Row>& rows) {
  const Row *dense = Find(rows, "dense"), *ours = Find(rows, "ours");
  bool reached = dense != nullptr && ours != nullptr && Gains(*dense, *ours);
  if (const Row* more = Find(rows, "ours, more stages"); more != nullptr && dense != nullptr) {
    Gains(*dense, *more);
  }
  fmt::print("  wanted: communication {:.0f} % less and {:.2f} times as fast: {}\n",
             100 * kWantedCommunication, kWantedSpeed, reached ? "reached" : "NOT REACHED");
  return reached;
}

// Returns false if this case does not reach its goals.
bool Print(const BenchModel& bench, const Model& model, int64_t devices, const Args& args,
           bool planner) {
  Case at{bench, model, Summit(devices), devices};
  fmt::print("{}, batch {}, {} devices\n", bench.name, bench.batch, devices);
  std::vector<Row> rows = Rows(at, args, planner && !args.no_planner);
  if (rows.empty()) {
    ThrowInput(
        "--devices {}: no replicas of stages on all of them share out a batch of {}: use a "
        "divisor of it",
        devices, bench.batch);
  }
  for (const Row& row : rows) fmt::print("{}\n", Line(row, Find(rows, "dense")));
  bool wanted = bench.name == std::string_view(kWantedModel) && devices == kWantedDevices;
  bool reached = !wanted || Reached(rows);
  std::fflush(stdout);
  return reached;
}

int Main(const Args& args) {
  fmt::print(
      "SIMULATED: nothing here was run. Seconds of a step, means of all devices; GiB of the "
      "fullest device; against dense at the right.\n"
      "Communication: messages between stages and collectives, where nothing hides them; bubbles "
      "are apart. Sparse kernels:\n"
      "as ours, and products with weights take 6 or 22 times as long (modelled, not measured "
      "here). More: bench/sparse.cc.\n"
      "  {:<20} {:>4} {:>3} {:>5} {:>4} {:>10} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} "
      "{:>8}\n",
      "", "pp", "tp", "dp", "zero", "micro", "memory", "work", "messages", "bubble", "collect.",
      "communic.", "step", "communic.", "speed");
  bool reached = true;
  for (const BenchModel& bench : Models()) {
    bool asked = std::find(args.models.begin(), args.models.end(), bench.name) != args.models.end();
    if (!args.models.empty() && !asked) continue;
    Model model = Analyse(BuildModel(fmt::format(
        "{}:{}batch={}", bench.name, bench.stages ? kKernels : std::string_view(), bench.batch)));
    std::vector<int64_t> counts = bench.devices;
    if (!bench.all && !asked) counts.resize(1);
    if (args.devices > 0) counts = {args.devices};
    for (int64_t devices : counts) {
      reached = Print(bench, model, devices, args, devices == counts.front()) && reached;
    }
  }
  return reached ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  heddle::Args args;
  CLI::App app("simulated gains of pruned models on V100s of Summit");
  std::vector<std::string> names;
  for (const heddle::BenchModel& model : heddle::Models()) names.emplace_back(model.name);
  app.add_option("models", args.models, "models to run (default: all)")
      ->check(CLI::IsMember(names));
  app.add_option("--devices", args.devices, "only this number of devices")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--budget", args.budget, "seconds for each plan that is searched for");
  app.add_flag("--no-planner", args.no_planner, "without the plans of the planner");
  return heddle::ParseAndRun(app, argc, argv, [&] { return heddle::Main(args); });
}
