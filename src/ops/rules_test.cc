// Golden text: what the rule of every op says, read by people when it changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/testing.h"
#include "ops/verify_rule.h"

namespace heddle {
namespace {

using testing::IsEmpty;

TEST(RulesTest, EveryRuleReadsAsInTheGoldenFile) { EXPECT_EQ(CompareWithGolden(kGoldenRules), ""); }

TEST(RulesTest, EveryOpHasALine) {
  std::set<std::string> covered;
  for (const std::string& line : GoldenApplications(kGoldenRules))
    covered.insert(ParseApplication(line).op);
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(covered.count(std::string(op.name)))
        << "no line for " << op.name << ": add an application to " << kGoldenRules << ", such as '"
        << op.name << " f32[2,3]', and run this test with HEDDLE_UPDATE_GOLDEN=1";
  }
}

TEST(RulesTest, EveryGoldenRuleIsSound) {
  for (const std::string& line : GoldenApplications(kGoldenRules)) {
    Application application = ParseApplication(line);
    EXPECT_THAT(Verify(application.rule(), application.operands), IsEmpty()) << line;
  }
}

TEST(RulesTest, ExpandedFactorsHaveAnExpansionOfTheSameTypes) {
  for (const std::string& line : GoldenApplications(kGoldenRules)) {
    Application application = ParseApplication(line);
    Rule rule = application.rule();
    const OpDef& op = *FindOp(application.op);
    bool expanded = false;
    for (const Factor& factor : rule.factors) expanded |= factor.kind == FactorKind::kExpanded;
    EXPECT_TRUE(!expanded || op.expansion) << line;
    if (!op.expansion) continue;
    Graph graph = op.expansion(OpContext{application.attributes, application.operands});
    EXPECT_THAT(Verify(graph), IsEmpty()) << line;
    CheckTypes(graph);
    std::vector<TensorType> types;
    for (ValueId id : graph.outputs) types.push_back(graph.value(id).type);
    EXPECT_EQ(types, ResultTypes(rule)) << line;
  }
}

TEST(RulesTest, OpsAreFoundByNameAndOnce) {
  std::set<std::string_view> names;
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(FindOp(op.name), &op);
  }
  EXPECT_EQ(FindOp("Nonesuch"), nullptr);
}

}  // namespace
}  // namespace heddle
