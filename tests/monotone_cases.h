// Problems on which the search must be monotone: a constraint never gives a faster plan than the
// search without it.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "plan/expert.h"
#include "search/searcher.h"

namespace heddle {

struct MonotoneCase {
  std::string model;  // a built-in expression
  std::string cluster;
  int64_t batch = 1;
  double memory_gb =
      0;  // --memory-limit in GB (10^9 bytes), so that memory is scarce; 0: what the device has
  double reserve = 0.06;
  std::vector<FixedDegrees> constraints = {};  // always tried, in addition to drawn ones
  std::vector<Degrees> experts = {};           // expert's plans that are always tried
  bool tree = false;                           // also with --searcher mcts
  bool solvers = false;  // also with --searcher ilp and brute, for tiny models
  int parts = 1;         // number of tests that share the problem's searches
};

// One of the tests of a problem.
struct MonotonePart {
  MonotoneCase problem;
  size_t index = 0;
  int part = 0;
};

// The test's name: "p07_gpt3_13b_dgx_a100_1_b56", with the index in the list of cases.
inline std::string NameOf(const MonotoneCase& at, size_t index) {
  std::string text =
      at.model.substr(0, at.model.find(':')) + "_" + at.cluster + "_b" + std::to_string(at.batch);
  if (at.memory_gb > 0) text += "_" + std::to_string(static_cast<int>(at.memory_gb)) + "gb";
  for (char& c : text) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return (index < 10 ? "p0" : "p") + std::to_string(index) + "_" + text;
}

inline std::string NameOf(const MonotonePart& at) {
  std::string name = NameOf(at.problem, at.index);
  return at.problem.parts > 1 ? name + "_part" + std::to_string(at.part) : name;
}

inline std::vector<MonotonePart> PartsOf(const std::vector<MonotoneCase>& cases) {
  std::vector<MonotonePart> parts;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (int part = 0; part < cases[i].parts; ++part) parts.push_back({cases[i], i, part});
  }
  return parts;
}

inline void PrintTo(const MonotonePart& at, std::ostream* out) { *out << NameOf(at); }
inline void PrintTo(const MonotoneCase& at, std::ostream* out) {
  *out << at.model << " on " << at.cluster << ", batch " << at.batch;
}

// Problems on which a constrained search or another searcher once beat `auto`, with the constraints
// that did.
inline std::vector<MonotoneCase> OnceBeaten() {
  const std::string moe_dense =
      "moe:layers=4,dense_layers=2,hidden=2048,heads=16,ffn=4096,expert_ffn=8192,vocab=512,"
      "seq=1024,position=rope,norm=rmsnorm,mlp=swiglu,bias=0,causal=1,experts=4,top_k=2,group=64,"
      "capacity_factor=1";
  FixedDegrees narrow{.dp = 2, .tp = 1, .pp = 1, .microbatches = 16, .zero = 1};
  narrow.offload = Offload::kNone;
  FixedDegrees three{.dp = 1, .tp = 1, .pp = 3, .microbatches = 64};
  three.schedule = "1f1b";
  three.offload = Offload::kNone;
  FixedDegrees chunked{.tp = 8, .pp = 16, .microbatches = 16};
  chunked.schedule = "interleaved";
  Degrees context{.dp = 64, .tp = 8, .pp = 16, .cp = 2, .sp = true, .microbatches = 32};
  context.schedule = "interleaved";
  context.chunks = 8;
  context.zero = 1;
  FixedDegrees selective;
  selective.recompute = RecomputePolicy::kSelective;
  return {
      {"gpt3-6.7b", "dgx-h100:1", 4096, 0, 0.06, {{.pp = 1, .microbatches = 128}}},
      {"gpt2-large", "tpu-v4:1", 480, 0, 0.06, {{.microbatches = 60}}},
      {"gpt3-2.7b", "dgx-h100:1", 32, 41, 0, {narrow}},
      {moe_dense, "dgx-h100:1", 128, 0, 0.06, {three}},
      {"deepseek-v3", "dgx-h100:64", 2048, 0, 0.06, {{.pp = 16}}},
      {"resnet101", "dgx-a100:1", 64, 0, 0.06, {{.tp = 8, .pp = 1}}},
      {"t5-large", "dgx-a100:2", 256, 0, 0.06, {selective}},
      {"llama3-405b", "dgx-h100:128", 1024},
      {"llama3-405b", "dgx-h100:2048", 2048, 0, 0.06, {chunked}, {context}},
  };
}

