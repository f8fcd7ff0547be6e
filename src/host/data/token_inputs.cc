#include "host/data/token_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "host/data/input_use.h"
#include "host/data/row_source.h"

namespace heddle {
namespace {

bool Contains(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

int64_t MaxOf(DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return std::numeric_limits<int8_t>::max();
    case DType::kU8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kI16:
      return std::numeric_limits<int16_t>::max();
    case DType::kI32:
      return std::numeric_limits<int32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max() - 1;
  }
}

class Assigner {
 public:
  Assigner(const Graph& graph, const std::string& file) : graph_(graph), file_(file) {}

  TokenInputs Assign() {
    out_.batch = BatchOf(graph_);
    out_.vocabulary = std::numeric_limits<int64_t>::max();
    for (ValueId id : graph_.ValuesOf(ValueKind::kInput)) AddInput(id);
    if (tokens_.empty()) {
      ThrowInput(
          "{}: holds tokens, but the model reads none: no integer input looks up a table; {}",
          file_, kRemedy);
    }
    PlaceTokens();
    for (const Label& label : labels_) PlaceLabels(label);
    if (labels_.empty()) out_.labels = "the model makes its own labels";
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kRemedy = "give its inputs in a .safetensors file";

  struct Label {
    size_t input;
    int64_t shift;
  };

  void AddInput(ValueId id) {
    const Value& value = graph_.value(id);
    const Shape& shape = value.type.shape;
    TokenInput input{value.name, value.type, TokenRole::kOnes, 0, 0};
    input.length = ElementCount(shape) / out_.batch;
    if (Contains(value.name, "mask") && !Contains(value.name, "label")) {
      out_.inputs.push_back(input);
      return;
    }
    if (IsFloat(value.type.dtype) || value.type.dtype == DType::kBool) {
      ThrowInput("{}: holds tokens, but input '{}' {} of the model is not made of tokens; {}",
                 file_, value.name, ToString(value.type), kRemedy);
    }
    if (shape.size() != 2) {
      ThrowInput("{}: gives a token per position, but input '{}' {} is not [batch, sequence]; {}",
                 file_, value.name, ToString(value.type), kRemedy);
    }
    if (Contains(value.name, "position")) {
      input.role = TokenRole::kPositions;
    } else if (Contains(value.name, "token_type") || Contains(value.name, "segment")) {
      input.role = TokenRole::kZeros;
    } else {
      input.role = RoleByUse(id);
    }
    out_.inputs.push_back(input);
  }

  TokenRole RoleByUse(ValueId id) {
    const Value& value = graph_.value(id);
    std::vector<InputUse> uses = UsesOf(graph_, id);
    if (uses.empty()) {
      ThrowInput("{}: holds tokens, but input '{}' {} is neither tokens nor labels: {}; {}", file_,
                 value.name, ToString(value.type), "it reaches no table and no loss", kRemedy);
    }
    bool table = false;
    const InputUse* label = nullptr;
    for (const InputUse& use : uses) {
      table |= use.kind == InputUse::Kind::kTable;
      if (use.kind == InputUse::Kind::kLabel && label == nullptr) label = &use;
      out_.vocabulary = std::min(out_.vocabulary, use.bound);
    }
    out_.vocabulary = std::min(out_.vocabulary, MaxOf(value.type.dtype) + 1);
    size_t index = out_.inputs.size();
    if (!table) {
      labels_.push_back({index, label->shift});
      return TokenRole::kLabels;
    }
    tokens_.push_back(index);
    if (label != nullptr) decoder_ = index;
    return TokenRole::kTokens;
  }

  TokenInput& Input(size_t index) { return out_.inputs[index]; }

  // The token input that the labels belong to.
  size_t Decoder() {
    if (decoder_ != kNone) return decoder_;
    for (size_t i : tokens_) {
      if (Contains(Input(i).name, "decoder")) return i;
    }
    size_t decoder = tokens_.back();
    for (size_t i : tokens_) {
      if (!labels_.empty() && Input(i).length == Input(labels_[0].input).length) decoder = i;
    }
    return decoder;
  }

  void PlaceTokens() {
    decoder_ = Decoder();
    for (size_t i : tokens_) {
      if (i == decoder_) continue;
      Input(i).first = out_.stride;
      out_.stride += Input(i).length;
    }
    Input(decoder_).first = out_.stride;
    out_.stride += Input(decoder_).length;
    out_.window = out_.stride;
  }

  void PlaceLabels(const Label& label) {
    TokenInput& input = Input(label.input);
    const TokenInput& decoder = Input(decoder_);
    bool shifted = label.shift > 0;
    input.first = decoder.first + (shifted ? 0 : 1);
    out_.window = std::max(out_.window, input.first + input.length);
    if (!out_.labels.empty()) out_.labels += ", ";
    out_.labels +=
        shifted ? fmt::format("{} are the tokens of {} (the model shifts them by {})", input.name,
                              decoder.name, label.shift)
                : fmt::format("{} are the tokens after those of {}", input.name, decoder.name);
  }

  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  const Graph& graph_;
  const std::string& file_;
  TokenInputs out_;
  std::vector<size_t> tokens_;  // indices of inputs
  std::vector<Label> labels_;
  size_t decoder_ = kNone;
};

}  // namespace

TokenInputs AssignTokens(const Graph& graph, const std::string& file) {
  return Assigner(graph, file).Assign();
}

}  // namespace heddle
