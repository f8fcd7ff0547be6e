// BERT with its masked-language-model head: a norm after each part, and a head tied to the token table.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

struct BertConfig {
  int64_t batch, seq, vocab, layers, hidden, heads, ffn, positions, token_types;
  double dropout, attention_dropout, norm_eps;
  std::string mlp;
};

BertConfig ReadBert(const Settings& s) {
  BertConfig c{s.Int("batch"),
               s.Int("seq"),
               s.Int("vocab"),
               s.Int("layers"),
               s.Int("hidden"),
               s.Int("heads"),
               0,
               s.Int("positions"),
               s.Int("token_types"),
               s.Real("dropout"),
               s.Real("attention_dropout"),
               s.Real("norm_eps"),
               s.Choice("mlp")};
  c.ffn = s.Int("ffn", 4 * c.hidden);
  RequireMultiple("hidden", c.hidden, "heads", c.heads);
  if (c.positions < c.seq) ThrowInput("seq={} is more than positions={}", c.seq, c.positions);
  return c;
}

ValueId EmbedBert(ModelBuilder& b, const BertConfig& c, ValueId tokens, ValueId ids) {
  auto scope = b.In("bert.embeddings");
  ValueId types =
      b.Op("Expand", {b.Range("token_type_ids", {1, 1})}, {{"shape", Shape{c.batch, c.seq}}});
  ValueId x = b.Embedding(tokens, ids);
  x = b.Add(x, b.Embedding(b.Parameter("token_type_embeddings.weight", {c.token_types, c.hidden}),
                           types));
  ValueId places = b.Parameter("position_embeddings.weight", {c.positions, c.hidden});
  x = b.Add(x, b.Embedding(places, b.Range("position_ids", {1, c.seq})));
  return b.Dropout(b.LayerNorm(x, "LayerNorm", c.norm_eps), c.dropout);
}

ValueId BertLayer(ModelBuilder& b, const BertConfig& c, ValueId x) {
  ValueId q = b.SplitHeads(b.Linear(x, c.hidden, "attention.self.query"), c.heads);
  ValueId k = b.SplitHeads(b.Linear(x, c.hidden, "attention.self.key"), c.heads);
  ValueId v = b.SplitHeads(b.Linear(x, c.hidden, "attention.self.value"), c.heads);
  double scale = 1 / std::sqrt(static_cast<double>(c.hidden / c.heads));
  ValueId attended =
      b.MergeHeads(b.Attention(q, k, v, {.scale = scale, .dropout = c.attention_dropout}));
  attended = b.Dropout(b.Linear(attended, c.hidden, "attention.output.dense"), c.dropout);
  x = b.LayerNorm(b.Add(attended, x), "attention.output.LayerNorm", c.norm_eps);
  ValueId inner = b.Activate(c.mlp, b.Linear(x, c.ffn, "intermediate.dense"));
  ValueId made = b.Dropout(b.Linear(inner, c.hidden, "output.dense"), c.dropout);
  return b.LayerNorm(b.Add(made, x), "output.LayerNorm", c.norm_eps);
}

Graph BuildBert(const Settings& settings, const std::string& name) {
  BertConfig c = ReadBert(settings);
  ModelBuilder b(name);
  ValueId ids = b.Input("input_ids", DType::kI64, {c.batch, c.seq});
  ValueId labels = b.Input("labels", DType::kI64, {c.batch, c.seq});
  ValueId tokens = b.Parameter("bert.embeddings.word_embeddings.weight", {c.vocab, c.hidden});
  ValueId x = EmbedBert(b, c, tokens, ids);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    auto scope = b.In(fmt::format("bert.encoder.layer.{}", layer));
    x = BertLayer(b, c, x);
  }
  auto scope = b.In("cls.predictions");
  x = b.LayerNorm(b.Activate(c.mlp, b.Linear(x, c.hidden, "transform.dense")),
                  "transform.LayerNorm", c.norm_eps);
  ValueId logits = b.Op("Linear", {x, tokens, b.Parameter("bias", {c.vocab})},
                        {{"transpose_weight", int64_t{1}}});
  return b.Finish(b.CrossEntropy(logits, labels));
}

}  // namespace

Family BertFamily() {
  return {"bert",
          "encoder with a masked-language-model head",
          {
              IntKey("layers", 12, "number of layers", kMaxLayers),
              IntKey("hidden", 768, "width"),
              IntKey("heads", 12, "attention heads"),
              DerivedKey("ffn", "4 * hidden", "inner width of the mlp"),
              IntKey("vocab", 30522, "vocabulary"),
              IntKey("seq", 512, "tokens per sequence"),
              IntKey("batch", 8, "sequences"),
              IntKey("positions", 512, "rows of the position table"),
              IntKey("token_types", 2, "rows of the token type table"),
              ChoiceKey("mlp", "gelu_erf", {"gelu_erf", "gelu", "relu", "silu"},
                        "activation; gelu is its tanh approximation"),
              RealKey("norm_eps", "1e-12", 0, 1, "added to the variance in norms"),
              RealKey("dropout", "0", 0, 1, "after embedding, attention and mlp"),
              RealKey("attention_dropout", "0", 0, 1,
                      "of the attention probabilities; above 0, attention is not fused"),
          },
          BuildBert};
}

}  // namespace heddle
