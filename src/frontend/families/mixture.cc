// A layer of experts as in GShard (Lepikhin et al., 2020). A router scores every token for every expert, and each token
// is sent to the k experts with the highest scores. Within a group of tokens each expert has the capacity
//
//   capacity = ceil(group * top_k * capacity_factor / experts)
//
// Dispatch is a tensor [groups, tokens, experts, capacity] of zeros and ones that is contracted with the tokens.
// Combination uses the same tensor weighted by the router's scores. All shapes are static, and expert parallelism
// splits the dimension of the experts. Dispatch costs group * top_k * capacity_factor * hidden multiply-adds per token,
// so small groups make it cheap.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "frontend/families/decoder.h"

namespace heddle {
namespace {

int64_t Capacity(const DecoderConfig& c) {
  double even = static_cast<double>(c.experts.group) * static_cast<double>(c.experts.top_k) /
                static_cast<double>(c.experts.count);
  double room = std::ceil(even * c.experts.capacity_factor);
  if (room > static_cast<double>(kMaxSize))
    ThrowInput(
        "capacity_factor={} gives experts a capacity of {} tokens, which is too large; choose a "
        "smaller one",
        c.experts.capacity_factor, room);
  return std::max<int64_t>(1, static_cast<int64_t>(room));
}

// Indices [..., k] as zeros and ones [..., k, n].
ValueId OneHotOf(ModelBuilder& b, ValueId indices, ValueId range) {
  Shape shape = b.shape(indices);
  shape.push_back(1);
  ValueId equal = b.Op("Equal", {b.Reshape(indices, shape), range});
  return b.Cast(equal, DType::kI64);
}

struct Routes {
  ValueId dispatch, combine;  // [groups, tokens, experts, capacity]
};

Routes Route(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x) {
  int64_t capacity = Capacity(c);
  Shape column = {b.dim(x, 0), b.dim(x, 1), c.experts.count, 1};
  ValueId scores = b.Op("Softmax", {b.Linear(x, c.experts.count, c.names.router, {.bias = false})},
                        {{"axis", int64_t{2}}});
  ValueId chosen = b.Ops("TopK", {scores},
                         {{"k", c.experts.top_k},
                          {"axis", int64_t{2}},
                          {"largest", int64_t{1}},
                          {"sorted", int64_t{1}}})[1];
  ValueId mask = b.Op("ReduceSum", {b.Cast(OneHotOf(b, chosen, tables.experts), DType::kF32)},
                      {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
  // For each token its number among the tokens of an expert, from 1; 0 where the expert was not chosen.
  ValueId place =
      b.Mul(b.Op("CumSum", {mask},
                 {{"axis", int64_t{1}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{0}}}),
            mask);
  place = b.Op("Clip", {b.Cast(place, DType::kI64)}, {{"max", static_cast<double>(capacity)}});
  ValueId slot = b.Slice(OneHotOf(b, place, tables.places), 3, 1, capacity + 1);
  ValueId dispatch = b.Mul(b.Cast(slot, DType::kF32), b.Reshape(mask, column));
  return {dispatch, b.Mul(dispatch, b.Reshape(b.Mul(scores, mask), column))};
}

ValueId Einsum(ModelBuilder& b, std::string_view equation, ValueId x, ValueId y) {
  return b.Op("Einsum", {x, y}, {{"equation", std::string(equation)}});
}

// Applies each expert's own mlp to its part of [experts, groups, capacity, hidden].
ValueId Experts(ModelBuilder& b, const DecoderConfig& c, ValueId x) {
  auto weight = [&](std::string_view name, int64_t in, int64_t out) {
    return b.Parameter(c.names.experts + std::string(name), {c.experts.count, in, out});
  };
  ValueId inner = b.Activate(
      c.mlp.activation, Einsum(b, "ebcd,edf->ebcf", x, weight("w1", c.hidden, c.experts.width)));
  if (IsGated(c.mlp.activation)) {
    inner = b.Mul(inner, Einsum(b, "ebcd,edf->ebcf", x, weight("w3", c.hidden, c.experts.width)));
  }
  return Einsum(b, "ebcf,efd->ebcd", inner, weight("w2", c.experts.width, c.hidden));
}

}  // namespace

void AddExpertTables(ModelBuilder& b, const DecoderConfig& c, Tables* tables) {
  tables->experts = b.Range("expert_ids", {c.experts.count});
  tables->places = b.Range("places", {Capacity(c) + 1});
}

ValueId MixtureOfExperts(ModelBuilder& b, const DecoderConfig& c, const Tables& tables, ValueId x) {
  bool grouped = c.experts.group != c.seq;
  ValueId tokens =
      grouped ? b.Reshape(x, {c.batch * (c.seq / c.experts.group), c.experts.group, c.hidden}) : x;
  Routes routes = Route(b, c, tables, tokens);
  ValueId sent = Einsum(b, "btec,btd->ebcd", routes.dispatch, tokens);
  ValueId made = Einsum(b, "btec,ebcd->btd", routes.combine, Experts(b, c, sent));
  if (grouped) made = b.Reshape(made, {c.batch, c.seq, c.hidden});
  if (c.experts.shared > 0) {
    auto scope = b.In("shared");
    made = b.Add(made, Mlp(b, c, x, c.experts.shared * c.experts.width));
  }
  return made;
}

}  // namespace heddle
