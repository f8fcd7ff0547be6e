// Checks traits that describe values (neutral elements, identities, origins) with the evaluator of constants.
#include <gtest/gtest.h>

#include <numeric>

#include "frontend/const_eval_testing.h"
#include "ops/testing.h"

namespace heddle {
namespace {

using namespace const_eval_testing;

constexpr int64_t kMostElements = 4096;

// The elements 1, 2, 3, ...: all are different.
ConstTensor Counted(const TensorType& type) {
  Ints values(static_cast<size_t>(ElementCount(type.shape, "a shape")));
  std::iota(values.begin(), values.end(), 1);
  return I(type.shape, values, type.dtype);
}

ConstTensor Filled(const TensorType& type, double value) {
  return F(type.shape, Doubles(static_cast<size_t>(ElementCount(type.shape, "a shape")), value),
           type.dtype);
}

// The results; empty where import would write the application in another form: with all attributes, and with axes that
// count from the front.
std::optional<std::vector<ConstTensor>> Evaluate(const Application& at,
                                                 const std::vector<ConstTensor>& operands) {
  try {
    return EvaluateConstant(at.op, at.attributes, operands, ResultTypes(at.rule()));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Whether the application is quick to evaluate.
bool IsSmall(const Application& at) {
  return std::all_of(at.operands.begin(), at.operands.end(), [](const TensorType& type) {
    return ElementCount(type.shape, "a shape") <= kMostElements;
  });
}

// The element at `index` of a tensor, as a number.
double At(const ConstTensor& tensor, const std::vector<int64_t>& index) {
  size_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    flat = flat * static_cast<size_t>(tensor.shape[d]) + static_cast<size_t>(index[d]);
  }
  return Values(tensor)[flat];
}

TEST(OpTraitsTest, ANeutralElementChangesNothing) {
  int seen = 0;
  for (const OpDef& op : AllOps()) {
    if (!op.traits.neutral) continue;
    SCOPED_TRACE(op.name);
    for (DType dtype : {DType::kF32, DType::kI64}) {
      TensorType type{dtype, {2, 3}};
      Application at{std::string(op.name), {}, {type, type}};
      ConstTensor x = Counted(type), neutral = Filled(type, op.traits.neutral->value);
      EXPECT_EQ(Values(Evaluate(at, {x, neutral})->front()), Values(x));
      EXPECT_EQ(Values(Evaluate(at, {neutral, x})->front()) == Values(x), op.traits.neutral->left);
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(OpTraitsTest, AnIdentityGivesItsOperand) {
  int seen = 0;
  std::vector<std::string> lines = GoldenApplications(kGoldenRules);
  for (const char* line :
       {"Transpose {perm=[1, 0]} f32[3,3]", "Transpose {perm=[0, 1]} f32[3,3]",
        "Slice {axes=[0], ends=[-1], starts=[2], steps=[-1]} f32[3]", "Cast {to=\"f32\"} f32[3]",
        "Reshape {shape=[2, 3]} f32[2,3]", "Expand {shape=[2, 3]} f32[2,3]",
        "Tile {repeats=[1, 1]} f32[2,3]", "Pad {mode=\"constant\", pads=[0, 0], value=0.0} f32[3]",
        "Concat {axis=0} f32[3]", "Split {axis=0, sizes=[3]} f32[3]"}) {
    lines.emplace_back(line);
  }
  for (const std::string& line : lines) {
    Application at = ParseApplication(line);
    const OpTraits& traits = TraitsOf(at.op);
    if (traits.identity == nullptr || !IsSmall(at) || at.operands.size() != 1) continue;
    if (!traits.identity(at.attributes) || ResultTypes(at.rule()) != at.operands) continue;
    ConstTensor x = Counted(at.operands[0]);
    auto results = Evaluate(at, {x});
    if (!results) continue;
    EXPECT_EQ(Values(results->front()), Values(x)) << line;
    ++seen;
  }
  EXPECT_GT(seen, 8);
}

TEST(OpTraitsTest, ResultsBeginAtTheirOrigin) {
  std::set<std::string> seen;
  for (const std::string& line : GoldenApplications(kGoldenRules)) {
    Application at = ParseApplication(line);
    const OpTraits& traits = TraitsOf(at.op);
    if (traits.origin == nullptr || !IsSmall(at)) continue;
    SCOPED_TRACE(line);
    for (size_t o = 0; o < at.operands.size(); ++o) {
      std::vector<ConstTensor> operands;
      for (const TensorType& type : at.operands) {
        bool condition = type.dtype == DType::kBool;
        operands.push_back(condition ? Filled(type, o == 1 ? 1 : 0) : Counted(type));
      }
      auto results = Evaluate(at, operands);
      for (size_t r = 0; results && r < results->size(); ++r) {
        const ConstTensor& result = (*results)[r];
        auto origin = traits.origin(OpContext{at.attributes, at.operands}, o, r);
        if (!origin || ElementCount(result.shape, "a shape") == 0) continue;
        std::vector<int64_t> from = *origin, to(result.shape.size(), 0);
        for (size_t d = 0; d < from.size(); ++d) {
          if (from[d] < 0) std::swap(from[d], to[d]), to[d] = -to[d];
        }
        double expected = At(operands[o], from);
        if (at.attributes.count("max") != 0) {
          expected = std::min(expected, FloatAttr(at.attributes, "max"));
        }
        EXPECT_EQ(At(result, to), expected) << "operand " << o << ", result " << r;
        seen.insert(at.op);
      }
    }
  }
  EXPECT_GT(seen.size(), 8u);
}

}  // namespace
}  // namespace heddle
