// Bad applications end in an InputError that says what is wrong; whatever is thrown at an op, it either
// refuses or gives a sound rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/hash.h"
#include "ops/testing.h"
#include "ops/verify_rule.h"

namespace heddle {
namespace {

using testing::IsEmpty;

std::string ErrorOf(const Application& application) {
  try {
    return "(no error) " + ToString(application.rule());
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(OpErrorsTest, EveryBadApplicationSaysWhatIsWrong) {
  EXPECT_EQ(CompareWithGolden(kGoldenErrors), "");
  for (const std::string& line : GoldenApplications(kGoldenErrors)) {
    EXPECT_THROW(ParseApplication(line).rule(), InputError) << line;
  }
}

TEST(OpErrorsTest, OperandsThatNoFileCanState) {
  EXPECT_EQ(ErrorOf({"Relu", {}, {{DType::kF32, {-3}}}}),
            "Relu: operand 0: shape [-3] has the negative dimension -3");
  EXPECT_EQ(
      ErrorOf({"Relu", {}, {{DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}}),
      "Relu: operand 0: shape [1099511627776,1099511627776] has more elements than 63 bits can "
      "count");
  EXPECT_EQ(ErrorOf({"Relu", {}, {{DType::kF32, {int64_t{1} << 62}}}}),
            "Relu: operand 0: f32[4611686018427387904] has more bytes than 63 bits can count");
  EXPECT_EQ(ErrorOf({"Nonesuch", {}, {}}), "op 'Nonesuch' is unknown");
  EXPECT_EQ(ErrorOf({"Einsum", {{"equation", std::string("i\0j->i", 6)}}, {{DType::kF32, {2}}}}),
            "Einsum: equation \"i\\x00j->i\" has an unexpected '\\x00'");
  EXPECT_EQ(ErrorOf({"Einsum", {{"equation", "i\xffj->ij"}}, {{DType::kF32, {2, 3}}}}),
            "Einsum: equation \"i\xffj->ij\" has an unexpected '\xff'");
  EXPECT_EQ(ErrorOf({"Concat", {{"axis", int64_t{0}}}, {}}),
            "Concat: 0 operands given, at least 1 expected");
}

TEST(OpErrorsTest, WindowsOverHugeDimensionsDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kStride = int64_t{1} << 31;
  Application pool{"MaxPool",
                   {{"ceil_mode", int64_t{1}},
                    {"kernel", std::vector<int64_t>{1}},
                    {"strides", std::vector<int64_t>{kStride}}},
                   {{DType::kI8, {1, 1, kMax}}}};
  // kMax - 1 is no multiple of the stride, but one more window would start beyond the end.
  EXPECT_EQ(ResultTypes(pool.rule())[0].shape, (Shape{1, 1, int64_t{1} << 32}));
}

TEST(OpErrorsTest, CheckTypesNamesTheValueAndBothTypes) {
  Graph graph = FromText(
      "heddle 1\nmodel \"\"\ninput %x: f32[2,3]\n%y: f32[3,3] = Relu(%x)\noutput %y\n", "m.heddle");
  try {
    CheckTypes(graph);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "'y': stated as f32[3,3] but Relu gives f32[2,3]");
  }
}

// Random applications, from nothing or by changing sound ones.
class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}

  bool OneIn(uint64_t n) { return rng_() % n == 0; }
  size_t Below(size_t n) { return rng_() % n; }

  int64_t Number() {
    static constexpr int64_t kEdges[] = {0,
                                         1,
                                         2,
                                         -1,
                                         int64_t{1} << 31,
                                         int64_t{1} << 40,
                                         int64_t{1} << 62,
                                         std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::max() - 1,
                                         std::numeric_limits<int64_t>::min()};
    return OneIn(4) ? kEdges[Below(std::size(kEdges))] : static_cast<int64_t>(Below(8)) - 1;
  }

  int64_t Size() {
    static constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 3, 4, 4, 6, 7, 12};
    if (!OneIn(24)) return kSizes[Below(std::size(kSizes))];
    return Number();
  }

  DType Type() {
    if (!OneIn(3)) return DType::kF32;
    return AllDTypes()[Below(AllDTypes().size())].dtype;
  }

  TensorType Tensor() {
    TensorType type{Type(), Shape(Below(6))};
    for (int64_t& size : type.shape) size = Size();
    return type;
  }

  std::vector<int64_t> Numbers() {
    std::vector<int64_t> numbers(Below(6));
    for (int64_t& number : numbers) number = Number();
    return numbers;
  }

