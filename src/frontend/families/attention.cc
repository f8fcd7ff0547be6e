// The variants of self-attention in decoders, and the constants for positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/families/decoder.h"

namespace heddle {
namespace {

constexpr double kSinusoidBase = 10000;  // as in Transformer-XL

// base^(-2i/width), computed in f32 as in PyTorch.
std::vector<float> Frequencies(int64_t width, double base) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < width / 2; ++i) {
    double exponent = static_cast<double>(2 * i) / static_cast<double>(width);
    frequencies.push_back(static_cast<float>(1 / std::pow(base, exponent)));
  }
  return frequencies;
}

// A function of the angles position * frequency. The second half of each row repeats the first.
HostTensor RotaryTable(int64_t seq, int64_t width, double theta, float (*function)(float)) {
  HostTensor table(DType::kF32, {1, 1, seq, width});
  float* row = table.as<float>().data();
  std::vector<float> frequencies = Frequencies(width, theta);
  size_t half = frequencies.size();
  for (int64_t position = 0; position < seq; ++position, row += width) {
    for (size_t i = 0; i < half; ++i) {
      row[i] = row[i + half] = function(static_cast<float>(position) * frequencies[i]);
    }
  }
  return table;
}

// Press et al., "Train Short, Test Long": head h of 2^k heads adds 2^(-8(h+1)/2^k) per position; heads beyond a power
// of two use every second slope of the next power. Softmax ignores a constant that is added to a whole row, so the bias
// depends only on the key's position.
HostTensor AlibiTable(int64_t heads, int64_t seq) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  HostTensor table(DType::kF32, {1, heads, 1, seq});
  auto values = table.as<float>();
  for (int64_t head = 0; head < heads; ++head) {
    double step = head < power ? static_cast<double>(head + 1)
                               : (2 * static_cast<double>(head - power) + 1) / 2;
    double slope = std::pow(2.0, -8 * step / static_cast<double>(power));
    for (int64_t j = 0; j < seq; ++j) {
      values[static_cast<size_t>(head * seq + j)] =
          static_cast<float>(slope * static_cast<double>(j));
    }
  }
  return table;
}

// Distances seq-1 ... 0 as in Transformer-XL: sines, then cosines.
HostTensor SinusoidTable(int64_t seq, int64_t width) {
  HostTensor table(DType::kF32, {1, seq, width});
  float* row = table.as<float>().data();
  std::vector<float> frequencies = Frequencies(width, kSinusoidBase);
  size_t half = frequencies.size();
  for (int64_t distance = seq - 1; distance >= 0; --distance, row += width) {
    for (size_t i = 0; i < half; ++i) {
      float angle = static_cast<float>(distance) * frequencies[i];
      row[i] = std::sin(angle);
      row[i + half] = std::cos(angle);
    }
  }
  return table;
}

// x cos + rotated(x) sin, applied to the first dimensions of every head, as many as `cos` has.
ValueId Rotate(ModelBuilder& b, const Tables& tables, ValueId x) {
  int64_t width = b.dim(tables.cos, -1), whole = b.dim(x, -1), half = width / 2;
  std::vector<ValueId> parts = {x};
  if (width < whole) parts = b.Split(x, {width, whole - width}, 3);
  ValueId turning = parts[0];
  ValueId straight = b.Mul(turning, tables.cos);
  ValueId first = b.Slice(turning, 3, 0, half);
  ValueId second = b.Slice(turning, 3, half, width);
  ValueId turned = b.Concat({b.Op("Neg", {second}), first}, 3);
  ValueId rotated = b.Add(straight, b.Mul(turned, tables.sin));
  return width < whole ? b.Concat({rotated, parts[1]}, 3) : rotated;
}

struct Qkv {
  ValueId q, k, v;  // [batch, heads, seq, width]
};

