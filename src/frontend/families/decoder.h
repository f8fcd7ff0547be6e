// Decoder-only language models: GPT, LLaMA, mixtures of experts and their relatives are one model
// with different keys.
//
//   x = tokens (+ positions)
//   x = x + attention(norm(x));  x = x + mlp(norm(x))        serial, per layer
//   x = x + attention(norm(x)) + mlp(norm(x))                parallel (GPT-J, PaLM, GPT-NeoX)
//   loss = cross entropy of head(norm(x))
//
// Attention is one fused op, or with attention=unfused the products, the softmax and what lies between them, as
// models were trained before there were fused kernels; only there can its probabilities be dropped out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/families/model_builder.h"
#include "frontend/families/settings.h"

namespace heddle {

// What checkpoints call things. Within a layer, names follow the layer's own.
struct DecoderNames {
  std::string tokens, positions, embedding_norm;
  std::string layers;
  std::string attention_norm, qkv, q, k, v, out;
  std::string mlp_norm, up, gate, down, router, experts;
  std::string final_norm, head;
  bool transposed = true;      // linear weights are [out, in]
  int64_t first_position = 0;  // rows of the position table that are never used (OPT)
};

struct DecoderConfig {
  int64_t batch, seq, vocab, layers, hidden, heads, kv_heads, head_dim, ffn, positions;
  std::string position, norm, mlp, qkv, attention;
  int64_t rotary_dim, q_lora, kv_lora, rope_head_dim;
  double rope_theta, norm_eps;
  bool bias, qkv_bias, out_bias, mlp_bias, norm_bias, tied, causal, parallel, two_norms,
      embedding_norm, qk_norm;
  double dropout, embedding_dropout, attention_dropout;
  // A mixture of experts where there is more than one.
  int64_t experts, top_k, expert_ffn, shared_experts, dense_layers, moe_every, group;
  double capacity_factor;
  DecoderNames names;
};

// The keys of every decoder family, with the defaults that differ between them.
std::vector<Key> DecoderKeys(const std::vector<KeyValue>& defaults);

// Throws InputError where keys do not fit each other.
DecoderConfig ReadDecoder(const Settings& settings);

// The names of one of the styles of the key `names`.
DecoderNames NamesOf(const std::string& style);

Graph BuildDecoder(const DecoderConfig& config, const std::string& name);

// The constants that all layers share; invalid where the model has none of them.
struct Tables {
  ValueId cos, sin;          // rotary [1,1,seq,rotary_dim]
  ValueId alibi;             // [1,heads,1,seq]
  ValueId sinusoids, scale;  // relative [1,seq,hidden] and []
  // Unfused: of the scores []; causal, who sees whom [1,1,seq,seq] and the score of whom one does not see [].
  ValueId score_scale, seen, unseen;
  ValueId experts, places;  // 0, 1, ... experts - 1, and to the capacity of an expert
};
void AddAttentionTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables);
void AddExpertTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables);

// The parts of a layer; names are relative to the builder's scope.
ValueId SelfAttention(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x);
ValueId Mlp(ModelBuilder& b, const DecoderConfig& c, ValueId x, int64_t width);
ValueId MixtureOfExperts(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x);
ValueId Norm(ModelBuilder& b, const DecoderConfig& c, ValueId x, std::string_view name);

}  // namespace heddle
