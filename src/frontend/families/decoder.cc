#include "frontend/families/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;
constexpr double kRMSNormEpsilon = 1e-6;

void CheckDecoder(const DecoderConfig& c, bool head_dim_given) {
  if (!head_dim_given) RequireMultiple("hidden", c.hidden, "heads", c.attention.heads);
  RequireMultiple("heads", c.attention.heads, "kv_heads", c.attention.kv_heads);
  if (c.position.kind == "rope") {
    RequireMultiple("rotary_dim", c.position.rotary_dim, "2", 2);
    if (c.attention.kind != "mla" && c.position.rotary_dim > c.attention.head_dim) {
      ThrowInput("rotary_dim={} is more than head_dim={}", c.position.rotary_dim,
                 c.attention.head_dim);
    }
  }
  if (c.position.kind == "learned" && c.position.table_rows < c.seq) {
    ThrowInput("seq={} is more than positions={}", c.seq, c.position.table_rows);
  }
  if (c.attention.kind == "mla" && c.position.kind != "rope")
    ThrowInput("attention=mla needs position=rope");
  if (c.attention.kind != "unfused" && c.attention.dropout > 0) {
    ThrowInput("attention_dropout={} needs attention=unfused", c.attention.dropout);
  }
  if (c.attention.qkv == "interleaved" && c.attention.kv_heads != c.attention.heads) {
    ThrowInput("qkv=interleaved needs kv_heads={} to be heads={}", c.attention.kv_heads,
               c.attention.heads);
  }
  if (c.experts.count > 1) {
    if (c.experts.top_k > c.experts.count)
      ThrowInput("top_k={} is more than experts={}", c.experts.top_k, c.experts.count);
    RequireMultiple("seq", c.seq, "group", c.experts.group);
  }
}

}  // namespace

std::vector<Key> DecoderKeys(const std::vector<KeyValue>& defaults) {
  std::vector<Key> keys = {
      IntKey("layers", 12, "number of layers", kMaxLayers),
      IntKey("hidden", 768, "width of the residual stream"),
      IntKey("heads", 12, "attention heads"),
      DerivedKey("kv_heads", "heads", "key and value heads: fewer is grouped-query, 1 multi-query"),
      DerivedKey("head_dim", "hidden / heads", "width of a head"),
      DerivedKey("ffn", "4 * hidden", "inner width of the mlp"),
      IntKey("vocab", 50257, "size of the vocabulary, including padding"),
      IntKey("seq", 1024, "tokens per sequence"),
      IntKey("batch", 8, "sequences"),
      ChoiceKey("position", "learned", {"learned", "rope", "alibi", "relative", "none"},
                "position encoding: learned table, rotary, linear bias (ALiBi), Transformer-XL's, "
                "or none"),
      DerivedKey("positions", "seq", "rows of a learned position table"),
      DerivedKey("rotary_dim", "head_dim", "part of a head that is rotated"),
      RealKey("rope_theta", "10000", 1, 1e18, "base of the rotary frequencies"),
      ChoiceKey("norm", "layernorm", {"layernorm", "rmsnorm"}, "normalisation"),
      RealKey("norm_eps", "1e-5 or 1e-6", 0, 1,
              "added to the variance in norms; the default of rmsnorm is 1e-6"),
      ChoiceKey(
          "mlp", "gelu",
          {"gelu", "gelu_erf", "relu", "squared_relu", "silu", "swiglu", "geglu", "geglu_erf"},
          "activation; gelu is its tanh approximation; swiglu and geglu have three matrices"),
      ChoiceKey("qkv", "fused", {"fused", "interleaved", "separate"},
                "projections: Q|K|V, per head q|k|v, or three"),
      ChoiceKey("attention", "full", {"full", "unfused", "mla"},
                "one fused op, separate products and softmax, or DeepSeek's latent attention"),
      IntKey("q_lora", 1536, "mla: width of the latent of queries"),
      IntKey("kv_lora", 512, "mla: width of the latent of keys and values"),
      IntKey("rope_head_dim", 64,
             "mla: width of the rotary part of a head, in addition to head_dim"),
      FlagKey("bias", true, "linear layers have biases"),
      DerivedFlag("qkv_bias", "bias", "the projections to q, k, v have biases"),
      DerivedFlag("out_bias", "bias", "the projection out of attention has a bias"),
      DerivedFlag("mlp_bias", "bias", "the linear layers of the mlp have biases"),
      FlagKey("norm_bias", true, "layer norms have biases"),
      FlagKey("qk_norm", false, "normalise queries and keys per head"),
      FlagKey("tied", true, "the head shares the token table"),
      FlagKey("causal", true, "tokens attend only to themselves and earlier tokens"),
      FlagKey("parallel", false, "attention and mlp read the same input and run in parallel"),
      FlagKey("two_norms", false, "parallel: the mlp has a norm of its own"),
      FlagKey("embedding_norm", false, "a norm after the embedding"),
      RealKey("dropout", "0", 0, 1, "after embedding, attention and mlp"),
      RealKey("embedding_dropout", "dropout", 0, 1, "after embedding"),
      RealKey("attention_dropout", "0", 0, 1, "unfused: dropout of the attention probabilities"),
      IntKey("experts", 1, "experts per layer; 1 is a plain mlp"),
      IntKey("top_k", 2, "experts per token"),
      DerivedKey("expert_ffn", "ffn", "inner width of an expert"),
      RealKey("capacity_factor", "2", 0.01, 1024,
              "capacity of an expert relative to an even share of the tokens"),
      DerivedKey("group", "seq", "tokens among which the capacity of an expert is divided"),
      CountKey("shared_experts", kMaxLayers, "experts that every token passes through"),
      CountKey("dense_layers", kMaxLayers, "number of first layers with a plain mlp"),
      IntKey("moe_every", 1, "every n-th layer has experts, the others a plain mlp"),
      ChoiceKey("names", "gpt2", {"gpt2", "llama", "neox", "bloom", "opt", "moe"},
                "style of the parameter names"),
  };
  for (const auto& [name, value] : defaults) {
    auto key = std::ranges::find(keys, name, &Key::name);
    HEDDLE_CHECK(key != keys.end(), "no key {}", name);
    key->fallback = value;
  }
  return keys;
}