Qkv ProjectFused(ModelBuilder& b, const DecoderConfig& c, ValueId x) {
  int64_t q = c.attention.heads * c.attention.head_dim,
          kv = c.attention.kv_heads * c.attention.head_dim;
  LinearOptions options{.bias = c.attention.qkv_bias, .transposed = c.names.transposed};
  ValueId all = b.Linear(x, q + 2 * kv, c.names.qkv, options);
  if (c.attention.qkv == "fused") {
    std::vector<ValueId> parts = b.Split(all, {q, kv, kv}, 2);
    return {b.SplitHeads(parts[0], c.attention.heads), b.SplitHeads(parts[1], c.attention.kv_heads),
            b.SplitHeads(parts[2], c.attention.kv_heads)};
  }
  ValueId heads = b.SplitHeads(all, c.attention.heads);
  std::vector<ValueId> parts =
      b.Split(heads, {c.attention.head_dim, c.attention.head_dim, c.attention.head_dim}, 3);
  return {parts[0], parts[1], parts[2]};
}

Qkv ProjectApart(ModelBuilder& b, const DecoderConfig& c, ValueId x) {
  LinearOptions options{.bias = c.attention.qkv_bias, .transposed = c.names.transposed};
  auto project = [&](int64_t heads, const std::string& name) {
    return b.SplitHeads(b.Linear(x, heads * c.attention.head_dim, name, options), heads);
  };
  ValueId q = project(c.attention.heads, c.names.q);
  ValueId k = project(c.attention.kv_heads, c.names.k);
  return {q, k, project(c.attention.kv_heads, c.names.v)};
}

// DeepSeek-V2's multi-head latent attention: queries, and keys with values, are projected through narrow latents; all
// heads share one rotary key.
Qkv ProjectLatent(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x) {
  auto scope = b.In("self_attn");
  LinearOptions plain{.bias = false};
  ValueId latent = Norm(b, c, b.Linear(x, c.attention.q_lora, "q_a_proj", plain), "q_a_layernorm");
  int64_t width = c.attention.head_dim + c.attention.rope_head_dim;
  ValueId q = b.SplitHeads(b.Linear(latent, c.attention.heads * width, "q_b_proj", plain),
                           c.attention.heads);
  std::vector<ValueId> q_parts = b.Split(q, {c.attention.head_dim, c.attention.rope_head_dim}, 3);
  q = b.Concat({q_parts[0], Rotate(b, tables, q_parts[1])}, 3);

  ValueId kv =
      b.Linear(x, c.attention.kv_lora + c.attention.rope_head_dim, "kv_a_proj_with_mqa", plain);
  std::vector<ValueId> kv_parts = b.Split(kv, {c.attention.kv_lora, c.attention.rope_head_dim}, 2);
  ValueId key = Rotate(b, tables, b.SplitHeads(kv_parts[1], 1));
  key = b.Op("Expand", {key},
             {{"shape", Shape{c.batch, c.attention.heads, c.seq, c.attention.rope_head_dim}}});
  kv = Norm(b, c, kv_parts[0], "kv_a_layernorm");
  kv = b.SplitHeads(b.Linear(kv, 2 * c.attention.heads * c.attention.head_dim, "kv_b_proj", plain),
                    c.attention.heads);
  std::vector<ValueId> k_v = b.Split(kv, {c.attention.head_dim, c.attention.head_dim}, 3);
  return {q, b.Concat({k_v[0], key}, 3), k_v[1]};
}

// Transformer-XL: adds (q + v) . r(i - j) to the scores, where r are projected sinusoids. The shift by one column per
// row, which turns positions into distances, is a pad, a reshape and a slice. Returns the bias and adds u to q.
ValueId RelativeBias(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId* q) {
  Shape per_head = {c.attention.heads, 1, c.attention.head_dim};
  ValueId r =
      b.SplitHeads(b.Linear(tables.sinusoids, c.attention.heads * c.attention.head_dim,
                            "attn.r_proj", {.bias = false, .transposed = c.names.transposed}),
                   c.attention.heads);
  ValueId query = b.Add(*q, b.Parameter("attn.r_r_bias", per_head));
  *q = b.Add(*q, b.Parameter("attn.r_w_bias", per_head));
  ValueId scores = b.Op("MatMul", {query, b.Transpose(r, {0, 1, 3, 2})});
  ValueId padded = b.Op("Pad", {scores}, {{"pads", std::vector<int64_t>{0, 0, 0, 1, 0, 0, 0, 0}}});
  ValueId shifted = b.Reshape(padded, {c.batch, c.attention.heads, c.seq + 1, c.seq});
  return b.Mul(b.Slice(shifted, 2, 1, c.seq + 1), tables.scale);
}

