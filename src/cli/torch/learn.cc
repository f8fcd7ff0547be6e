#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/shared_options.h"
#include "cluster/random_topology.h"
#include "cluster/topology.h"
#include "frontend/families/built_in.h"
#include "learn/file.h"
#include "learn/train.h"
#include "runtime/kernel_threads.h"

namespace heddle {
namespace {

struct LearnArgs {
  std::string output = "prior.safetensors";
  uint64_t seed = 0;
  int64_t rounds = 0;
  double minutes = 20;
  int64_t every = 10;
  bool json = false;
};

constexpr uint64_t kLessons =
    uint64_t{1} << 63;  // first seed of the topologies; benchmarks and tests use small seeds
constexpr uint64_t kHeldOut = uint64_t{1} << 62;
constexpr size_t kHeldOutLessons = 8;
constexpr int64_t kHeldOutPlayouts = 200;

// A random model of a few layers.
std::string RandomModelName(uint64_t seed) {
  uint64_t counter = 0;
  auto one_of = [&](std::initializer_list<int> list) {
    return list.begin()[RandomBelow(list.size(), seed, 5, counter++)];
  };
  std::string_view family = std::array<std::string_view, 8>{
      "gpt", "gpt", "bert", "llama", "vgg", "vgg", "resnet", "vit"}[RandomBelow(8, seed, 6, 0)];
  int batch = one_of({16, 24, 32, 48, 64, 96, 120, 192, 256, 480});
  if (family == "vgg") {
    return fmt::format("vgg:depth={},ffn={},classes={},batch={}", one_of({11, 13, 16, 19}),
                       one_of({1024, 2048, 4096, 8192}), one_of({10, 1000, 20000}), batch);
  }
  if (family == "resnet") {
    return fmt::format("resnet:depth=18,channels={},image={},classes={},batch={}",
                       one_of({32, 64, 96, 128}), one_of({64, 128, 224}),
                       one_of({10, 1000, 20000, 100000}), batch);
  }
  int width = one_of({256, 384, 512, 768, 1024, 1536, 2048, 3072});
  int layers = one_of({1, 2, 2, 3});
  if (family == "vit") {
    return fmt::format("vit:layers={},hidden={},heads=8,image={},classes={},batch={}", layers,
                       width, one_of({64, 128, 224}), one_of({10, 1000, 20000}), batch);
  }
  return fmt::format("{}:layers={},hidden={},heads=8{},seq={},vocab={},batch={}", family, layers,
                     width, family == "llama" ? fmt::format(",ffn={}", width * 3) : "",
                     one_of({8, 16, 32, 64, 128, 256}),
                     one_of({1000, 8000, 32000, 50000, 100000, 300000}), batch);
}

double ParameterBytes(const Graph& graph) {
  double bytes = 0;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kParameter) bytes += static_cast<double>(ByteCount(value.type));
  }
  return bytes;
}

// A lesson on unlike machines: random topologies are drawn until one has them.
Lesson LessonOf(uint64_t seed) {
  Graph graph = BuildModel(RandomModelName(seed));
  double bytes = ParameterBytes(graph);
  Cluster cluster = RandomTopology(seed, bytes);
  while (IsHomogeneous(cluster)) cluster = RandomTopology(++seed, bytes);
  return {Analyse(std::move(graph)), std::move(cluster)};
}

// Held-out problems: models and clusters that the network is not trained on. Measures the playouts until a plan is
// within 1 % of the best known one.
class HeldOut {
 public:
  HeldOut() {
    std::unique_ptr<Prior> uniform = UniformPrior();
    for (uint64_t seed = kHeldOut; contests_.size() < kHeldOutLessons; ++seed) {
      auto lesson = std::make_unique<Lesson>(LessonOf(seed));
      auto contest = std::make_unique<Contest>(*lesson);
      if (!contest->IsOpen()) continue;
      plain_.push_back(contest->Run(*uniform, 2 * kHeldOutPlayouts));
      lessons_.push_back(std::move(lesson));
      contests_.push_back(std::move(contest));
    }
  }