DecoderConfig ReadDecoder(const Settings& s) {
  DecoderConfig c{};
  for (auto [key, field] : {std::pair{"batch", &c.batch},
                            {"seq", &c.seq},
                            {"vocab", &c.vocab},
                            {"layers", &c.layers},
                            {"hidden", &c.hidden},
                            {"heads", &c.attention.heads},
                            {"q_lora", &c.attention.q_lora},
                            {"kv_lora", &c.attention.kv_lora},
                            {"rope_head_dim", &c.attention.rope_head_dim},
                            {"experts", &c.experts.count},
                            {"top_k", &c.experts.top_k},
                            {"moe_every", &c.experts.every}}) {
    *field = s.Int(key);
  }
  for (auto [key, field] : {std::pair{"norm_bias", &c.norm.bias},
                            {"tied", &c.tied},
                            {"causal", &c.attention.causal},
                            {"parallel", &c.parallel},
                            {"two_norms", &c.norm.before_parallel_mlp},
                            {"embedding_norm", &c.norm.after_embedding},
                            {"qk_norm", &c.attention.qk_norm}}) {
    *field = s.Flag(key);
  }
  for (auto [key, field] : {std::pair{"position", &c.position.kind},
                            {"norm", &c.norm.kind},
                            {"mlp", &c.mlp.activation},
                            {"qkv", &c.attention.qkv},
                            {"attention", &c.attention.kind}}) {
    *field = s.Choice(key);
  }
  int64_t head_dim = s.Int("head_dim", 0);
  c.attention.head_dim = head_dim > 0 ? head_dim : c.hidden / c.attention.heads;
  bool bias = s.Flag("bias");
  c.attention.qkv_bias = s.Flag("qkv_bias", bias);
  c.attention.out_bias = s.Flag("out_bias", bias);
  c.mlp.bias = s.Flag("mlp_bias", bias);
  c.position.theta = s.Real("rope_theta");
  c.norm.eps = s.Real("norm_eps", c.norm.kind == "rmsnorm" ? kRMSNormEpsilon : kLayerNormEpsilon);
  c.attention.kv_heads = s.Int("kv_heads", c.attention.heads);
  c.mlp.width = s.Int("ffn", 4 * c.hidden);
  c.position.table_rows = s.Int("positions", c.seq);
  c.position.rotary_dim = c.attention.kind == "mla" ? c.attention.rope_head_dim
                                                    : s.Int("rotary_dim", c.attention.head_dim);
  c.experts.width = s.Int("expert_ffn", c.mlp.width);
  c.experts.group = s.Int("group", c.seq);
  c.experts.shared = s.Int("shared_experts");
  c.experts.dense_layers = s.Int("dense_layers");
  c.dropout = s.Real("dropout");
  c.embedding_dropout = s.Real("embedding_dropout", c.dropout);
  c.attention.dropout = s.Real("attention_dropout");
  c.experts.capacity_factor = s.Real("capacity_factor");
  c.names = NamesOf(s.Choice("names"));
  CheckDecoder(c, head_dim > 0);
  return c;
}

