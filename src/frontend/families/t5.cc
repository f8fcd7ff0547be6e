// T5: an encoder and a decoder with relative position biases, RMS norms and no other biases.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/families/families.h"
#include "frontend/families/model_builder.h"

namespace heddle {
namespace {

struct T5Config {
  int64_t batch, seq, decoder_seq, vocab, layers, decoder_layers, hidden, heads, head_dim, ffn,
      buckets, distance;
  bool tied, gated;
  double dropout, attention_dropout, norm_eps;
};

T5Config ReadT5(const Settings& s) {
  T5Config c{};
  for (auto [key, field] : {std::pair{"batch", &c.batch},
                            {"seq", &c.seq},
                            {"vocab", &c.vocab},
                            {"layers", &c.layers},
                            {"hidden", &c.hidden},
                            {"heads", &c.heads},
                            {"ffn", &c.ffn},
                            {"buckets", &c.buckets},
                            {"distance", &c.distance},
                            {"head_dim", &c.head_dim}}) {
    *field = s.Int(key);
  }
  c.decoder_seq = s.Int("decoder_seq", std::max<int64_t>(1, c.seq / 4));
  c.decoder_layers = s.Int("decoder_layers", c.layers);
  c.tied = s.Flag("tied");
  c.gated = s.Choice("mlp") == "gated_gelu";
  c.dropout = s.Real("dropout");
  c.attention_dropout = s.Real("attention_dropout");
  c.norm_eps = s.Real("norm_eps");
  RequireMultiple("buckets", c.buckets, "4", 4);
  return c;
}

// The bucket of every distance from query i to key j. Short distances have a bucket each; longer ones share buckets on
// a logarithmic scale up to `distance`. An encoder uses half of the buckets for each direction.
HostTensor Buckets(const T5Config& c, int64_t seq, bool both_ways) {
  HostTensor table(DType::kI64, {seq, seq});
  auto values = table.as<int64_t>();
  int64_t count = both_ways ? c.buckets / 2 : c.buckets, exact = count / 2;
  double scale =
      static_cast<double>(count - exact) /
      std::log(static_cast<double>(std::max(c.distance, exact + 1)) / static_cast<double>(exact));
  std::vector<int64_t> bucket(static_cast<size_t>(seq));  // by distance
  for (int64_t d = 0; d < seq; ++d) {
    double far =
        std::log(static_cast<double>(std::max<int64_t>(d, 1)) / static_cast<double>(exact)) * scale;
    bucket[static_cast<size_t>(d)] =
        d < exact ? d : std::min(count - 1, exact + static_cast<int64_t>(far));
  }
  for (int64_t i = 0; i < seq; ++i) {
    for (int64_t j = 0; j < seq; ++j) {
      int64_t away = both_ways ? std::abs(j - i) : std::max<int64_t>(0, i - j);
      int64_t side = both_ways && j > i ? count : 0;
      values[static_cast<size_t>(i * seq + j)] = side + bucket[static_cast<size_t>(away)];
    }
  }
  return table;
}

// [1, heads, seq, seq], computed once for all layers of a stack. Its parameter has the name it has in the first layer.
ValueId PositionBias(ModelBuilder& b, const T5Config& c, int64_t seq, bool both_ways) {
  auto scope = b.In("block.0.layer.0.SelfAttention");
  b.RequireConstant(seq, 8 * seq, "relative position buckets");
  ValueId buckets = b.Constant("buckets", Buckets(c, seq, both_ways));
  ValueId bias =
      b.Embedding(b.Parameter("relative_attention_bias.weight", {c.buckets, c.heads}), buckets);
  return b.Reshape(b.Transpose(bias, {2, 0, 1}), {1, c.heads, seq, seq});
}

ValueId Attend(ModelBuilder& b, const T5Config& c, ValueId x, ValueId memory,
               AttentionOptions options) {
  options.dropout = c.attention_dropout;
  LinearOptions plain{.bias = false};
  int64_t width = c.heads * c.head_dim;
  ValueId q = b.SplitHeads(b.Linear(x, width, "q", plain), c.heads);
  ValueId k = b.SplitHeads(b.Linear(memory, width, "k", plain), c.heads);
  ValueId v = b.SplitHeads(b.Linear(memory, width, "v", plain), c.heads);
  ValueId attended = b.MergeHeads(b.Attention(q, k, v, options));
  return b.Linear(attended, c.hidden, "o", plain);
}

ValueId FeedForward(ModelBuilder& b, const T5Config& c, ValueId x) {
  LinearOptions plain{.bias = false};
  auto scope = b.In("DenseReluDense");
  ValueId inner;
  if (c.gated) {
    inner = b.Gelu(b.Linear(x, c.ffn, "wi_0", plain), "tanh");
    inner = b.Mul(inner, b.Linear(x, c.ffn, "wi_1", plain));
  } else {
    inner = b.Op("Relu", {b.Linear(x, c.ffn, "wi", plain)});
  }
  return b.Linear(b.Dropout(inner, c.dropout), c.hidden, "wo", plain);
}

// x + part(norm(x)), where part has the number `index` in a block.
template <class Part>
ValueId Residual(ModelBuilder& b, const T5Config& c, ValueId x, int index, std::string_view name,
                 Part part) {
  auto scope = b.In(fmt::format("layer.{}", index));
  ValueId normed = b.RMSNorm(x, "layer_norm", c.norm_eps);
  if (name.empty()) return b.Add(x, b.Dropout(part(normed), c.dropout));
  auto inner = b.In(name);
  return b.Add(x, b.Dropout(part(normed), c.dropout));
}

// An encoder, or with `memory` a decoder that also attends to it.
ValueId Stack(ModelBuilder& b, const T5Config& c, std::string_view name, ValueId x,
              ValueId memory) {
  bool decoder = memory.valid();
  auto scope = b.In(name);
  x = b.Dropout(x, c.dropout);
  AttentionOptions self{
      .scale = 1, .causal = decoder, .bias = PositionBias(b, c, b.dim(x, 1), !decoder)};
  for (int64_t block = 0; block < (decoder ? c.decoder_layers : c.layers); ++block) {
    auto inner = b.In(fmt::format("block.{}", block));
    int part = 0;
    x = Residual(b, c, x, part++, "SelfAttention",
                 [&](ValueId y) { return Attend(b, c, y, y, self); });
    if (decoder) {
      x = Residual(b, c, x, part++, "EncDecAttention",
                   [&](ValueId y) { return Attend(b, c, y, memory, {}); });
    }
    x = Residual(b, c, x, part, "", [&](ValueId y) { return FeedForward(b, c, y); });
  }
  return b.Dropout(b.RMSNorm(x, "final_layer_norm", c.norm_eps), c.dropout);
}

Graph BuildT5(const Settings& settings, const std::string& name) {
  T5Config c = ReadT5(settings);
  ModelBuilder b(name);
  ValueId ids = b.Input("input_ids", DType::kI64, {c.batch, c.seq});
  ValueId decoder_ids = b.Input("decoder_input_ids", DType::kI64, {c.batch, c.decoder_seq});
  ValueId labels = b.Input("labels", DType::kI64, {c.batch, c.decoder_seq});
  ValueId tokens = b.Parameter("shared.weight", {c.vocab, c.hidden});
  ValueId memory = Stack(b, c, "encoder", b.Embedding(tokens, ids), {});
  ValueId x = Stack(b, c, "decoder", b.Embedding(tokens, decoder_ids), memory);
  ValueId logits;
  if (c.tied) {
    logits = b.TiedLinear(b.Mul(x, b.Scalar("scale", 1 / std::sqrt(static_cast<double>(c.hidden)))),
                          tokens);
  } else {
    logits = b.Linear(x, c.vocab, "lm_head", {.bias = false});
  }
  return b.Finish(b.CrossEntropy(logits, labels));
}

}  // namespace

Family T5Family() {
  return {"t5",
          "encoder and decoder with relative position biases",
          {
              IntKey("layers", 6, "layers of the encoder", kMaxLayers),
              DerivedKey("decoder_layers", "layers", "layers of the decoder"),
              IntKey("hidden", 512, "width"),
              IntKey("heads", 8, "attention heads"),
              IntKey("head_dim", 64, "width of a head"),
              IntKey("ffn", 2048, "inner width of the mlp"),
              IntKey("vocab", 32128, "vocabulary"),
              IntKey("seq", 512, "tokens of the encoder"),
              DerivedKey("decoder_seq", "seq / 4", "tokens of the decoder"),
              IntKey("batch", 8, "sequences"),
              ChoiceKey("mlp", "relu", {"relu", "gated_gelu"}, "gated_gelu is the mlp of T5 1.1"),
              FlagKey("tied", true, "the head shares the token table"),
              IntKey("buckets", 32, "number of buckets of relative positions", 4096),
              IntKey("distance", 128, "distance from which positions share the last bucket"),
              RealKey("norm_eps", "1e-6", 0, 1, "added to the mean square in norms"),
              RealKey("dropout", "0", 0, 1, "after embedding, attention and mlp"),
              RealKey("attention_dropout", "0", 0, 1,
                      "of the attention probabilities; above 0, attention is not fused"),
          },
          BuildT5};
}

}  // namespace heddle
