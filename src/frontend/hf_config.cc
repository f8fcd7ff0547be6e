#include "frontend/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/nearest.h"
#include "frontend/families/built_in.h"

namespace heddle {
namespace {

constexpr int64_t kDefaultBatch = 8;
constexpr int64_t kDefaultSeq = 2048;
constexpr int64_t kDefaultGroup =
    64;  // of tokens that share out the room of experts: small is cheap

// Typed access to the keys of a config; errors name file and key.
class ConfigFile {
 public:
  ConfigFile(Json json, std::string path) : json_(std::move(json)), path_(std::move(path)) {
    if (!json_.is_object()) Refuse("expected an object with a model's configuration");
  }

  // A size: a whole number of at least 1. Null counts as missing.
  int64_t Int(std::string_view key, std::optional<int64_t> fallback = {}) const {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (!fallback) Refuse(fmt::format("'{}' is missing", key));
      return *fallback;
    }
    if (!value->is_number_integer()) Refuse(key, *value, "not a whole number");
    bool large = value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{kMaxSize};
    if (large || value->get<int64_t>() < 1 || value->get<int64_t>() > kMaxSize) {
      Refuse(key, *value, fmt::format("not from 1 to {}", kMaxSize));
    }
    return value->get<int64_t>();
  }

  bool Flag(std::string_view key, bool fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) Refuse(key, *value, "neither true nor false");
    return value->get<bool>();
  }

  double Real(std::string_view key, double fallback) const {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) Refuse(key, *value, "not a number");
    return value->get<double>();
  }

  std::string Text(std::string_view key, std::optional<std::string> fallback = {}) const {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (!fallback) Refuse(fmt::format("'{}' is missing", key));
      return *fallback;
    }
    if (!value->is_string()) Refuse(key, *value, "not a text");
    return value->get<std::string>();
  }

  void RequireMultiple(std::string_view a, int64_t a_value, std::string_view b,
                       int64_t b_value) const {
    if (a_value % b_value == 0) return;
    Refuse(fmt::format("'{}' is {}, not a multiple of '{}', which is {}", a, a_value, b, b_value));
  }

  [[noreturn]] void Refuse(std::string_view message) const { ThrowInput("{}: {}", path_, message); }

  [[noreturn]] void Refuse(std::string_view key, const Json& value, std::string_view why) const {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 60) + "...";
    Refuse(fmt::format("'{}' is {}, {}", key, text, why));
  }

 private:
  const Json* Find(std::string_view key) const {
    auto found = json_.find(std::string(key));
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  Json json_;
  std::string path_;
};

// What a config becomes: keys of a family, added in this notation.
struct Translation {
  std::string family;
  std::vector<KeyValue> values;

  Translation& Set(std::string key, int64_t value) {
    values.emplace_back(std::move(key), fmt::format("{}", value));
    return *this;
  }
  Translation& Set(std::string key, const char* value) {
    values.emplace_back(std::move(key), value);
    return *this;
  }
  // The last value set.
  int64_t Int(std::string_view key, int64_t fallback) const {
    for (auto it = values.rbegin(); it != values.rend(); ++it) {
      if (it->first == key) return std::stoll(it->second);
    }
    return fallback;
  }
  Translation& Set(std::string key, bool value) { return Set(std::move(key), int64_t{value}); }
};

// Activations under their names there; `gated` has a third matrix.
const char* Activation(const ConfigFile& c, std::string_view key, const std::string& name,
                       bool gated) {
  if (name.find("gelu") != std::string::npos) return gated ? "geglu" : "gelu";
  if (name == "silu" || name == "swish") return gated ? "swiglu" : "silu";
  if (name == "relu" && !gated) return "relu";
  if (name == "relu2" && !gated) return "squared_relu";
  c.Refuse(key, Json(name),
           gated ? "neither silu nor a gelu" : "neither a gelu, silu, relu nor relu2");
}

void SetSequence(Translation& t, int64_t longest) { t.Set("seq", std::min(longest, kDefaultSeq)); }