ValueId Norm(ModelBuilder& b, const DecoderConfig& c, ValueId x, std::string_view name) {
  if (c.norm.kind == "rmsnorm") return b.RMSNorm(x, name, c.norm.eps);
  return b.LayerNorm(x, name, c.norm.eps, c.norm.bias);
}

ValueId Mlp(ModelBuilder& b, const DecoderConfig& c, ValueId x, int64_t width) {
  LinearOptions options{.bias = c.mlp.bias, .transposed = c.names.transposed};
  ValueId inner;
  if (IsGated(c.mlp.activation)) {
    ValueId gate = b.Activate(c.mlp.activation, b.Linear(x, width, c.names.gate, options));
    inner = b.Mul(gate, b.Linear(x, width, c.names.up, options));
  } else {
    inner = b.Activate(c.mlp.activation, b.Linear(x, width, c.names.up, options));
  }
  return b.Linear(inner, c.hidden, c.names.down, options);
}

namespace {

ValueId EmbedDecoder(ModelBuilder& b, const DecoderConfig& c, ValueId tokens, ValueId ids) {
  ValueId x = b.Embedding(tokens, ids);
  if (c.position.kind == "learned") {
    int64_t first = c.names.first_position;
    ValueId table =
        b.Parameter(c.names.positions + ".weight", {c.position.table_rows + first, c.hidden});
    x = b.Add(x, b.Embedding(table, b.Range("position_ids", {1, c.seq}, first)));
  }
  if (c.norm.after_embedding) x = Norm(b, c, x, c.names.embedding_norm);
  return b.Dropout(x, c.embedding_dropout);
}

ValueId MlpOfLayer(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x,
                   int64_t layer) {
  bool mixture =
      c.experts.count > 1 && layer >= c.experts.dense_layers && (layer + 1) % c.experts.every == 0;
  return mixture ? MixtureOfExperts(b, c, tables, x) : Mlp(b, c, x, c.mlp.width);
}

ValueId DecoderLayer(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x,
                     int64_t layer) {
  auto scope = b.In(fmt::format("{}.{}", c.names.layers, layer));
  ValueId normed = Norm(b, c, x, c.names.attention_norm);
  ValueId attended = b.Dropout(SelfAttention(b, c, tables, normed), c.dropout);
  if (!c.parallel) {
    x = b.Add(x, attended);
    normed = Norm(b, c, x, c.names.mlp_norm);
  } else if (c.norm.before_parallel_mlp) {
    normed = Norm(b, c, x, c.names.mlp_norm);
  }
  ValueId made = b.Dropout(MlpOfLayer(b, c, tables, normed, layer), c.dropout);
  if (c.parallel) made = b.Add(attended, made);
  return b.Add(x, made);
}

}  // namespace

Graph BuildDecoder(const DecoderConfig& c, const std::string& name) {
  ModelBuilder b(name);
  ValueId ids = b.Input("input_ids", DType::kI64, {c.batch, c.seq});
  ValueId labels = b.Input("labels", DType::kI64, {c.batch, c.seq});
  ValueId tokens = b.Parameter(c.names.tokens + ".weight", {c.vocab, c.hidden});
  Tables tables;
  AddAttentionTables(b, c, &tables);
  if (c.experts.count > 1) AddExpertTables(b, c, &tables);
  ValueId x = EmbedDecoder(b, c, tokens, ids);
  for (int64_t layer = 0; layer < c.layers; ++layer) x = DecoderLayer(b, c, tables, x, layer);
  x = Norm(b, c, x, c.names.final_norm);
  ValueId logits =
      c.tied ? b.TiedLinear(x, tokens) : b.Linear(x, c.vocab, c.names.head, {.bias = false});
  return b.Finish(b.CrossEntropy(logits, labels));
}

}  // namespace heddle
