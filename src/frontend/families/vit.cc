// Vision Transformer: patches are tokens, and a class token in front of them is used for the classification.
#include <fmt/format.h>

#include <cmath>

#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

struct VitConfig {
  int64_t batch, image, patch, channels, classes, layers, hidden, heads, ffn;
  double dropout, attention_dropout, norm_eps;
  bool qkv_bias;
  std::string mlp;
};

VitConfig ReadVit(const Settings& s) {
  VitConfig c{s.Int("batch"),
              s.Int("image"),
              s.Int("patch"),
              s.Int("channels"),
              s.Int("classes"),
              s.Int("layers"),
              s.Int("hidden"),
              s.Int("heads"),
              0,
              s.Real("dropout"),
              s.Real("attention_dropout"),
              s.Real("norm_eps"),
              s.Flag("qkv_bias"),
              s.Choice("mlp")};
  c.ffn = s.Int("ffn", 4 * c.hidden);
  RequireMultiple("hidden", c.hidden, "heads", c.heads);
  RequireMultiple("image", c.image, "patch", c.patch);
  return c;
}

ValueId EmbedVit(ModelBuilder& b, const VitConfig& c, ValueId pixels) {
  auto scope = b.In("vit.embeddings");
  int64_t patches = (c.image / c.patch) * (c.image / c.patch);
  ValueId x = b.Conv(pixels, c.hidden, {c.patch, c.patch}, "patch_embeddings.projection",
                     {.stride = c.patch, .bias = true});
  x = b.Transpose(b.Reshape(x, {c.batch, c.hidden, patches}), {0, 2, 1});
  ValueId token = b.Op("Expand", {b.Parameter("cls_token", {1, 1, c.hidden})},
                       {{"shape", Shape{c.batch, 1, c.hidden}}});
  x = b.Concat({token, x}, 1);
  return b.Dropout(b.Add(x, b.Parameter("position_embeddings", {1, patches + 1, c.hidden})),
                   c.dropout);
}

ValueId VitLayer(ModelBuilder& b, const VitConfig& c, ValueId x) {
  ValueId normed = b.LayerNorm(x, "layernorm_before", c.norm_eps);
  LinearOptions qkv{.bias = c.qkv_bias};
  ValueId q = b.SplitHeads(b.Linear(normed, c.hidden, "attention.q_proj", qkv), c.heads);
  ValueId k = b.SplitHeads(b.Linear(normed, c.hidden, "attention.k_proj", qkv), c.heads);
  ValueId v = b.SplitHeads(b.Linear(normed, c.hidden, "attention.v_proj", qkv), c.heads);
  double scale = 1 / std::sqrt(static_cast<double>(c.hidden / c.heads));
  ValueId attended =
      b.MergeHeads(b.Attention(q, k, v, {.scale = scale, .dropout = c.attention_dropout}));
  x = b.Add(b.Dropout(b.Linear(attended, c.hidden, "attention.o_proj"), c.dropout), x);
  ValueId inner =
      b.Activate(c.mlp, b.Linear(b.LayerNorm(x, "layernorm_after", c.norm_eps), c.ffn, "mlp.fc1"));
  return b.Add(b.Dropout(b.Linear(inner, c.hidden, "mlp.fc2"), c.dropout), x);
}

Graph BuildVit(const Settings& settings, const std::string& name) {
  VitConfig c = ReadVit(settings);
  ModelBuilder b(name);
  ValueId pixels = b.Input("pixels", DType::kF32, {c.batch, c.channels, c.image, c.image});
  ValueId labels = b.Input("labels", DType::kI64, {c.batch});
  ValueId x = EmbedVit(b, c, pixels);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    auto scope = b.In(fmt::format("vit.layers.{}", layer));
    x = VitLayer(b, c, x);
  }
  x = b.LayerNorm(x, "vit.layernorm", c.norm_eps);
  ValueId first = b.Op("Gather", {x, b.Range("class_token", {})}, {{"axis", int64_t{1}}});
  return b.Finish(b.CrossEntropy(b.Linear(first, c.classes, "classifier"), labels));
}

}  // namespace

Family VitFamily() {
  return {"vit",
          "Vision Transformer",
          {
              IntKey("layers", 12, "number of layers", kMaxLayers),
              IntKey("hidden", 768, "width"),
              IntKey("heads", 12, "attention heads"),
              DerivedKey("ffn", "4 * hidden", "inner width of the mlp"),
              IntKey("patch", 16, "pixels along a patch"),
              IntKey("image", 224, "pixels along an image", 1 << 20),
              IntKey("channels", 3, "colours"),
              IntKey("classes", 1000, "classes"),
              IntKey("batch", 32, "images"),
              ChoiceKey("mlp", "gelu_erf", {"gelu_erf", "gelu", "relu", "silu"},
                        "activation; gelu is its tanh approximation"),
              FlagKey("qkv_bias", true, "the projections to q, k, v have biases"),
              RealKey("norm_eps", "1e-12", 0, 1, "added to the variance in norms"),
              RealKey("dropout", "0", 0, 1, "after embedding, attention and mlp"),
              RealKey("attention_dropout", "0", 0, 1,
                      "of the attention probabilities; above 0, attention is not fused"),
          },
          BuildVit};
}

}  // namespace heddle
