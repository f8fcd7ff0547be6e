#include "validate/configure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked_math.h"
#include "base/error.h"
#include "frontend/load.h"
#include "plan/expert.h"

namespace heddle {
namespace {

bool Says(const std::optional<std::string>& text, std::string_view word) {
  return text && text->find(word) != std::string::npos;
}

struct Recomputation {
  RecomputePolicy policy = RecomputePolicy::kNone;
  int skip = 0;  // every skip-th layer is not recomputed; 0: all are recomputed
};

Recomputation ReadRecompute(const std::string& text, std::vector<std::string>& remarks) {
  if (text.starts_with("none")) return {RecomputePolicy::kNone};
  if (text.starts_with("full")) return {RecomputePolicy::kFull};
  if (text.starts_with("selective: attention core")) return {RecomputePolicy::kSelective};
  if (text.starts_with("selective per operator")) {
    remarks.push_back(
        fmt::format("recompute \"{}\" is planned as two layers of three in full", text));
    return {RecomputePolicy::kFull, 3};
  }
  if (text.starts_with("selective per layer")) {
    remarks.push_back(
        fmt::format("recompute \"{}\" is planned as every second layer in full", text));
    return {RecomputePolicy::kFull, 2};
  }
  ThrowInput(
      "recompute: \"{}\": expected it to begin with none, full, selective: attention core, "
      "selective per operator or selective per layer",
      text);
}

void ReadSharding(const PublishedRun& run, Degrees& degrees) {
  const std::string& text = *run.sharding;
  if (Says(text, "HSDP")) {
    degrees.zero = 3;
    degrees.zero_ranks = std::gcd(run.hardware.gpus_per_node, degrees.dp);
  } else if (Says(text, "zero3")) {
    degrees.zero = 3;
  } else if (Says(text, "zero2")) {
    degrees.zero = 2;
  } else if (Says(text, "zero1") || Says(text, "distributed optimizer")) {
    degrees.zero = 1;
  } else if (!text.starts_with("none")) {
    ThrowInput("sharding: \"{}\": expected none, or one that names zero1, zero2, zero3 or HSDP",
               text);
  }
}

void ReadSchedule(const PublishedRun& run, Degrees& degrees, std::vector<std::string>& remarks) {
  const std::string& kind = run.schedule->kind;
  int64_t chunks = run.schedule->virtual_stages.value_or(1);
  if (degrees.pp == 1) return;
  if (!run.schedule->virtual_stages)
    remarks.push_back("the number of virtual stages is not published: 1 is assumed");
  if (kind.starts_with("zero bubble") && Says(kind, "1p")) {
    degrees.schedule = "zb-h1";
  } else if (kind.starts_with("zero bubble") && Says(kind, "2p")) {
    degrees.schedule = "zb";
  } else if (kind.starts_with("interleaved") || (kind.starts_with("1F1B") && chunks > 1)) {
    degrees.schedule = chunks > 1 ? "interleaved" : "1f1b";
    degrees.chunks = static_cast<int>(chunks);
  } else if (!kind.starts_with("1F1B")) {
    ThrowInput(
        "schedule.kind: \"{}\": expected it to begin with 1F1B, interleaved or zero bubble (with "
        "1p or 2p)",
        kind);
  }
}

void ReadPrecision(const PublishedRun& run, const Stack& stack, Degrees& degrees) {
  const std::string& text = run.precision;
  if (Says(text, "fp8") || Says(text, "float8")) {
    degrees.precision = DType::kBF16;
    degrees.products = Products::kFp8;
  } else if (text.starts_with("bf16")) {
    degrees.precision = DType::kBF16;
  } else if (text.starts_with("fp16")) {
    degrees.precision = DType::kF16;
  } else if (!text.starts_with("fp32")) {
    ThrowInput("precision: \"{}\": expected it to begin with fp32, fp16 or bf16, or to name fp8",
               text);
  }
  bool as_compute =
      stack.gradients == GradientType::kAsCompute ||
      (stack.gradients == GradientType::kF32UnlessF16 && degrees.precision == DType::kF16);
  if (Says(text, "PURE")) as_compute = true;
  if (Says(run.sharding, "fp32 gradient") || Says(run.notes, "fp32 gradient")) as_compute = false;
  degrees.gradients = as_compute ? degrees.precision : DType::kF32;
}

// Reads the batch and sets the micro-batches. If their number is not whole, it is rounded.
int64_t ReadBatch(const PublishedRun& run, Degrees& degrees, std::vector<std::string>& remarks) {
  int64_t samples = CheckedMul(*run.batch.micro_batch, degrees.dp, "micro_batch x parallel.dp");
  double count = static_cast<double>(*run.batch.global_batch) / static_cast<double>(samples);
  degrees.microbatches = std::max<int64_t>(1, std::llround(count));
  int64_t batch = CheckedMul(samples, degrees.microbatches, "the batch");
  if (batch != *run.batch.global_batch) {
    remarks.push_back(
        fmt::format("a batch of {} is not a multiple of {} x dp {}: it is planned as {}",
                    *run.batch.global_batch, *run.batch.micro_batch, degrees.dp, batch));
  }
  return batch;
}

void ReadDegrees(const PublishedRun& run, Degrees& degrees, std::vector<std::string>& remarks) {
  degrees.dp = *run.parallel.dp;
  degrees.tp = *run.parallel.tp;
  degrees.pp = *run.parallel.pp;
  degrees.cp = *run.parallel.cp;
  degrees.sp = run.parallel.sequence_parallel && degrees.tp > 1;
  if (int64_t devices = DevicesOf(degrees); devices != run.hardware.gpus) {
    ThrowInput("gpus: {}: expected tp {} x pp {} x dp {} x cp {}, which is {}", run.hardware.gpus,
               degrees.tp, degrees.pp, degrees.dp, degrees.cp, devices);
  }
  degrees.ep = std::gcd(*run.parallel.ep, degrees.dp);
  if (degrees.ep != *run.parallel.ep) {
    remarks.push_back(
        fmt::format("experts distributed over {} devices are planned over {} of dp {}",
                    *run.parallel.ep, degrees.ep, degrees.dp));
  }
}

void SkipLayers(const Model& model, int skip, Plan& plan) {
  int64_t layer = 0;
  for (Stage& stage : plan.stages) {
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      if (model.blocks[static_cast<size_t>(b)].chain < 0) continue;
      if (++layer % skip == 0)
        stage.recompute[static_cast<size_t>(b - stage.first_block)] = RecomputePolicy::kNone;
    }
  }
}

void Fill(const PublishedRun& run, const Stack& stack, RunSetup& setup) {
  std::vector<std::string>& remarks = setup.remarks;
  if (&stack == &Stacks()[0])
    remarks.push_back(fmt::format("the software of source \"{}\" is unknown", run.source_id));
  if (run.model.sliding_window_attention || Says(run.model.attention, "sliding window"))
    remarks.push_back("sliding windows are planned as full attention");
  Degrees degrees;
  ReadDegrees(run, degrees, remarks);
  ReadSchedule(run, degrees, remarks);
  ReadSharding(run, degrees);
  ReadPrecision(run, stack, degrees);
  Recomputation recompute = ReadRecompute(*run.recompute, remarks);
  degrees.recompute = recompute.policy;
  int64_t batch = ReadBatch(run, degrees, remarks);
  std::string expression = ModelExpression(run, stack, batch);
  Cluster cluster = ClusterOf(run, remarks);
  setup.model = Analyse(LoadModel(expression));
  int64_t stages = CheckedMul(degrees.pp, degrees.chunks, "the number of stages");
  int64_t layers = LayersOf(setup.model);
  if (stages > layers + 2) {
    ThrowInput("parallel.pp: {}: with {} virtual stages each, there are {} stages for {} layers",
               degrees.pp, degrees.chunks, stages, layers);
  }
  if (stages > 1) degrees.layers_per_stage = LayerLayout(layers, stages);
  setup.plan = ExpertPlan(setup.model, cluster, degrees);
  setup.plan.model.source = std::move(expression);
  setup.plan.bucket_bytes = stack.bucket_bytes;
  if (recompute.skip > 0) SkipLayers(setup.model, recompute.skip, setup.plan);
}

}  // namespace

std::vector<int64_t> LayerLayout(int64_t layers, int64_t stages) {
  std::vector<int64_t> layout(static_cast<size_t>(stages), layers / stages);
  int64_t rest = layers % stages;
  if (rest == 0) return layout;
  if ((layers + 2) % stages == 0) {
    std::fill(layout.begin(), layout.end(), (layers + 2) / stages);
    --layout.front();
    --layout.back();
    return layout;
  }
  // Stages in the middle have one more layer each, because the first has the embedding and the last the head.
  auto first = static_cast<size_t>((stages - rest) / 2);
  for (size_t s = first; s < first + static_cast<size_t>(rest); ++s) ++layout[s];
  return layout;
}

RunSetup Configure(const PublishedRun& run) {
  RunSetup setup;
  const Stack& stack = StackOf(run);
  setup.stack = stack.name;
  if (std::vector<std::string> missing = MissingFields(run); !missing.empty()) {
    setup.reason = fmt::format("not published: {}", fmt::join(missing, ", "));
    return setup;
  }
  try {
    Fill(run, stack, setup);
  } catch (const InputError& error) {
    setup = {};
    setup.stack = stack.name;
    setup.reason = error.what();
  }
  return setup;
}

}  // namespace heddle
