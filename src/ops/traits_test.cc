// What the traits of every op say agrees with its rules.
#include "ops/traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/testing.h"

namespace heddle {
namespace {

using testing::ElementsAre;

// The applications of the golden file, which has all ops (rules_test.cc), of ops with a trait.
template <class Wanted, class Body>
void ForApplications(Wanted wanted, Body body) {
  std::set<std::string> seen;
  for (const std::string& line : GoldenApplications(kGoldenRules)) {
    Application application = ParseApplication(line);
    const OpTraits& traits = TraitsOf(application.op);
    if (!wanted(traits)) continue;
    SCOPED_TRACE(line);
    seen.insert(application.op);
    body(application, application.rule(), traits);
  }
  EXPECT_FALSE(seen.empty()) << "no op has the trait";
}

int64_t Elements(const Shape& shape) { return ElementCount(shape, "a shape"); }

bool IsInteger(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }

TEST(TraitsTest, EveryOpHasItsOwn) {
  for (const OpDef& op : AllOps()) EXPECT_EQ(&TraitsOf(op.name), &op.traits) << op.name;
}

TEST(TraitsTest, LookupsHaveATableAndIndices) {
  ForApplications([](const OpTraits& traits) { return traits.lookup != LookupKind::kNone; },
                  [](const Application& at, const Rule& rule, const OpTraits& traits) {
                    ASSERT_EQ(at.operands.size(), 2u);
                    EXPECT_TRUE(IsInteger(at.operands[1].dtype));
                    EXPECT_THAT(rule.keep.operands, ElementsAre(1));
                    Shape result = ResultTypes(rule)[0].shape;
                    size_t ranks = at.operands[0].shape.size() + at.operands[1].shape.size();
                    if (traits.lookup == LookupKind::kRows) {
                      EXPECT_EQ(result.size(), ranks - 1);
                    }
                    if (traits.lookup == LookupKind::kElements) {
                      EXPECT_EQ(result, at.operands[1].shape);
                    }
                  });
}

TEST(TraitsTest, CrossEntropiesHaveLabelsOfTheRowsOfTheirScores) {
  ForApplications(
      [](const OpTraits& traits) { return traits.cross_entropy != CrossEntropyPart::kNone; },
      [](const Application& at, const Rule& rule, const OpTraits& traits) {
        EXPECT_TRUE(IsFloat(at.operands[0].dtype));
        EXPECT_THAT(rule.differentiable, ElementsAre(0));
        if (traits.cross_entropy == CrossEntropyPart::kLogProbabilities) {
          EXPECT_EQ(ResultTypes(rule)[0], at.operands[0]);
          return;
        }
        ASSERT_GE(at.operands.size(), 2u);
        EXPECT_TRUE(IsInteger(at.operands[1].dtype));
        Shape rows = at.operands[0].shape;
        rows.erase(rows.begin() + 1);
        EXPECT_EQ(at.operands[1].shape, rows);
        EXPECT_THAT(FindOp(at.op)->attributes, testing::Contains("ignore_index"));
      });
}

TEST(TraitsTest, ResultsOfElementsOfTheOperandHaveAsManyOrFewer) {
  ForApplications(
      [](const OpTraits& traits) { return traits.elements != ResultElements::kComputed; },
      [](const Application& at, const Rule& rule, const OpTraits& traits) {
        ASSERT_EQ(at.operands.size(), 1u);
        for (const TensorType& result : ResultTypes(rule)) {
          Shape from = at.operands[0].shape, to = result.shape;
          bool converted = traits.elements == ResultElements::kConverted;
          EXPECT_TRUE(converted || result.dtype == at.operands[0].dtype);
          if (traits.elements == ResultElements::kPart) {
            EXPECT_LE(Elements(to), Elements(from));
            continue;
          }
          EXPECT_EQ(Elements(to), Elements(from));
          if (traits.elements == ResultElements::kPermuted) {
            EXPECT_THAT(to, testing::UnorderedElementsAreArray(from));
          }
          if (converted) {
            EXPECT_EQ(to, from);
          }
        }
        EXPECT_NE(traits.origin, nullptr);
        EXPECT_NE(traits.identity, nullptr);
      });
}

TEST(TraitsTest, WhatIsRandomOutsideTrainingHasNoGradient) {
  ForApplications([](const OpTraits& traits) { return traits.randomness != Randomness::kNone; },
                  [](const Application& at, const Rule& rule, const OpTraits& traits) {
                    if (traits.randomness == Randomness::kAlways) {
                      EXPECT_TRUE(rule.differentiable.empty());
                    } else {
                      EXPECT_EQ(ResultTypes(rule)[0], at.operands[0]);
                      EXPECT_THAT(rule.linear, ElementsAre(ElementsAre(0)));
                    }
                  });
}

TEST(TraitsTest, OperandsOfWhatBroadcastsHaveDimensionsOfTheResultOrOfSizeOne) {
  ForApplications([](const OpTraits& traits) { return traits.broadcasts; },
                  [](const Application&, const Rule& rule, const OpTraits&) {
                    const Dims& result = rule.results[0];
                    for (const Dims& operand : rule.operands) {
                      ASSERT_LE(operand.size(), result.size());
                      size_t shift = result.size() - operand.size();
                      for (size_t d = 0; d < operand.size(); ++d) {
                        EXPECT_TRUE(operand[d] == result[shift + d] || operand[d] == Dim{});
                      }
                    }
                  });
}

TEST(TraitsTest, NormsHaveAGain) {
  for (const OpDef& op : AllOps()) {
    SCOPED_TRACE(op.name);
    bool norm = op.traits.statistics != NormStatistics::kNone;
    EXPECT_EQ(op.traits.gain.has_value(), norm);
    if (op.traits.composite) {
      EXPECT_TRUE(norm || op.traits.cross_entropy == CrossEntropyPart::kWhole);
    }
  }
}

TEST(TraitsTest, GainsAndBiasesAreSpreadOverTheResult) {
  ForApplications(
      [](const OpTraits& traits) { return traits.gain || traits.bias; },
      [](const Application& at, const Rule& rule, const OpTraits& traits) {
        for (std::optional<size_t> weight : {traits.gain, traits.bias}) {
          if (!weight || *weight >= at.operands.size()) continue;
          for (size_t f = 0; f < rule.factors.size(); ++f) {
            int factor = static_cast<int>(f);
            EXPECT_TRUE(!Has(rule.operands[*weight], factor) || Has(rule.results[0], factor));
          }
        }
      });
}

TEST(TraitsTest, SumsAreLinearInAllOperandsTogether) {
  ForApplications([](const OpTraits& traits) { return !traits.signs.empty(); },
                  [](const Application& at, const Rule& rule, const OpTraits& traits) {
                    ASSERT_EQ(traits.signs.size(), at.operands.size());
                    ASSERT_EQ(rule.linear.size(), 1u);
                    EXPECT_EQ(rule.linear[0].size(), at.operands.size());
                    for (int sign : traits.signs) EXPECT_EQ(sign * sign, 1);
                    ASSERT_TRUE(traits.neutral);
                    EXPECT_EQ(traits.neutral->value, 0);
                  });
}

TEST(TraitsTest, GradientsFollowFromOtherOperands) {
  for (const OpDef& op : AllOps()) {
    SCOPED_TRACE(op.name);
    std::set<size_t> weights;
    size_t most = static_cast<size_t>(op.max_operands < 0 ? 1 << 20 : op.max_operands);
    for (const GradientFactors& factors : op.traits.gradient_factors) {
      EXPECT_TRUE(weights.insert(factors.operand).second);
      EXPECT_LT(factors.operand, most);
      for (size_t o : factors.operands) EXPECT_TRUE(o < most && o != factors.operand);
    }
  }
}

TEST(TraitsTest, AnIdentityHasTheFactorsOfItsOperand) {
  ForApplications([](const OpTraits& traits) { return traits.identity != nullptr; },
                  [](const Application& at, const Rule& rule, const OpTraits& traits) {
                    if (at.operands.size() != 1 || !traits.identity(at.attributes)) return;
                    if (ResultTypes(rule) == at.operands) {
                      EXPECT_EQ(rule.results[0], rule.operands[0]);
                    }
                  });
}

TEST(TraitsTest, OriginsLieInTheDimensionsOfTheOperand) {
  ForApplications([](const OpTraits& traits) { return traits.origin != nullptr; },
                  [](const Application& at, const Rule& rule, const OpTraits& traits) {
                    for (size_t o = 0; o < at.operands.size(); ++o) {
                      for (size_t r = 0; r < rule.results.size(); ++r) {
                        auto origin = traits.origin(OpContext{at.attributes, at.operands}, o, r);
                        if (!origin) continue;
                        ASSERT_EQ(origin->size(), at.operands[o].shape.size());
                        bool front = traits.elements == ResultElements::kReshaped ||
                                     traits.elements == ResultElements::kPermuted;
                        for (size_t d = 0; d < origin->size(); ++d) {
                          EXPECT_LE((*origin)[d], front ? 0 : at.operands[o].shape[d]);
                        }
                      }
                    }
                  });
}

}  // namespace
}  // namespace heddle
