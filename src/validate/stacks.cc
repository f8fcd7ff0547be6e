#include "validate/stacks.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultBucket = 32 * kMiB;

// Megatron keeps fp16 gradients in fp16 and accumulates bf16 gradients in fp32 (its arguments.py requires it); until
// 2023 it reduced them in one buffer after the last backward. DeepSpeed's pipeline engine reduces after the last
// backward, too: fp16 in fp16, bf16 in fp32 (its bf16 optimizer). FSDP reduces one layer at a time, embedding and head
// separately, as ZeRO 3 does here with any bucket size, in fp32 unless the run says "PURE"; fms-fsdp's policy is bf16
// throughout. NeMo's distributed Adam syncs bf16 in buckets of 400 MB. llm.c keeps gradients in bf16 and reduces layer
// by layer, nanoGPT is PyTorch's DDP (fp32 parameters under autocast, buckets of 25 MB). Alpa reduces once, after the
// last micro-batch.
constexpr Stack kStacks[] = {
    {"unknown", GradientType::kF32UnlessF16, kDefaultBucket},
    {"megatron 2020", GradientType::kF32UnlessF16, kAllGradients, true, true},
    {"megatron 2021", GradientType::kF32UnlessF16, kAllGradients, true, true},
    {"megatron 2022", GradientType::kF32UnlessF16, kAllGradients, true, true},
    {"deepspeed zero3 2021", GradientType::kAsCompute, kDefaultBucket, true, true},
    {"megatron-deepspeed 2022", GradientType::kF32UnlessF16, kAllGradients, true, true},
    {"gpt-neox 2022", GradientType::kF32UnlessF16, kAllGradients, true, false},
    {"megascale 2023", GradientType::kF32UnlessF16, kAllGradients},
    {"megatron-core 2024", GradientType::kF32, 400 * kMiB},
    {"megatron-bridge 2025", GradientType::kF32, 400 * kMiB},
    {"nemo 2023", GradientType::kAsCompute, 400 * kMiB},
    {"zero-bubble 2023", GradientType::kF32UnlessF16, kAllGradients, true, true},
    {"torchtitan eager", GradientType::kF32, kDefaultBucket},
    {"torchtitan compile", GradientType::kF32, kDefaultBucket},
    {"llama3 2024", GradientType::kF32, kDefaultBucket},
    {"fsdp ibm", GradientType::kAsCompute, kDefaultBucket},
    {"llm-foundry", GradientType::kF32, kDefaultBucket},
    {"llm.c", GradientType::kAsCompute, kDefaultBucket},
    {"nanogpt", GradientType::kF32, 25 * kMiB},
    {"alpa", GradientType::kAsCompute, kAllGradients, true, false},
};

// The first matching line counts. A line matches if it has the source of the run and its word, if any, is in the notes
// or the sharding of the run.
struct SourceStack {
  std::string_view source_id;
  std::string_view says;
  std::string_view stack;
};
constexpr SourceStack kSources[] = {
    {"megatron-readme-2020", "", "megatron 2020"},
    {"narayanan2021-table1", "", "megatron 2021"},
    {"narayanan2021-table2", "zero3", "deepspeed zero3 2021"},
    {"narayanan2021-table2", "", "megatron 2021"},
    {"megatron-readme-gpt3-example", "", "megatron 2021"},
    {"korthikanti2022-table5", "", "megatron 2022"},
    {"korthikanti2022-section6", "", "megatron 2022"},
    {"smith2022-mtnlg", "", "megatron-deepspeed 2022"},
    {"bloom-tr11", "", "megatron-deepspeed 2022"},
    {"bloom-tr11-sweep", "", "megatron-deepspeed 2022"},
    {"black2022-neox20b", "", "gpt-neox 2022"},
    {"biderman2023-pythia", "", "gpt-neox 2022"},
    {"zeng2022-glm130b", "", "megatron-deepspeed 2022"},
    {"jiang2024-megascale-table2", "", "megascale 2023"},
    {"jiang2024-megascale-fig9", "", "megascale 2023"},
    {"megatron-core-readme-h100", "", "megatron-core 2024"},
    {"nvidia-nemo-launcher", "", "nemo 2023"},
    {"nvidia-megatron-bridge", "", "megatron-bridge 2025"},
    {"qi2024-zero-bubble", "", "zero-bubble 2023"},
    {"torchtitan", "torch.compile on", "torchtitan compile"},
    {"torchtitan", "", "torchtitan eager"},
    {"torchtitan-2024-a100", "", "torchtitan eager"},
    {"llama3-2024-table4", "", "llama3 2024"},
    {"ibm-fms-fsdp", "", "fsdp ibm"},
    {"mosaic-llm-foundry", "", "llm-foundry"},
    {"karpathy-llmc", "", "llm.c"},
    {"karpathy-nanogpt", "", "nanogpt"},
    {"alpa-readme", "", "alpa"},
};

const Stack& Named(std::string_view name) {
  const auto* found = std::find_if(std::begin(kStacks), std::end(kStacks),
                                   [&](const Stack& stack) { return stack.name == name; });
  HEDDLE_CHECK(found != std::end(kStacks), "no stack {}", name);
  return *found;
}

bool Says(const PublishedRun& run, std::string_view word) {
  return run.notes.find(word) != std::string::npos ||
         (run.sharding && run.sharding->find(word) != std::string::npos);
}

}  // namespace

std::span<const Stack> Stacks() { return kStacks; }

const Stack& StackOf(const PublishedRun& run) {
  for (const SourceStack& line : kSources) {
    if (line.source_id == run.source_id && Says(run, line.says)) return Named(line.stack);
  }
  return kStacks[0];
}

}  // namespace heddle