  struct Means {
    double network = 0, uniform = 0;
  };
  Means Measure(PriorNetwork network) {
    std::unique_ptr<Prior> prior = PriorOf(std::move(network));
    double log_network = 0, log_uniform = 0;
    for (size_t c = 0; c < contests_.size(); ++c) {
      TreeResult found = contests_[c]->Run(*prior, kHeldOutPlayouts);
      auto log = [&](const TreeResult& result) {
        return std::log(
            static_cast<double>(contests_[c]->PlayoutsToBest(result, 0.01, kHeldOutPlayouts)));
      };
      log_network += log(found);
      log_uniform += log(plain_[c]);
    }
    auto count = static_cast<double>(contests_.size());
    return {std::exp(log_network / count), std::exp(log_uniform / count)};
  }

 private:
  std::vector<std::unique_ptr<Lesson>> lessons_;
  std::vector<std::unique_ptr<Contest>> contests_;
  std::vector<TreeResult> plain_;
};

void RunLearn(const LearnArgs& args) {
  { AtomicFile checked(args.output); }  // fails now if the file cannot be written
  SetKernelThreads(1);
  auto begin = std::chrono::steady_clock::now();
  auto minutes = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 60;
  };
  std::optional<Progress> progress;
  progress.emplace("learning", args.rounds);
  progress->Update(0, "held-out problems, uniform prior");
  HeldOut held_out;
  HeldOut::Means means;
  RoundReport last;
  NetworkOrigin origin{args.seed, ""};
  auto save = [&](PriorNetwork& network) {
    origin.made_by = fmt::format("heddle learn --seed {} --rounds {}", args.seed, last.round);
    SaveNetwork(args.output, network, origin);
  };
  auto measure = [&](PriorNetwork& network) {
    means = held_out.Measure(network);
    save(network);
    if (args.json) return;
    fmt::print(
        "round {:>4}, {:>5.1f} min, {:>6} examples, loss {:.3f}; held out: {:.1f} playouts to the "
        "best, {:.1f} with the uniform prior\n",
        last.round, minutes(), last.examples, last.loss, means.network, means.uniform);
    std::fflush(stdout);
  };
  LearnOptions options;
  options.seed = args.seed;
  options.rounds = args.rounds > 0 ? args.rounds : INT64_MAX;
  options.after = [&](const RoundReport& report, PriorNetwork& network) {
    last = report;
    progress->Update(report.round,
                     fmt::format("{} examples, loss {:.3f}", report.examples, report.loss));
    if (report.round % args.every == 0) measure(network);
    return args.rounds > 0 || minutes() < args.minutes;
  };
  PriorNetwork network =
      LearnPrior([](uint64_t seed) { return LessonOf(seed | kLessons); }, options);
  progress.reset();
  if (last.round % args.every != 0) measure(network);
  if (args.json) {
    PrintJson({{"output", args.output},
               {"seed", args.seed},
               {"rounds", last.round},
               {"examples", last.examples},
               {"loss", last.loss},
               {"held_out_playouts", means.network},
               {"held_out_playouts_uniform", means.uniform},
               {"seconds", 60 * minutes()}});
    return;
  }
  fmt::print("written to {}: give it to plan as --prior {}; '{}' reproduces it\n", args.output,
             args.output, origin.made_by);
}

}  // namespace

void AddLearn(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "learn", "train the network that guides the search on clusters of unlike devices or links");
  auto args = std::make_shared<LearnArgs>();
  command->add_option("-o,--output", args->output, "the file to write")->capture_default_str();
  AddSeedOption(*command, args->seed, "of weights, models, clusters and games");
  CLI::Option* rounds = command
                            ->add_option("--rounds", args->rounds,
                                         "number of rounds; the same rounds give the same file")
                            ->transform(IntegerIn(1, int64_t{1} << 30));
  command->add_option("--minutes", args->minutes, "minutes to train, instead of --rounds")
      ->transform(RealIn(0, 1e5))
      ->capture_default_str()
      ->excludes(rounds);
  command
      ->add_option("--every", args->every,
                   "rounds between measurements, each of which writes the file")
      ->transform(IntegerIn(1, int64_t{1} << 30))
      ->capture_default_str();
  AddJsonFlag(*command, args->json);
  command->footer(
      "Learns from games on random models and clusters of unlike machines. It is measured on "
      "some\n"
      "it does not learn from: playouts of the tree search until a plan is within 1 % of the best\n"
      "known, in the geometric mean.\n\n"
      "Examples:\n"
      "  heddle learn --minutes 20 -o mine.safetensors\n"
      "  heddle plan vgg19 --cluster mixed.yaml --batch 120 --prior mine.safetensors");
  command->callback([args] { RunLearn(*args); });
}

}  // namespace heddle