// [batch, kv_heads, seq, d] with every head repeated for the queries that share it.
ValueId RepeatHeads(ModelBuilder& b, const DecoderConfig& c, ValueId x) {
  if (c.attention.kv_heads == c.attention.heads) return x;
  int64_t times = c.attention.heads / c.attention.kv_heads, width = b.dim(x, -1);
  ValueId apart = b.Reshape(x, {c.batch, c.attention.kv_heads, 1, c.seq, width});
  ValueId wide = b.Op("Expand", {apart},
                      {{"shape", Shape{c.batch, c.attention.kv_heads, times, c.seq, width}}});
  return b.Reshape(wide, {c.batch, c.attention.heads, c.seq, width});
}

// softmax(scale q k^T + bias, masked) v as separate ops.
ValueId UnfusedAttention(ModelBuilder& b, const DecoderConfig& c, const Tables& tables,
                         const Qkv& p, ValueId bias) {
  ValueId probabilities = b.AttentionProbabilities(p.q, RepeatHeads(b, c, p.k),
                                                   {.scale = tables.score_scale,
                                                    .bias = bias,
                                                    .visible = tables.visible,
                                                    .masked_score = tables.masked_score,
                                                    .dropout = c.attention.dropout});
  return b.Op("MatMul", {probabilities, RepeatHeads(b, c, p.v)});
}

}  // namespace

void AddAttentionTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables) {
  if (c.position.kind == "rope") {
    b.RequireConstant(2 * c.seq, 4 * c.position.rotary_dim, "rotary");
    tables->cos = b.Constant("rotary.cos",
                             RotaryTable(c.seq, c.position.rotary_dim, c.position.theta, std::cos));
    tables->sin = b.Constant("rotary.sin",
                             RotaryTable(c.seq, c.position.rotary_dim, c.position.theta, std::sin));
  } else if (c.position.kind == "alibi") {
    b.RequireConstant(c.seq, 4 * c.attention.heads, "alibi");
    tables->alibi = b.Constant("alibi", AlibiTable(c.attention.heads, c.seq));
  } else if (c.position.kind == "relative") {
    b.RequireConstant(c.seq, 4 * c.hidden, "sinusoids");
    tables->sinusoids = b.Constant("sinusoids", SinusoidTable(c.seq, c.hidden));
    tables->scale =
        b.Scalar("relative.scale", 1 / std::sqrt(static_cast<double>(c.attention.head_dim)));
  }
  if (c.attention.kind != "unfused") return;
  tables->score_scale =
      b.Scalar("attention.scale", 1 / std::sqrt(static_cast<double>(c.attention.head_dim)));
  if (!c.attention.causal) return;
  CausalMask mask = b.Causal("attention", c.seq);
  tables->visible = mask.visible;
  tables->masked_score = mask.masked_score;
}

ValueId SelfAttention(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x) {
  bool latent = c.attention.kind == "mla";
  Qkv p = latent                          ? ProjectLatent(b, c, tables, x)
          : c.attention.qkv == "separate" ? ProjectApart(b, c, x)
                                          : ProjectFused(b, c, x);
  if (c.attention.qk_norm && !latent) {
    p.q = Norm(b, c, p.q, c.names.q + "_norm");
    p.k = Norm(b, c, p.k, c.names.k + "_norm");
  }
  if (c.position.kind == "rope" && !latent) {
    p.q = Rotate(b, tables, p.q);
    p.k = Rotate(b, tables, p.k);
  }
  AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(b.dim(p.q, -1))),
                           .causal = c.attention.causal,
                           .bias = tables.alibi};
  if (c.position.kind == "relative") options.bias = RelativeBias(b, c, tables, &p.q);
  ValueId attended = c.attention.kind == "unfused" ? UnfusedAttention(b, c, tables, p, options.bias)
                                                   : b.Attention(p.q, p.k, p.v, options);
  ValueId merged = b.MergeHeads(attended);
  return b.Linear(merged, c.hidden, c.names.out,
                  {.bias = c.attention.out_bias, .transposed = c.names.transposed});
}

}  // namespace heddle