Translation FromGpt2(const ConfigFile& c) {
  int64_t hidden = c.Int("n_embd", 768), heads = c.Int("n_head", 12);
  c.RequireMultiple("n_embd", hidden, "n_head", heads);
  int64_t positions = c.Int("n_positions", 1024);
  Translation t{"gpt", {}};
  t.Set("layers", c.Int("n_layer", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("vocab", c.Int("vocab_size", 50257)).Set("positions", positions);
  t.Set("ffn", c.Int("n_inner", 4 * hidden));
  t.Set("mlp",
        Activation(c, "activation_function", c.Text("activation_function", "gelu_new"), false));
  t.Set("tied", c.Flag("tie_word_embeddings", true));
  SetSequence(t, positions);
  return t;
}

// llama, mistral, qwen2 and mixtral share their keys.
Translation FromLlama(const ConfigFile& c, bool qkv_bias) {
  int64_t hidden = c.Int("hidden_size"), heads = c.Int("num_attention_heads");
  int64_t kv_heads = c.Int("num_key_value_heads", heads);
  c.RequireMultiple("num_attention_heads", heads, "num_key_value_heads", kv_heads);
  int64_t head_dim = c.Int("head_dim", std::max<int64_t>(1, hidden / heads));
  if (head_dim == hidden / heads)
    c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  Translation t{"llama", {}};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("kv_heads", kv_heads).Set("head_dim", head_dim).Set("ffn", c.Int("intermediate_size"));
  t.Set("vocab", c.Int("vocab_size")).Set("tied", c.Flag("tie_word_embeddings", false));
  t.Set("mlp", Activation(c, "hidden_act", c.Text("hidden_act", "silu"), true));
  t.Set("qkv_bias", qkv_bias);
  SetSequence(t, c.Int("max_position_embeddings", kDefaultSeq));
  return t;
}

Translation FromLlamaItself(const ConfigFile& c) {
  return FromLlama(c, c.Flag("attention_bias", false));
}
Translation FromMistral(const ConfigFile& c) { return FromLlama(c, false); }
Translation FromQwen2(const ConfigFile& c) { return FromLlama(c, true); }

Translation FromMixtral(const ConfigFile& c) {
  Translation t = FromLlama(c, false);
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
  double share = c.Real("rotary_pct", 0.25);
  if (!(share > 0 && share <= 1)) c.Refuse("rotary_pct", Json(share), "not above 0 and up to 1");
  int64_t rotary = static_cast<int64_t>(share * static_cast<double>(hidden / heads));
  Translation t{"gpt", {}};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size")).Set("vocab", c.Int("vocab_size"));
  t.Set("position", "rope").Set("rotary_dim", std::max<int64_t>(2, rotary / 2 * 2));
  t.Set("qkv", "interleaved")
      .Set("names", "neox")
      .Set("tied", c.Flag("tie_word_embeddings", false));
  t.Set("mlp", Activation(c, "hidden_act", c.Text("hidden_act", "gelu"), false));
  t.Set("parallel", c.Flag("use_parallel_residual", true)).Set("two_norms", true);
  t.Set("qkv_bias", c.Flag("attention_bias", true));
  SetSequence(t, c.Int("max_position_embeddings", kDefaultSeq));
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
  Translation t{"gpt", {}};
  t.Set("layers", c.Int("num_hidden_layers")).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("ffn_dim")).Set("vocab", c.Int("vocab_size")).Set("positions", positions);
  t.Set("mlp", Activation(c, "activation_function", c.Text("activation_function", "relu"), false));
  t.Set("qkv", "separate").Set("names", "opt").Set("bias", c.Flag("enable_bias", true));
  t.Set("tied", c.Flag("tie_word_embeddings", true));
  SetSequence(t, positions);
  return t;
}

Translation FromBert(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size", 768), heads = c.Int("num_attention_heads", 12);
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  int64_t positions = c.Int("max_position_embeddings", 512);
  Translation t{"bert", {}};
  t.Set("layers", c.Int("num_hidden_layers", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size", 3072)).Set("vocab", c.Int("vocab_size", 30522));
  t.Set("positions", positions).Set("token_types", c.Int("type_vocab_size", 2));
  SetSequence(t, positions);
  return t;
}

Translation FromT5(const ConfigFile& c) {
  std::string mlp = c.Text("feed_forward_proj", "relu");
  if (mlp != "relu" && mlp != "gated-gelu") {
    c.Refuse("feed_forward_proj", Json(mlp), "neither relu nor gated-gelu");
  }
  int64_t layers = c.Int("num_layers", 6);
  Translation t{"t5", {}};
  t.Set("layers", layers).Set("decoder_layers", c.Int("num_decoder_layers", layers));
  t.Set("hidden", c.Int("d_model", 512)).Set("heads", c.Int("num_heads", 8));
  t.Set("head_dim", c.Int("d_kv", 64)).Set("ffn", c.Int("d_ff", 2048));
  t.Set("vocab", c.Int("vocab_size", 32128)).Set("tied", c.Flag("tie_word_embeddings", true));
  t.Set("mlp", mlp == "relu" ? "relu" : "gated_gelu");
  t.Set("buckets", c.Int("relative_attention_num_buckets", 32));
  t.Set("distance", c.Int("relative_attention_max_distance", 128));
  SetSequence(t, c.Int("n_positions", 512));
  return t;
}

Translation FromVit(const ConfigFile& c) {
  int64_t hidden = c.Int("hidden_size", 768), heads = c.Int("num_attention_heads", 12);
  c.RequireMultiple("hidden_size", hidden, "num_attention_heads", heads);
  int64_t image = c.Int("image_size", 224), patch = c.Int("patch_size", 16);
  c.RequireMultiple("image_size", image, "patch_size", patch);
  Translation t{"vit", {}};
  t.Set("layers", c.Int("num_hidden_layers", 12)).Set("hidden", hidden).Set("heads", heads);
  t.Set("ffn", c.Int("intermediate_size", 3072)).Set("image", image).Set("patch", patch);
  return t.Set("channels", c.Int("num_channels", 3)).Set("classes", c.Int("num_labels", 1000));
}

struct ModelType {
  std::string name;
  Translation (*translate)(const ConfigFile&);
};

const std::vector<ModelType>& ModelTypes() {
  static const std::vector<ModelType> types = {
      {"gpt2", FromGpt2},   {"llama", FromLlamaItself}, {"mistral", FromMistral},
      {"qwen2", FromQwen2}, {"mixtral", FromMixtral},   {"gpt_neox", FromNeox},
      {"opt", FromOpt},     {"bert", FromBert},         {"t5", FromT5},
      {"vit", FromVit},
  };
  return types;
}

Translation Translate(const ConfigFile& config) {
  std::string type = config.Text("model_type");
  std::vector<std::string> names;
  for (const ModelType& known : ModelTypes()) {
    if (known.name == type) return known.translate(config);
    names.push_back(known.name);
  }
  if (type.size() > 60) type = type.substr(0, 60) + "...";
  config.Refuse(fmt::format("'model_type' is '{}'; known are {}; others can be exported to ONNX",
                            type, fmt::join(names, ", ")));
}

// The folder's name says more than "config.json".
std::string GraphName(const std::string& path) {
  std::filesystem::path file(path);
  std::string stem = file.stem().string();
  std::string folder = file.parent_path().filename().string();
  return stem == "config" && !folder.empty() && folder != "." && folder != ".." ? folder : stem;
}

}  // namespace

Graph ParseHfConfig(std::string_view text, const std::string& path, const ImportOptions& options) {
  ConfigFile config(ParseJson(text, path), path);
  Translation translation = Translate(config);
  translation.Set("batch", kDefaultBatch);
  for (const auto& [name, size] : options.dims) translation.Set(name, size);
  if (translation.Int("experts", 1) > 1 && !options.dims.contains("group")) {
    translation.Set("group", std::gcd(translation.Int("seq", kDefaultSeq), kDefaultGroup));
  }
  try {
    return BuildFamily(translation.family, translation.values, GraphName(path));
  } catch (const InputError& error) {
    config.Refuse(error.what());
  }
}

Graph LoadHfConfig(const std::string& path, const ImportOptions& options) {
  return ParseHfConfig(ReadFile(path, kMaxJsonBytes), path, options);
}

}  // namespace heddle
