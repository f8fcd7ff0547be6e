// A missing key has the default of transformers, which is not always "none": Mistral's sliding window is 4096 and
// GPT-2's dropout 0.1. Dropout becomes part of the graph; dropout of attention probabilities makes attention separate
// ops.
#include "frontend/hf/translations.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

constexpr int64_t kDefaultSeq = 2048;
constexpr double kMaxTheta = 1e18;

// heddle's name of an activation. A `gated` mlp has a third matrix.
const char* ActivationOf(const ConfigFile& c, std::string_view key, const std::string& fallback,
                         bool gated) {
  struct Known {
    std::string_view name;
    const char *plain, *gated;
  };
  static constexpr Known kKnown[] = {
      {"gelu", "gelu_erf", "geglu_erf"},     {"gelu_python", "gelu_erf", "geglu_erf"},
      {"gelu_new", "gelu", "geglu"},         {"gelu_fast", "gelu", "geglu"},
      {"gelu_accurate", "gelu", "geglu"},    {"gelu_pytorch_tanh", "gelu", "geglu"},
      {"gelu_python_tanh", "gelu", "geglu"}, {"silu", "silu", "swiglu"},
      {"swish", "silu", "swiglu"},           {"relu", "relu", nullptr},
      {"relu2", "squared_relu", nullptr},
  };
  std::string name = c.Text(key, fallback);
  for (const Known& known : kKnown) {
    const char* ours = gated ? known.gated : known.plain;
    if (known.name == name && ours != nullptr) return ours;
  }
  c.Refuse(key, Json(name),
           gated ? "neither silu nor gelu, gelu_new, gelu_fast or gelu_pytorch_tanh; export the "
                   "model to ONNX instead"
                 : "neither gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, silu, relu nor relu2; "
                   "export the model to "
                   "ONNX instead");
}

double Ratio(const ConfigFile& c, std::string_view key, double fallback) {
  return c.Real(key, fallback, 0, 1);
}

void SetSequence(Translation& t, int64_t longest) { t.Set("seq", std::min(longest, kDefaultSeq)); }

// Decoders support dropout of attention probabilities only with attention=unfused.
void SetAttentionDropout(Translation& t, double ratio) {
  t.Set("attention_dropout", ratio);
  t.needs_unfused_attention = true;
}

struct Rope {
  double theta, share;
};

// Reads the base of the frequencies and the share of a head that is rotated from `theta_key` and `share_key` (empty
// where the type has none) and from `rope_parameters` (version 5) or `rope_scaling` (earlier versions), which must
// agree.
Rope RopeOf(const ConfigFile& c, double theta, double share, std::string_view theta_key,
            std::string_view share_key) {
  auto positive = [](double value, double high) { return value > 0 && value <= high; };
  std::string theta_from, share_from;
  auto take = [&](double* into, std::string* from, std::string_view key, const Json& value,
                  double low, double high) {
    if (!value.is_number()) c.Refuse(key, value, "not a number");
    double number = value.get<double>();
    if (!positive(number, high) || number < low) {
      c.Refuse(key, value,
               fmt::format("not {} {} and up to {}", low > 0 ? "from" : "above", low, high));
    }
    if (!from->empty() && number != *into) {
      c.Refuse(key, value, fmt::format("but '{}' is {}: delete one of them", *from, *into));
    }
    *into = number;
    *from = key;
  };
  if (const Json* value = c.Find(theta_key))
    take(&theta, &theta_from, theta_key, *value, 1, kMaxTheta);
  if (!share_key.empty()) {
    if (const Json* value = c.Find(share_key)) take(&share, &share_from, share_key, *value, 0, 1);
  }
  for (std::string_view group : {"rope_parameters", "rope_scaling"}) {
    const Json* parameters = c.Find(group);
    if (parameters == nullptr) continue;
    if (!parameters->is_object()) c.Refuse(group, *parameters, "not an object");
    for (const char* key : {"rope_type", "type"}) {
      auto type = parameters->find(key);
      if (type == parameters->end() || *type == "default") continue;
      c.Refuse(fmt::format("{}.{}", group, key), *type,
               "but only \"default\", rotary frequencies that are not scaled, is supported; export "
               "the model to ONNX "
               "instead");
    }
    for (const auto& [key, value] : parameters->items()) {
      std::string name = ShortText(Json(fmt::format("{}.{}", group, key)));
      name = name.substr(1, name.size() - 2);
      if (key == "rope_type" || key == "type" || value.is_null()) continue;
      if (key == "rope_theta") {
        take(&theta, &theta_from, name, value, 1, kMaxTheta);
      } else if (key == "partial_rotary_factor" && !share_key.empty()) {
        take(&share, &share_from, name, value, 0, 1);
      } else if (key != "partial_rotary_factor" || value != 1) {
        c.Refuse(name, value, "which heddle does not build; export the model to ONNX instead");
      }
    }
  }
  return {theta, share};
}

