// The names of parameters in the checkpoints of decoders. Names that no checkpoint has, for example of a norm that its
// models do not have, follow the same style.
#include "base/check.h"
#include "frontend/families/decoder.h"

namespace heddle {

DecoderNames NamesOf(const std::string& style) {
  if (style == "gpt2") {
    return {.tokens = "transformer.wte",
            .positions = "transformer.wpe",
            .embedding_norm = "transformer.ln_emb",
            .layers = "transformer.h",
            .attention_norm = "ln_1",
            .qkv = "attn.c_attn",
            .q = "attn.q_attn",
            .k = "attn.k_attn",
            .v = "attn.v_attn",
            .out = "attn.c_proj",
            .mlp_norm = "ln_2",
            .up = "mlp.c_fc",
            .gate = "mlp.c_gate",
            .down = "mlp.c_proj",
            .router = "mlp.router",
            .experts = "mlp.experts.",
            .final_norm = "transformer.ln_f",
            .head = "lm_head",
            .transposed = false};
  }
  if (style == "llama") {
    return {.tokens = "model.embed_tokens",
            .positions = "model.embed_positions",
            .embedding_norm = "model.embed_layernorm",
            .layers = "model.layers",
            .attention_norm = "input_layernorm",
            .qkv = "self_attn.qkv_proj",
            .q = "self_attn.q_proj",
            .k = "self_attn.k_proj",
            .v = "self_attn.v_proj",
            .out = "self_attn.o_proj",
            .mlp_norm = "post_attention_layernorm",
            .up = "mlp.up_proj",
            .gate = "mlp.gate_proj",
            .down = "mlp.down_proj",
            .router = "mlp.gate",
            .experts = "mlp.experts.",
            .final_norm = "model.norm",
            .head = "lm_head"};
  }
  if (style == "neox") {
    return {.tokens = "gpt_neox.embed_in",
            .positions = "gpt_neox.embed_positions",
            .embedding_norm = "gpt_neox.embed_layernorm",
            .layers = "gpt_neox.layers",
            .attention_norm = "input_layernorm",
            .qkv = "attention.query_key_value",
            .q = "attention.query",
            .k = "attention.key",
            .v = "attention.value",
            .out = "attention.dense",
            .mlp_norm = "post_attention_layernorm",
            .up = "mlp.dense_h_to_4h",
            .gate = "mlp.dense_gate",
            .down = "mlp.dense_4h_to_h",
            .router = "mlp.gate",
            .experts = "mlp.experts.",
            .final_norm = "gpt_neox.final_layer_norm",
            .head = "embed_out"};
  }
  if (style == "bloom") {
    return {.tokens = "transformer.word_embeddings",
            .positions = "transformer.position_embeddings",
            .embedding_norm = "transformer.word_embeddings_layernorm",
            .layers = "transformer.h",
            .attention_norm = "input_layernorm",
            .qkv = "self_attention.query_key_value",
            .q = "self_attention.query",
            .k = "self_attention.key",
            .v = "self_attention.value",
            .out = "self_attention.dense",
            .mlp_norm = "post_attention_layernorm",
            .up = "mlp.dense_h_to_4h",
            .gate = "mlp.dense_gate",
            .down = "mlp.dense_4h_to_h",
            .router = "mlp.gate",
            .experts = "mlp.experts.",
            .final_norm = "transformer.ln_f",
            .head = "lm_head"};
  }
  if (style == "opt") {
    return {.tokens = "model.decoder.embed_tokens",
            .positions = "model.decoder.embed_positions",
            .embedding_norm = "model.decoder.embed_layer_norm",
            .layers = "model.decoder.layers",
            .attention_norm = "self_attn_layer_norm",
            .qkv = "self_attn.qkv_proj",
            .q = "self_attn.q_proj",
            .k = "self_attn.k_proj",
            .v = "self_attn.v_proj",
            .out = "self_attn.out_proj",
            .mlp_norm = "final_layer_norm",
            .up = "fc1",
            .gate = "fc_gate",
            .down = "fc2",
            .router = "gate",
            .experts = "",
            .final_norm = "model.decoder.final_layer_norm",
            .head = "lm_head",
            .first_position = 2};
  }
  HEDDLE_CHECK(style == "moe", "names {}", style);
  return {.tokens = "emb",
          .positions = "pos",
          .embedding_norm = "ln0",
          .layers = "blocks",
          .attention_norm = "ln1",
          .qkv = "qkv",
          .q = "q",
          .k = "k",
          .v = "v",
          .out = "o",
          .mlp_norm = "ln2",
          .up = "up",
          .gate = "gated",
          .down = "down",
          .router = "gate",
          .experts = "",
          .final_norm = "ln",
          .head = "head"};
}

}  // namespace heddle
