// Decoder-only language models. GPT, LLaMA, mixtures of experts and related models are one model with different keys.
//
//   x = tokens (+ positions)
//   x = x + attention(norm(x));  x = x + mlp(norm(x))        serial, per layer
//   x = x + attention(norm(x)) + mlp(norm(x))                parallel (GPT-J, PaLM, GPT-NeoX)
//   loss = cross entropy of head(norm(x))
//
// Attention is one fused op. With attention=unfused it is separate products, a softmax and the ops between them, as
// models were trained before fused kernels existed. Dropout of attention probabilities needs attention=unfused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/families/model_builder.h"
#include "frontend/families/settings.h"

namespace heddle {

// The names of parameters in checkpoints. Names inside of a layer are relative to the layer.
struct DecoderNames {
  std::string tokens, positions, embedding_norm;
  std::string layers;
  std::string attention_norm, qkv, q, k, v, out;
  std::string mlp_norm, up, gate, down, router, experts;
  std::string final_norm, head;
  bool transposed = true;      // linear weights are [out, in]
  int64_t first_position = 0;  // unused rows at the start of the position table (OPT)
};

// How the model encodes the positions of tokens.
struct PositionConfig {
  std::string kind;    // learned, rope, alibi, relative or none
  int64_t table_rows;  // of a learned table
  int64_t rotary_dim;  // rope: the part of a head that is rotated
  double theta;        // rope: the base of the frequencies
};

struct AttentionConfig {
  std::string kind;  // full, unfused or mla
  std::string qkv;   // how queries, keys and values are projected: fused, interleaved or separate
  int64_t heads, kv_heads, head_dim;
  int64_t q_lora, kv_lora,
      rope_head_dim;  // mla: widths of the latents and of the rotary part of a head
  bool qkv_bias, out_bias;
  bool qk_norm;  // queries and keys are normalised per head
  bool causal;
  double dropout;  // of the attention probabilities
};

struct NormConfig {
  std::string kind;  // layernorm or rmsnorm
  double eps;
  bool bias;
  bool after_embedding;
  bool before_parallel_mlp;  // a parallel mlp has a norm of its own
};

struct MlpConfig {
  std::string activation;
  int64_t width;  // inner width
  bool bias;
};

// A mixture of experts, where `count` is more than 1.
struct ExpertConfig {
  int64_t count, top_k;
  int64_t width;         // inner width of an expert
  int64_t shared;        // experts that every token passes through
  int64_t dense_layers;  // the first layers, which have a plain mlp
  int64_t every;         // each n-th layer has experts
  int64_t group;         // tokens among which the capacity of an expert is divided
  double capacity_factor;
};

struct DecoderConfig {
  int64_t batch, seq, vocab, layers, hidden;
  PositionConfig position;
  AttentionConfig attention;
  NormConfig norm;
  MlpConfig mlp;
  ExpertConfig experts;
  bool tied;      // the head uses the token table
  bool parallel;  // attention and mlp read the same input
  double dropout, embedding_dropout;
  DecoderNames names;
};

// The keys of every decoder family, with the defaults that differ between them.
std::vector<Key> DecoderKeys(const std::vector<KeyValue>& defaults);

// Throws an InputError where keys contradict each other.
DecoderConfig ReadDecoder(const Settings& settings);

// The names for one value of the key `names`.
DecoderNames NamesOf(const std::string& style);

Graph BuildDecoder(const DecoderConfig& config, const std::string& name);

// The constants that all layers share; invalid where the model does not use them.
struct Tables {
  ValueId cos, sin;          // rotary [1,1,seq,rotary_dim]
  ValueId alibi;             // [1,heads,1,seq]
  ValueId sinusoids, scale;  // relative [1,seq,hidden] and []
  // Unfused attention: the scale of scores []; causal: which tokens are visible [1,1,seq,seq], and the score of the
  // others [].
  ValueId score_scale, visible, masked_score;
  ValueId experts, places;  // 0, 1, ... experts - 1, and 0, 1, ... the capacity of an expert
};
void AddAttentionTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables);
void AddExpertTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables);

// The parts of a layer; names are relative to the builder's scope.
ValueId SelfAttention(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x);
ValueId Mlp(ModelBuilder& b, const DecoderConfig& c, ValueId x, int64_t width);
ValueId MixtureOfExperts(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x);
ValueId Norm(ModelBuilder& b, const DecoderConfig& c, ValueId x, std::string_view name);

}  // namespace heddle
