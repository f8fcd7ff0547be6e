#include "validate/case_studies.h"

#include <fmt/format.h>

#include "cluster/load.h"
#include "cluster/yaml.h"
#include "frontend/load.h"
#include "plan/expert.h"
#include "plan/precision.h"
#include "program/lower.h"
#include "sim/simulate.h"

namespace heddle {
namespace {

struct Study {
  CaseStudy shown;
  std::string model;
  std::string cluster;  // a preset or YAML text
  std::string stack;
  Degrees degrees;
};

constexpr std::string_view kDropout =
    ",attention=unfused,dropout=0.1,attention_dropout=0.1,position=learned";

std::string Gpt(int layers, int hidden, int heads, int seq, int batch) {
  return fmt::format("gpt:layers={},hidden={},heads={},seq={},vocab=51200,batch={}{}", layers,
                     hidden, heads, seq, batch, kDropout);
}

// Pods are connected by 81 Tb/s in total, as PaLM reports, of which each chip has an equal part.
std::string Pods(std::string_view slice, int count) {
  return fmt::format(
      "link: {{name: dcn, bandwidth: 1.65 GB/s, latency: 20 us}}\n"
      "nodes:\n  - {{preset: \"{}\", count: {}}}\n",
      slice, count);
}

Cluster ReadCluster(const std::string& text) {
  return text.find('\n') == std::string::npos ? LoadCluster(text)
                                              : ClusterFromYaml(text, "case study");
}

std::vector<Study> Studies() {
  std::vector<Study> all;
  all.push_back({{"Megatron-LM 2020", "8.3B", "512 V100", "tp 8, pp 1, dp 64", "2.42 s",
                  "24 % (HW)", "step from 15.1 PFLOP/s; nodes of 8 for those of 16"},
                 Gpt(72, 3072, 24, 1024, 512),
                 "dgx-v100:64",
                 "megatron 2020",
                 {.dp = 64,
                  .tp = 8,
                  .recompute = RecomputePolicy::kFull,
                  .precision = DType::kF16,
                  .gradients = DType::kF16}});
  all.push_back({{"Megatron 2021", "1T", "3072 A100", "tp 8, pp 64, dp 6", "102.6 s", "52 % (HW)",
                  "step from 163 TFLOP/s"},
                 Gpt(128, 25600, 160, 2048, 3072),
                 "dgx-a100:384",
                 "megatron 2021",
                 {.dp = 6,
                  .tp = 8,
                  .pp = 64,
                  .microbatches = 512,
                  .recompute = RecomputePolicy::kFull,
                  .precision = DType::kF16,
                  .gradients = DType::kF16}});
  all.push_back({{"Megatron-Turing NLG", "530B", "3360 A100", "tp 8, pp 35, dp 12", "44.4 s",
                  "36.2 % (HW)", "ZeRO 1 assumed"},
                 Gpt(105, 20480, 128, 2048, 1920),
                 "dgx-a100:420",
                 "megatron-deepspeed 2022",
                 {.dp = 12,
                  .tp = 8,
                  .pp = 35,
                  .microbatches = 160,
                  .zero = 1,
                  .recompute = RecomputePolicy::kFull,
                  .precision = DType::kBF16}});
  all.push_back({{"Korthikanti et al.", "1T", "512 A100", "tp 8 + sp, pp 64, dp 1", "71.5 s",
                  "56.3 % (model)", "selective recomputation"},
                 Gpt(128, 25600, 160, 2048, 512),
                 "dgx-a100:64",
                 "megatron 2022",
                 {.dp = 1,
                  .tp = 8,
                  .pp = 64,
                  .sp = true,
                  .microbatches = 512,
                  .recompute = RecomputePolicy::kSelective,
                  .precision = DType::kF16,
                  .gradients = DType::kF16}});
  all.push_back({{"Gopher", "280B", "4 x 1024 TPUv3", "tp 64, pp 4, dp 32", "-", "32.5 % (model)",
                  "degrees inside a pod and micro-batches are ours"},
                 "gopher-280b:batch=3072",
                 Pods("tpu-v3:1024", 4),
                 "unknown",
                 {.dp = 32,
                  .tp = 64,
                  .pp = 4,
                  .sp = true,
                  .microbatches = 48,
                  .zero = 1,
                  .recompute = RecomputePolicy::kFull,
                  .precision = DType::kBF16}});
  all.push_back({{"PaLM", "540B", "2 x 3072 TPUv4", "tp 12, pp 1, dp 512 (ZeRO 3 over 256)", "-",
                  "46.2 % (model)", "recomputation in full"},
                 "palm-540b:batch=2048",
                 Pods("tpu-v4:16x16x12", 2),
                 "unknown",
                 {.dp = 512,
                  .tp = 12,
                  .sp = true,
                  .zero = 3,
                  .recompute = RecomputePolicy::kFull,
                  .precision = DType::kBF16,
                  .zero_ranks = 256}});
  return all;
}

CaseStudy RunStudy(const Study& study) {
  CaseStudy out = study.shown;
  Model model = Analyse(LoadModel(study.model));
  Cluster cluster = ReadCluster(study.cluster);
  Plan plan = ExpertPlan(model, cluster, study.degrees);
  plan.bucket_bytes =
      int64_t{1} << 40;  // all gradients are reduced together after the last backward
  SimOptions sim;
  sim.stack = FindStackCosts(study.stack);
  SimResult result = Simulate(Lower(model, plan), cluster, sim);
  ModelSize size = Measure(model.graph, model.rules);
  double flops = size.work.forward.contraction_flops + size.work.backward.contraction_flops +
                 size.work.weight.contraction_flops;
  double peak =
      PeakRate(cluster.device_types.front().peak, plan.precision.compute, plan.precision.products) *
      static_cast<double>(DeviceCount(plan)) * result.step_seconds;
  out.step_seconds = result.step_seconds;
  out.mfu = flops / peak;
  out.hfu = (flops + result.recomputed_flops) / peak;
  return out;
}

}  // namespace

std::vector<CaseStudy> RunCaseStudies() {
  std::vector<CaseStudy> out;
  for (const Study& study : Studies()) out.push_back(RunStudy(study));
  return out;
}

std::string CaseStudiesPage() {
  std::string page =
      "# Case studies\n\n"
      "The large language models of the survey of model parallelism (Brakel, Odyurt and "
      "Varbanescu, 2024), in their\npublished configuration, simulated. This page is the output of "
      "`heddle validate --case-studies docs/case-studies.md`.\n\n"
      "MFU counts the FLOPs of forward and backward once. HFU also counts recomputation (of causal "
      "attention, the half that a\nfused kernel computes). \"(HW)\" and \"(model)\" say which of "
      "the two was published. Constants for TPUs are defaults that\nare not fitted: Gopher and "
      "PaLM are simulated with the same fractions of peak rates as other devices.\n\n"
      "| system | parameters | devices | degrees | published step | simulated step | published "
      "use | simulated MFU | simulated HFU | remark |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const CaseStudy& at : RunCaseStudies()) {
    page += fmt::format("| {} | {} | {} | {} | {} | {:.2f} s | {} | {:.1f} % | {:.1f} % | {} |\n",
                        at.system, at.parameters, at.devices, at.degrees, at.published_step,
                        at.step_seconds, at.published_use, 100 * at.mfu, 100 * at.hfu, at.remark);
  }
  return page;
}

}  // namespace heddle
