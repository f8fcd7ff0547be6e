#include "frontend/families/model_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "ops/op.h"

namespace heddle {
namespace {

constexpr double kMaskedScore = -10000;  // the score of masked positions, as in GPT-2 and Megatron

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Paddings [p, q] at the beginning, followed by the same at the end.
std::vector<int64_t> BothEnds(const std::vector<int64_t>& pads) {
  std::vector<int64_t> both = pads;
  both.insert(both.end(), pads.begin(), pads.end());
  return both;
}

Attributes PoolAttributes(int64_t kernel, int64_t stride, int64_t pad) {
  return {{"kernel", std::vector<int64_t>(2, kernel)},
          {"strides", std::vector<int64_t>(2, stride)},
          {"pads", std::vector<int64_t>(4, pad)},
          {"ceil_mode", int64_t{0}}};
}

}  // namespace

ModelBuilder::ModelBuilder(std::string name) { graph_.name = std::move(name); }

ModelBuilder::Scope::Scope(ModelBuilder& builder, std::string_view name)
    : builder_(builder), length_(builder.prefix_.size()) {
  builder_.prefix_ += name;
  builder_.prefix_ += '.';
}

std::string ModelBuilder::Unique(std::string_view name) {
  std::string full = prefix_ + std::string(name);
  while (true) {
    int64_t times = used_[full]++;
    std::string candidate = times == 0 ? full : fmt::format("{}_{}", full, times);
    if (names_.insert(candidate).second) return candidate;
  }
}

ValueId ModelBuilder::Input(std::string_view name, DType dtype, Shape shape) {
  return graph_.AddValue(Unique(name), {dtype, std::move(shape)}, ValueKind::kInput);
}

ValueId ModelBuilder::Parameter(std::string_view name, Shape shape) {
  std::string full = prefix_ + std::string(name);
  auto known = parameters_.find(full);
  if (known != parameters_.end()) {
    HEDDLE_CHECK(graph_.value(known->second).type.shape == shape, "{} has two shapes", full);
    return known->second;
  }
  ElementCount(shape, full);
  ValueId id =
      graph_.AddValue(Unique(name), {DType::kF32, std::move(shape)}, ValueKind::kParameter);
  parameters_.emplace(std::move(full), id);
  return id;
}

ValueId ModelBuilder::Constant(std::string_view name, HostTensor data) {
  auto shared = std::make_shared<const HostTensor>(std::move(data));
  constant_bytes_ += static_cast<int64_t>(shared->data.size());
  return graph_.AddValue(Unique(name), shared->type(), ValueKind::kConstant, shared);
}

ValueId ModelBuilder::Range(std::string_view name, Shape shape, int64_t first) {
  RequireConstant(ElementCount(shape, name), sizeof(int64_t), name);
  HostTensor data(DType::kI64, std::move(shape));
  int64_t next = first;
  for (int64_t& value : data.as<int64_t>()) value = next++;
  return Constant(name, std::move(data));
}

ValueId ModelBuilder::Scalar(std::string_view name, double value) {
  return Constant(name, MakeTensor(DType::kF32, {}, std::vector<double>{value}));
}

CausalMask ModelBuilder::Causal(std::string_view name, int64_t seq) {
  std::string seen = fmt::format("{}.seen", name);
  RequireConstant(seq, seq, seen);
  HostTensor table(DType::kBool, {1, 1, seq, seq});
  uint8_t* row = table.as<uint8_t>().data();
  for (int64_t i = 0; i < seq; ++i, row += seq) std::fill(row, row + i + 1, uint8_t{1});
  ValueId mask = Constant(seen, std::move(table));
  return {mask, Scalar(fmt::format("{}.unseen", name), kMaskedScore)};
}

void ModelBuilder::RequireConstant(int64_t count, int64_t bytes, std::string_view what) const {
  int64_t size = CheckedMul(count, bytes, what);
  if (size > kMaxConstantBytes - constant_bytes_) {
    ThrowInput(
        "the constant '{}' takes {} bytes; a model may have at most {} bytes of constants: choose "
        "a smaller seq, "
        "or fewer experts",
        what, size, kMaxConstantBytes);
  }
}

std::vector<ValueId> ModelBuilder::Named(std::string_view op, std::vector<ValueId> operands,
                                         Attributes attributes, std::string_view name) {
  if (static_cast<int64_t>(graph_.nodes.size()) >= kMaxModelNodes) {
    ThrowInput("the model has more than {} ops: choose fewer layers", kMaxModelNodes);
  }
  std::string unique = Unique(name);
  try {
    return AddOp(graph_, op, std::move(attributes), std::move(operands), unique);
  } catch (const InputError& error) {
    ThrowInput("{}: {}", unique, error.what());
  }
}

ValueId ModelBuilder::Op(std::string_view op, std::vector<ValueId> operands,
                         Attributes attributes) {
  return Named(op, std::move(operands), std::move(attributes), Lower(op)).front();
}

std::vector<ValueId> ModelBuilder::Ops(std::string_view op, std::vector<ValueId> operands,
                                       Attributes attributes) {
  return Named(op, std::move(operands), std::move(attributes), Lower(op));
}

int64_t ModelBuilder::dim(ValueId id, int64_t axis) const {
  const Shape& sizes = shape(id);
  int64_t rank = static_cast<int64_t>(sizes.size());
  return sizes[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

ValueId ModelBuilder::Concat(std::vector<ValueId> parts, int64_t axis) {
  return Op("Concat", std::move(parts), {{"axis", axis}});
}

std::vector<ValueId> ModelBuilder::Split(ValueId x, std::vector<int64_t> sizes, int64_t axis) {
  return Ops("Split", {x}, {{"axis", axis}, {"sizes", std::move(sizes)}});
}

ValueId ModelBuilder::Slice(ValueId x, int64_t axis, int64_t start, int64_t end) {
  return Op("Slice", {x},
            {{"axes", std::vector<int64_t>{axis}},
             {"starts", std::vector<int64_t>{start}},
             {"ends", std::vector<int64_t>{end}},
             {"steps", std::vector<int64_t>{1}}});
}

ValueId ModelBuilder::Cast(ValueId x, DType to) {
  return Op("Cast", {x}, {{"to", std::string(Name(to))}});
}

ValueId ModelBuilder::Dropout(ValueId x, double ratio) {
  return ratio > 0 ? Op("Dropout", {x}, {{"ratio", ratio}}) : x;
}

ValueId ModelBuilder::Gelu(ValueId x, std::string_view approximate) {
  return Op("Gelu", {x}, {{"approximate", std::string(approximate)}});
}

bool IsGated(const std::string& mlp) {
  return mlp == "swiglu" || mlp == "geglu" || mlp == "geglu_erf";
}

ValueId ModelBuilder::Activate(const std::string& mlp, ValueId x) {
  if (mlp == "swiglu" || mlp == "silu") return Op("Silu", {x});
  if (mlp == "gelu" || mlp == "geglu") return Gelu(x, "tanh");
  if (mlp == "gelu_erf" || mlp == "geglu_erf") return Gelu(x, "none");
  ValueId positive = Op("Relu", {x});
  return mlp == "squared_relu" ? Mul(positive, positive) : positive;
}

ValueId ModelBuilder::Linear(ValueId x, int64_t out, std::string_view name, LinearOptions options) {
  int64_t in = dim(x, -1);
  std::vector<ValueId> operands = {x};
  {
    auto scope = In(name);
    operands.push_back(Parameter("weight", options.transposed ? Shape{out, in} : Shape{in, out}));
    if (options.bias) operands.push_back(Parameter("bias", {out}));
  }
  return Named("Linear", std::move(operands), {{"transpose_weight", int64_t{options.transposed}}},
               name)
      .front();
}

ValueId ModelBuilder::LayerNorm(ValueId x, std::string_view name, double epsilon, bool bias) {
  Attributes attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  std::vector<ValueId> operands = {x};
  {
    auto scope = In(name);
    operands.push_back(Parameter("weight", {dim(x, -1)}));
    if (bias) operands.push_back(Parameter("bias", {dim(x, -1)}));
  }
  return Named("LayerNorm", std::move(operands), std::move(attributes), name).front();
}

ValueId ModelBuilder::RMSNorm(ValueId x, std::string_view name, double epsilon) {
  ValueId weight = Parameter(fmt::format("{}.weight", name), {dim(x, -1)});
  return Named("RMSNorm", {x, weight}, {{"axis", int64_t{-1}}, {"epsilon", epsilon}}, name).front();
}

ValueId ModelBuilder::SplitHeads(ValueId x, int64_t heads) {
  ValueId apart = Reshape(x, {dim(x, 0), dim(x, 1), heads, dim(x, 2) / heads});
  return Transpose(apart, {0, 2, 1, 3});
}

ValueId ModelBuilder::MergeHeads(ValueId x) {
  ValueId back = Transpose(x, {0, 2, 1, 3});
  return Reshape(back, {dim(back, 0), dim(back, 1), dim(back, 2) * dim(back, 3)});
}

ValueId ModelBuilder::Attention(ValueId q, ValueId k, ValueId v, AttentionOptions options) {
  if (options.dropout > 0) return DroppedAttention(q, k, v, options);
  std::vector<ValueId> operands = {q, k, v};
  if (options.bias.valid()) operands.push_back(options.bias);
  return Op("Attention", std::move(operands),
            {{"scale", options.scale}, {"causal", int64_t{options.causal}}});
}

ValueId ModelBuilder::DroppedAttention(ValueId q, ValueId k, ValueId v,
                                       const AttentionOptions& options) {
  ProbabilityOptions apart{.bias = options.bias, .dropout = options.dropout};
  if (options.scale != 1) {
    ValueId& scale = attention_scales_[options.scale];
    if (!scale.valid()) scale = Scalar("attention.scale", options.scale);
    apart.scale = scale;
  }
  if (options.causal) {
    CausalMask& mask = causal_masks_[dim(q, 2)];
    if (!mask.visible.valid()) mask = Causal("attention", dim(q, 2));
    apart.visible = mask.visible;
    apart.masked_score = mask.masked_score;
  }
  ValueId probabilities = AttentionProbabilities(q, k, apart);
  return Op("MatMul", {probabilities, v});
}

ValueId ModelBuilder::AttentionProbabilities(ValueId q, ValueId k,
                                             const ProbabilityOptions& options) {
  ValueId scores = Op("MatMul", {q, Transpose(k, {0, 1, 3, 2})});
  if (options.scale.valid()) scores = Mul(scores, options.scale);
  if (options.bias.valid()) scores = Add(scores, options.bias);
  if (options.visible.valid())
    scores = Op("Where", {options.visible, scores, options.masked_score});
  return Dropout(Op("Softmax", {scores}, {{"axis", int64_t{-1}}}), options.dropout);
}

ValueId ModelBuilder::Conv(ValueId x, int64_t out, std::vector<int64_t> kernel,
                           std::string_view name, WindowOptions options) {
  Shape weight = {out, dim(x, 1)};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  std::vector<ValueId> operands = {x};
  {
    auto scope = In(name);
    operands.push_back(Parameter("weight", std::move(weight)));
    if (options.bias) operands.push_back(Parameter("bias", {out}));
  }
  Attributes attributes = {{"strides", std::vector<int64_t>(kernel.size(), options.stride)},
                           {"pads", BothEnds(options.pads)},
                           {"dilations", std::vector<int64_t>(kernel.size(), 1)},
                           {"group", int64_t{1}}};
  return Named("Conv", std::move(operands), std::move(attributes), name).front();
}

ValueId ModelBuilder::BatchNorm(ValueId x, std::string_view name, double epsilon) {
  std::vector<ValueId> operands = {x};
  for (std::string_view part : {"weight", "bias"}) {
    operands.push_back(Parameter(fmt::format("{}.{}", name, part), {dim(x, 1)}));
  }
  return Named("BatchNorm", std::move(operands), {{"epsilon", epsilon}}, name).front();
}

ValueId ModelBuilder::MaxPool(ValueId x, int64_t kernel, int64_t stride, int64_t pad) {
  Attributes attributes = PoolAttributes(kernel, stride, pad);
  attributes["dilations"] = std::vector<int64_t>(2, 1);
  return Op("MaxPool", {x}, std::move(attributes));
}

ValueId ModelBuilder::AveragePool(ValueId x, int64_t kernel, int64_t stride, int64_t pad) {
  Attributes attributes = PoolAttributes(kernel, stride, pad);
  attributes["count_include_pad"] = int64_t{1};
  return Op("AveragePool", {x}, std::move(attributes));
}

ValueId ModelBuilder::CrossEntropy(ValueId logits, ValueId labels) {
  if (shape(logits).size() == 3) {
    int64_t rows = CheckedMul(dim(logits, 0), dim(logits, 1), "the number of labels");
    logits = Reshape(logits, {rows, dim(logits, 2)});
    labels = Reshape(labels, {rows});
  }
  Attribute ignored = int64_t{-100};
  ValueId count = Op("LabelCount", {labels}, {{"ignore_index", ignored}});
  return Named("CrossEntropy", {logits, labels, count},
               {{"ignore_index", ignored}, {"reduction", std::string("mean")}}, "loss")
      .front();
}

Graph ModelBuilder::Finish(ValueId loss) {
  graph_.outputs = {loss};
  std::vector<std::string> wrong = VerifyModel(graph_);
  HEDDLE_CHECK(wrong.empty(), "{}", wrong.front());
  return std::move(graph_);
}

}  // namespace heddle