// `layer_types` says for every layer whether it has a sliding window. True where any layer has; `otherwise` where the
// key is missing.
bool AnyLayerSlides(const ConfigFile& c, int64_t layers, bool otherwise) {
  const Json* types = c.Find("layer_types");
  if (types == nullptr) return otherwise;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
    c.Refuse("layer_types", *types, fmt::format("not a list of {} layers", layers));
  }
  bool any = false;
  for (const Json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      c.Refuse(
          "layer_types", type,
          "neither \"full_attention\" nor \"sliding_attention\"; export the model to ONNX instead");
    }
    any = any || type == "sliding_attention";
  }
  return any;
}

}  // namespace

Translation FromGpt2(const ConfigFile& c) {
  int64_t hidden = c.Int("n_embd", 768), heads = c.Int("n_head", 12);
  c.RequireMultiple("n_embd", hidden, "n_head", heads);
  int64_t positions = c.Int("n_positions", 1024);
  Translation t{.family = "gpt"};
  t.Set("layers", c.Int("n_layer", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("vocab", c.Int("vocab_size", 50257)).Set("positions", positions);
  t.Set("ffn", c.Int("n_inner", 4 * hidden));
  t.Set("mlp", ActivationOf(c, "activation_function", "gelu_new", false));
  t.Set("tied", c.Flag("tie_word_embeddings", true));
  t.Set("norm_eps", c.Real("layer_norm_epsilon", 1e-5, 0, 1));
  t.Set("dropout", Ratio(c, "resid_pdrop", 0.1));
  t.Set("embedding_dropout", Ratio(c, "embd_pdrop", 0.1));
  SetAttentionDropout(t, Ratio(c, "attn_pdrop", 0.1));
  SetSequence(t, positions);
  return t;
}

namespace {

// Defaults of transformers that differ between llama, mistral, mixtral and qwen2.
struct LlamaDefaults {
  int64_t kv_heads = 0;  // 0: as many as heads
  double theta = 10000, eps = 1e-6;
  int64_t positions = 2048;
};

// llama, mistral, qwen2 and mixtral share their keys.
Translation FromLlamaLike(const ConfigFile& c, const LlamaDefaults& defaults) {
  int64_t hidden = c.Int("hidden_size"), heads = c.Int("num_attention_heads");
  // Null means as many as heads for all of them; a missing key has the type's default.
  bool given = defaults.kv_heads == 0 || c.Given("num_key_value_heads");
  int64_t kv_heads = c.Int("num_key_value_heads", given ? heads : defaults.kv_heads);
  c.RequireMultiple("num_attention_heads", heads, "num_key_value_heads", kv_heads);
  int64_t head_dim = c.Int("head_dim", std::max<int64_t>(1, hidden / heads));
  if (head_dim == hidden / heads)
    c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  Translation t{.family = "llama"};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("kv_heads", kv_heads).Set("head_dim", head_dim).Set("ffn", c.Int("intermediate_size"));
  t.Set("vocab", c.Int("vocab_size")).Set("tied", c.Flag("tie_word_embeddings", false));
  t.Set("mlp", ActivationOf(c, "hidden_act", "silu", true));
  t.Set("rope_theta", RopeOf(c, defaults.theta, 1, "rope_theta", "").theta);
  t.Set("norm_eps", c.Real("rms_norm_eps", defaults.eps, 0, 1));
  SetAttentionDropout(t, Ratio(c, "attention_dropout", 0));
  t.longest = c.Int("max_position_embeddings", defaults.positions);
  SetSequence(t, t.longest);
  return t;
}

}  // namespace

Translation FromLlama(const ConfigFile& c) {
  Translation t = FromLlamaLike(c, {});
  bool attention_bias = c.Flag("attention_bias", false);
  t.Set("qkv_bias", attention_bias).Set("out_bias", attention_bias);
  return t.Set("mlp_bias", c.Flag("mlp_bias", false));
}

// The default window has 4096 tokens; null means no window.
Translation FromMistral(const ConfigFile& c) {
  Translation t = FromLlamaLike(c, {.kv_heads = 8, .positions = 131072});
  t.window = c.Given("sliding_window") && c.Find("sliding_window") == nullptr
                 ? 0
                 : c.Int("sliding_window", 4096);
  return t;
}

Translation FromQwen2(const ConfigFile& c) {
  Translation t = FromLlamaLike(c, {.kv_heads = 32, .positions = 32768});
  int64_t layers = static_cast<int64_t>(t.Number("layers", 0));
  t.Set("qkv_bias", true);
  if (!c.Flag("use_sliding_window", false)) {
    for (const char* key : {"sliding_window", "max_window_layers"}) {
      c.PassOver(key, "'use_sliding_window' is false");
    }
    if (AnyLayerSlides(c, layers, false)) {
      c.Refuse(
          "'layer_types' has layers of \"sliding_attention\", but 'use_sliding_window' is false");
    }
    return t;
  }
  // The layers from this one on have a sliding window.
  const Json* first = c.Find("max_window_layers");
  bool some = (first != nullptr && *first == 0) || c.Int("max_window_layers", 28) < layers;
  bool none = c.Given("sliding_window") && c.Find("sliding_window") == nullptr;
  int64_t window = none ? 0 : c.Int("sliding_window", 4096);
  if (AnyLayerSlides(c, layers, some)) t.window = window;
  return t;
}

Translation FromMixtral(const ConfigFile& c) {
  Translation t = FromLlamaLike(c, {.kv_heads = 8, .theta = 1e6, .eps = 1e-5, .positions = 131072});
  if (c.Find("sliding_window") != nullptr) t.window = c.Int("sliding_window");
  int64_t experts = c.Int("num_local_experts", 8), top_k = c.Int("num_experts_per_tok", 2);
  if (top_k > experts) {
    c.Refuse(fmt::format("'num_experts_per_tok' is {}, more than 'num_local_experts', which is {}",
                         top_k, experts));
  }
  return t.Set("experts", experts).Set("top_k", top_k).Set("capacity_factor", int64_t{1});
}

Translation FromNeox(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size"), heads = c.Int("num_attention_heads");
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  Rope rope = RopeOf(c, 10000, 0.25, "rotary_emb_base", "rotary_pct");
  // Some versions write the base under both names, but read only the other one.
  if (c.Find("rope_theta") != nullptr && c.Real("rope_theta", 0, 1, kMaxTheta) != rope.theta) {
    c.Refuse("rope_theta", *c.Find("rope_theta"),
             fmt::format("but 'rotary_emb_base' is {}: delete one of them", rope.theta));
  }
  int64_t rotary = static_cast<int64_t>(rope.share * static_cast<double>(hidden / heads));
  Translation t{.family = "gpt"};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size")).Set("vocab", c.Int("vocab_size"));
  t.Set("position", "rope").Set("rotary_dim", std::max<int64_t>(2, rotary / 2 * 2));
  t.Set("rope_theta", rope.theta).Set("norm_eps", c.Real("layer_norm_eps", 1e-5, 0, 1));
  t.Set("qkv", "interleaved").Set("names", "neox");
  t.Set("tied", c.Flag("tie_word_embeddings", false));
  t.Set("mlp", ActivationOf(c, "hidden_act", "gelu", false));
  t.Set("parallel", c.Flag("use_parallel_residual", true)).Set("two_norms", true);
  bool attention_bias = c.Flag("attention_bias", true);
  t.Set("qkv_bias", attention_bias).Set("out_bias", attention_bias);
  t.Set("dropout", Ratio(c, "hidden_dropout", 0));
  SetAttentionDropout(t, Ratio(c, "attention_dropout", 0));
  t.longest = c.Int("max_position_embeddings", kDefaultSeq);
  SetSequence(t, t.longest);
  return t;
}

Translation FromOpt(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size"), heads = c.Int("num_attention_heads");
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  if (!c.Flag("do_layer_norm_before", true) || c.Int("word_embed_proj_dim", hidden) != hidden) {
    c.Refuse(
        "'do_layer_norm_before' false or a 'word_embed_proj_dim' other than 'hidden_size' "
        "(OPT-350m) "
        "is not supported; export it to ONNX instead");
  }
  int64_t positions = c.Int("max_position_embeddings", 2048);
  Translation t{.family = "gpt"};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("ffn_dim")).Set("vocab", c.Int("vocab_size")).Set("positions", positions);
  t.Set("mlp", ActivationOf(c, "activation_function", "relu", false));
  t.Set("qkv", "separate").Set("names", "opt").Set("bias", c.Flag("enable_bias", true));
  t.Set("tied", c.Flag("tie_word_embeddings", true));
  // OPT has no dropout after the embedding.
  t.Set("dropout", Ratio(c, "dropout", 0.1)).Set("embedding_dropout", 0.0);
  SetAttentionDropout(t, Ratio(c, "attention_dropout", 0));
  SetSequence(t, positions);
  return t;
}

Translation FromBert(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size", 768), heads = c.Int("num_attention_heads", 12);
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  int64_t positions = c.Int("max_position_embeddings", 512);
  Translation t{.family = "bert"};
  t.Set("layers", c.Int("num_hidden_layers", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size", 3072)).Set("vocab", c.Int("vocab_size", 30522));
  t.Set("positions", positions).Set("token_types", c.Int("type_vocab_size", 2));
  t.Set("mlp", ActivationOf(c, "hidden_act", "gelu", false));
  t.Set("norm_eps", c.Real("layer_norm_eps", 1e-12, 0, 1));
  t.Set("dropout", Ratio(c, "hidden_dropout_prob", 0.1));
  t.Set("attention_dropout", Ratio(c, "attention_probs_dropout_prob", 0.1));
  SetSequence(t, positions);
  return t;
}

Translation FromT5(const ConfigFile& c) {
  std::string mlp = c.Text("feed_forward_proj", "relu");
  if (mlp != "relu" && mlp != "gated-gelu") {
    c.Refuse("feed_forward_proj", Json(mlp),
             "neither relu nor gated-gelu; export the model to ONNX instead");
  }
  bool gated = mlp != "relu", tied = c.Flag("tie_word_embeddings", true);
  // These are derived from 'feed_forward_proj', but the file's own values take precedence.
  AccountFor(
      c,
      std::vector<FixedKey>{
          {"dense_act_fn", {gated ? "gelu_new" : "relu"}, "the activation of 'feed_forward_proj'"},
          {"is_gated_act", {gated}, "the mlp of 'feed_forward_proj'"},
          {"scale_decoder_outputs", {tied}, "the scaling that goes with 'tie_word_embeddings'"},
      });
  int64_t layers = c.Int("num_layers", 6);
  Translation t{.family = "t5"};
  t.Set("layers", layers).Set("decoder_layers", c.Int("num_decoder_layers", layers));
  t.Set("hidden", c.Int("d_model", 512)).Set("heads", c.Int("num_heads", 8));
  t.Set("head_dim", c.Int("d_kv", 64)).Set("ffn", c.Int("d_ff", 2048));
  t.Set("vocab", c.Int("vocab_size", 32128)).Set("tied", tied);
  t.Set("mlp", gated ? "gated_gelu" : "relu");
  t.Set("buckets", c.Int("relative_attention_num_buckets", 32));
  t.Set("distance", c.Int("relative_attention_max_distance", 128));
  t.Set("norm_eps", c.Real("layer_norm_epsilon", 1e-6, 0, 1));
  double dropout = Ratio(c, "dropout_rate", 0.1);
  t.Set("dropout", dropout).Set("attention_dropout", dropout);
  SetSequence(t, c.Int("n_positions", 512));
  return t;
}

namespace {

// The number of classes in `id2label` or `num_labels`, which must agree; 2 where neither is given.
int64_t Classes(const ConfigFile& c) {
  const Json* labels = c.Find("id2label");
  if (labels != nullptr && (!labels->is_object() || labels->empty())) {
    c.Refuse("id2label", *labels, "not an object with the classes");
  }
  int64_t count = labels == nullptr ? 2 : static_cast<int64_t>(labels->size());
  int64_t said = c.Int("num_labels", count);
  if (labels != nullptr && said != count) {
    c.Refuse(fmt::format("'num_labels' is {}, but 'id2label' has {} classes", said, count));
  }
  if (said == 1)
    c.Refuse(
        "there is one class: transformers computes a regression then, which heddle does not build; "
        "export the model to ONNX instead");
  return said;
}

}  // namespace

Translation FromVit(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size", 768), heads = c.Int("num_attention_heads", 12);
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  int64_t image = c.Int("image_size", 224), patch = c.Int("patch_size", 16);
  c.RequireMultiple("image_size", image, "patch_size", patch);
  Translation t{.family = "vit"};
  t.Set("layers", c.Int("num_hidden_layers", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size", 3072)).Set("image", image).Set("patch", patch);
  t.Set("mlp", ActivationOf(c, "hidden_act", "gelu", false));
  t.Set("norm_eps", c.Real("layer_norm_eps", 1e-12, 0, 1));
  t.Set("qkv_bias", c.Flag("qkv_bias", true));
  t.Set("dropout", Ratio(c, "hidden_dropout_prob", 0));
  t.Set("attention_dropout", Ratio(c, "attention_probs_dropout_prob", 0));
  return t.Set("channels", c.Int("num_channels", 3)).Set("classes", Classes(c));
}

}  // namespace heddle