  std::string String() {
    static constexpr std::string_view kStrings[] = {"",           "none",
                                                    "sum",        "mean",
                                                    "add",        "constant",
                                                    "reflect",    "edge",
                                                    "linear",     "nearest",
                                                    "f32",        "i64",
                                                    "ij,jk->ik",  "...ij,...jk->...ik",
                                                    "......i",    "i->",
                                                    "->",         "...->...",
                                                    "......->",   "ij->......",
                                                    "a,b->ab",    "ab->a,b",
                                                    "1->1",       "i1->i",
                                                    "ii->i",      "i->ii",
                                                    "i->j",       "i,...->i",
                                                    "i..->i",     "->i",
                                                    "i->->i",     "\xff->\xff",
                                                    "ij,ij,k->k", "...,...->",
                                                    "i -> i"};
    return std::string(kStrings[Below(std::size(kStrings))]);
  }

  Attribute Value() {
    switch (Below(6)) {
      case 0:
        return static_cast<double>(Number()) / 4;
      case 1:
        return String();
      case 2:
        return std::vector<double>{0.5, 2};
      case 3:
      case 4:
        return Numbers();
      default:
        return Number();
    }
  }

  Application FromNothing(const OpDef& op) {
    Application application{std::string(op.name), {}, {}};
    int most = op.max_operands < 0 ? 4 : op.max_operands;
    size_t count = static_cast<size_t>(op.min_operands) +
                   Below(static_cast<size_t>(most - op.min_operands + 1));
    if (OneIn(30)) count = Below(7);
    TensorType first = Tensor();
    for (size_t o = 0; o < count; ++o) {
      application.operands.push_back(OneIn(2) ? Tensor() : first);
    }
    for (std::string_view name : op.attributes) {
      if (!OneIn(4)) application.attributes[std::string(name)] = Value();
    }
    if (OneIn(30)) application.attributes["unheard_of"] = Value();
    return application;
  }

  void Change(Application& application, const OpDef& op) {
    std::vector<TensorType>& operands = application.operands;
    switch (Below(7)) {
      case 0:
      case 1:
        if (TensorType& type = operands[Below(operands.size())]; !type.shape.empty()) {
          type.shape[Below(type.shape.size())] = OneIn(3) ? Number() : Size();
        }
        return;
      case 2:
        operands[Below(operands.size())].dtype = Type();
        return;
      case 3:
        if (OneIn(2)) {
          operands[Below(operands.size())] = Tensor();
        } else if (OneIn(2)) {
          operands.push_back(operands.back());
        } else if (operands.size() > 1) {
          operands.pop_back();
        }
        return;
      case 4:
        if (Shape& shape = operands[Below(operands.size())].shape; OneIn(2) && !shape.empty()) {
          shape.pop_back();
        } else {
          shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(Below(shape.size() + 1)),
                       Size());
        }
        return;
      default:
        if (op.attributes.empty()) return;
        ChangeAttribute(
            application.attributes[std::string(op.attributes[Below(op.attributes.size())])]);
    }
  }

 private:
  void ChangeAttribute(Attribute& attribute) {
    auto* numbers = std::get_if<std::vector<int64_t>>(&attribute);
    if (numbers != nullptr && !numbers->empty() && !OneIn(4)) {
      (*numbers)[Below(numbers->size())] = Number();
    } else {
      attribute = Value();
    }
  }

  std::mt19937_64 rng_;
};

std::string Describe(const Application& application) {
  std::vector<std::string> types;
  for (const TensorType& type : application.operands) types.push_back(ToString(type));
  std::string attributes;
  for (const auto& [name, value] : application.attributes) {
    attributes += name + "=";
    std::visit(
        [&]<class T>(const T& v) {
          if constexpr (std::is_same_v<T, std::string>) {
            attributes += Quote(v);
          } else {
            attributes += fmt::format("{}", v);
          }
        },
        value);
    attributes += ' ';
  }
  return fmt::format("{} {{{}}} {}", application.op, attributes, fmt::join(types, " x "));
}

// Returns whether the op took it.
bool ExpectSoundOrRefused(const Application& application) {
  Rule rule;
  try {
    rule = application.rule();
  } catch (const InputError&) {
    return false;
  }
  EXPECT_THAT(Verify(rule, application.operands), IsEmpty()) << Describe(application) << "\n"
                                                             << ToString(rule);
  ForwardWork(rule, WholeBlocks(rule));
  return true;
}

TEST(OpErrorsTest, RandomApplicationsAreSoundOrRefused) {
  for (const OpDef& op : AllOps()) {
    Draw draw(HashString(op.name));
    for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
      ExpectSoundOrRefused(draw.FromNothing(op));
    }
  }
}

TEST(OpErrorsTest, ChangedApplicationsAreSoundOrRefused) {
  for (const std::string& line : GoldenApplications(kGoldenRules)) {
    Application golden = ParseApplication(line);
    const OpDef& op = *FindOp(golden.op);
    Draw draw(HashString(line));
    int taken = 0;
    for (int i = 0; i < 1500 && !testing::Test::HasFailure(); ++i) {
      Application changed = golden;
      draw.Change(changed, op);
      while (draw.OneIn(2)) draw.Change(changed, op);
      taken += ExpectSoundOrRefused(changed);
    }
    EXPECT_GT(taken, 0) << line;
  }
}

}  // namespace
}  // namespace heddle
