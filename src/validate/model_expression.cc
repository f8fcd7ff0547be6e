#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "validate/configure.h"

namespace heddle {
namespace {

using Words = std::vector<std::string>;

void Set(Words& words, std::string_view key, int64_t value) {
  words.push_back(fmt::format("{}={}", key, value));
}
void Set(Words& words, std::string_view key, std::string_view value) {
  words.push_back(fmt::format("{}={}", key, value));
}

std::string_view MlpOf(const PublishedModel& model) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gelu_2mat", "gelu"},
      {"relu_2mat", "relu"},
      {"squared_relu_2mat", "squared_relu"},
      {"swiglu_3mat", "swiglu"},
      {"geglu_3mat", "geglu"}};
  std::vector<std::string_view> known;
  for (const auto& [published, ours] : kNames) {
    if (model.mlp == published) return ours;
    known.push_back(published);
  }
  ThrowInput("model.mlp: \"{}\": {}", model.mlp, DidYouMean(model.mlp, known));
}

// Reads texts such as "rope on 25% of head_dim" and "rope (MLA)". null means learned positions.
void SetPosition(const PublishedModel& model, Words& words) {
  std::string position = model.position.value_or("learned");
  if (position.starts_with("rope")) {
    Set(words, "position", "rope");
    if (position.find("25%") != std::string::npos)
      Set(words, "rotary_dim", std::max<int64_t>(2, model.head_dim / 4));
    if (position.find("MLA") != std::string::npos) Set(words, "attention", "mla");
  } else if (position == "learned" || position == "alibi" || position == "none") {
    Set(words, "position", position);
  } else {
    ThrowInput("model.position: \"{}\": expected learned, rope, alibi or none", position);
  }
}

// Groups of 64 tokens with a capacity of exactly the mean tokens per expert have the FLOPs of a dropless layer.
void SetExperts(const PublishedExperts& moe, Words& words) {
  Set(words, "experts", moe.experts);
  Set(words, "top_k", moe.top_k);
  Set(words, "expert_ffn", moe.expert_ffn);
  Set(words, "shared_experts", moe.shared_experts);
  Set(words, "dense_layers", moe.dense_layers);
  Set(words, "group", int64_t{64});
  Set(words, "capacity_factor", int64_t{1});
}

}  // namespace

// Settings that the run does not state are those of the stack.
void SetAttention(const PublishedRun& run, const Stack& stack, Words& words) {
  const std::string said = run.attention_impl.value_or("");
  bool fused = said.find("lash") != std::string::npos;
  if (stack.unfused_attention && !fused) Set(words, "attention", "unfused");
  if (!stack.dropout) return;
  Set(words, "dropout", "0.1");
  if (!fused) Set(words, "attention_dropout", "0.1");
}

std::string ModelExpression(const PublishedRun& run, const Stack& stack, int64_t batch) {
  const PublishedModel& model = run.model;
  // Models of the LLaMA family, including those with experts, have RMS norms and no biases.
  bool llama = MlpOf(model) == "swiglu";
  Words words;
  Set(words, "layers", model.layers);
  Set(words, "hidden", model.hidden);
  Set(words, "heads", model.heads);
  if (model.kv_heads != model.heads) Set(words, "kv_heads", model.kv_heads);
  if (model.head_dim * model.heads != model.hidden) Set(words, "head_dim", model.head_dim);
  Set(words, "ffn", model.ffn);
  Set(words, "vocab", model.vocab);
  Set(words, "seq", model.seq);
  Set(words, "batch", batch);
  SetPosition(model, words);
  SetAttention(run, stack, words);
  Set(words, "mlp", MlpOf(model));
  Set(words, "tied", int64_t{model.tied_embeddings});
  if (llama) {
    Set(words, "norm", "rmsnorm");
    Set(words, "bias", int64_t{0});
    Set(words, "names", "llama");
  } else if (run.family == "mpt") {
    Set(words, "bias", int64_t{0});
    Set(words, "norm_bias", int64_t{0});
  } else if (run.family == "bloom") {
    Set(words, "qkv", "interleaved");
    Set(words, "names", "bloom");
  } else if (run.family == "gpt-neox") {
    Set(words, "qkv", "interleaved");
    Set(words, "two_norms", int64_t{1});
    Set(words, "names", "neox");
  } else if (model.mlp == "squared_relu_2mat") {  // Nemotron
    Set(words, "bias", int64_t{0});
    Set(words, "names", "llama");
  }
  if (model.parallel_attention_mlp) Set(words, "parallel", int64_t{1});
  if (model.embedding_layernorm) Set(words, "embedding_norm", int64_t{1});
  if (model.moe) SetExperts(*model.moe, words);
  // Further keys that depend on the stack belong here.
  return fmt::format("{}:{}", model.moe ? "moe" : llama ? "llama" : "gpt", fmt::join(words, ","));
}

}  // namespace heddle