inline std::vector<MonotoneCase> MonotoneCases() {
  std::vector<MonotoneCase> cases = OnceBeaten();
  const std::vector<MonotoneCase> others = {
      // Dense decoders.
      {"gpt2", "local:4", 8},
      {"gpt2-xl", "1080tix2:2", 16},
      {"gpt2-medium", "rtx3090:2", 24, 8},
      {"gpt3-1.3b", "dgx-v100:4", 96, 6},
      {"gpt3-2.7b", "dgx-h100:1", 96, 24},
      {"gpt3-6.7b", "dgx-v100:4", 64},
      {"gpt3-6.7b", "dgx-h100:1", 56, 24},
      {"gpt3-13b", "dgx-a100:1", 56},
      {"gpt3-13b", "dgx-h100:4", 480, 32},
      {"gpt3-175b", "dgx-h100:128", 1536},
      {"gpt-neox-20b", "dgx-a100:8", 96},
      {"megatron-39b", "dgx-a100:64", 1536},
      {"llama-7b", "dgx-a100:1", 56},
      {"llama2-13b", "dgx-h100:2", 480, 40},
      {"llama3-8b", "dgx-h100:1", 96, 40},
      {"llama3-70b", "dgx-h100:16", 512},
      {"llama2-70b", "dgx-a100:16", 480, 40},
      {"mistral-7b", "rtx4090:8", 64},
      {"qwen2-7b", "dgx-h100:2", 128},
      // Encoders.
      {"bert-large", "dgx-v100:4", 4096},
      {"bert-base", "1080tix2:2", 96, 4},
      {"bert-large", "dgx-a100:1", 256, 6},
      {"vit-large", "dgx-a100:2", 480, 3},
      {"vit-huge", "dgx-v100:1", 96, 7},
      {"vit-base", "local:4", 8},
      // Mixtures of experts.
      {"mixtral-8x7b", "dgx-h100:8", 256},
      {"mixtral-8x7b", "dgx-a100:4", 96},
      {"qwen3-30b-a3b", "dgx-h100:4", 128, 40},
      {"qwen3-235b-a22b", "dgx-h100:64", 1024},
      {"moe-16e", "dgx-v100:4", 96},
      {"moe-16e", "dgx-a100:1", 64, 10},
      {"moe:layers=6,moe_every=2,hidden=1024,heads=16,experts=8,seq=512,vocab=1024", "summit:2",
       480},
      // Encoder and decoder.
      {"t5-small", "tpu-v4:2x2x1", 56},
      {"t5-base", "dgx-h100:1", 96, 4},
      {"t5-3b", "dgx-a100:1", 64, 20},
      {"t5-11b", "dgx-h100:4", 128},
      // Convolutions.
      {"resnet50", "dgx-h100:1", 4096, 20},
      {"resnet18", "local:4", 32},
      {"vgg19", "1080tix2:2", 8},
      {"vgg16", "v100x4:2", 96},
      {"inception_v3", "dgx-v100:1", 480, 6},
      {"wide-resnet-101", "dgx-a100:1", 1536, 20},
      // Tiny models, for slow searchers.
      {"gpt:layers=2,hidden=256,heads=4,seq=128,vocab=512",
       "dgx-h100:1",
       16,
       0,
       0.06,
       {},
       {},
       true,
       true},
      {"moe:layers=2,hidden=256,heads=4,experts=4,seq=128,vocab=512",
       "v100x4:1",
       24,
       0,
       0.06,
       {},
       {},
       true,
       true},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  // Machines joined by slow links.
  cases.push_back({"llama-7b", "rtx3090:8", 64});
  cases.push_back({"bert-large", "rtx3090:4", 128});
  cases.push_back({"resnet50", "1080tix2:4", 64});
  cases.push_back({"gpt3-1.3b", "rtx4090:4", 48});
  // Equal plans with different names displace plans that could be improved.
  cases.push_back({"resnet:depth=50,classes=100000", "dgx-h100:8", 2048, 0, 0.06, {{.zero = 0}}});
  // Problems whose search is slow.
  for (MonotoneCase& at : cases) {
    bool large = at.model == "gpt3-175b" || at.model == "megatron-39b";
    bool larger = at.model == "deepseek-v3" || at.model == "qwen3-235b-a22b";
    at.parts = at.model == "llama3-405b" ? 6 : larger ? 4 : large ? 2 : 1;
  }
  return cases;
}

// Small models on few devices, for the quick tests.
inline std::vector<MonotoneCase> QuickMonotoneCases() {
  return {
      {"gpt:layers=4,hidden=1024,heads=16,seq=512,vocab=8192", "dgx-h100:1", 48},
      {"llama:layers=4,hidden=1024,heads=16,kv_heads=4,seq=512,vocab=8192", "dgx-a100:2", 56, 2},
      {"moe:layers=4,dense_layers=2,hidden=512,heads=8,experts=8,seq=256,vocab=512", "summit:1",
       24},
      {"t5:layers=2,hidden=512,heads=8,seq=256,vocab=4096", "v100x4:1", 32, 1},
      {"resnet:depth=18,image=64", "1080tix2:2", 32},
  };
}

}  // namespace heddle
