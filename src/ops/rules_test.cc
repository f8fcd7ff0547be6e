// Golden text: what the rule of every op says, read by people when it changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "ops/testing.h"
#include "ops/verify_rule.h"

namespace heddle {
namespace {

using testing::IsEmpty;

constexpr std::string_view kRemedy =
    "Where the change is meant, run this test with HEDDLE_UPDATE_GOLDEN=1 and review the diff of "
    "tests/data/golden/rules.txt.";

// The golden file as it should read: comments and applications as they stand, outcomes made afresh.
std::string Regenerate(const std::string& text) {
  std::string fresh;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    std::string_view application = Trim(line.substr(0, line.find(" => ")));
    if (application.empty() || application.starts_with('#')) {
      fresh += fmt::format("{}\n", line);
    } else {
      fresh += fmt::format("{} => {}\n", application, Outcome(ParseApplication(application)));
    }
  }
  return fresh;
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

TEST(RulesTest, EveryRuleReadsAsInTheGoldenFile) {
  std::string golden = ReadFile(GoldenRulesPath(), 1 << 20), fresh = Regenerate(golden);
  if (const char* update = std::getenv("HEDDLE_UPDATE_GOLDEN"); update && *update == '1') {
    WriteFileAtomically(GoldenRulesPath(), fresh);
    golden = fresh;
  }
  if (golden == fresh) return;
  std::string difference;
  std::vector<std::string> before = Lines(golden), after = Lines(fresh);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) difference += fmt::format("line {}\n- {}\n+ {}\n", i + 1, before[i], after[i]);
  }
  FAIL() << difference << kRemedy;
}

TEST(RulesTest, EveryOpHasALine) {
  std::set<std::string> covered;
  for (const std::string& line : GoldenApplications()) covered.insert(ParseApplication(line).op);
  for (const OpDef& op : AllOps()) {
    EXPECT_TRUE(covered.count(std::string(op.name)))
        << "no line for " << op.name << ": add an application, such as '" << op.name
        << " f32[2,3]'. " << kRemedy;
  }
}

TEST(RulesTest, EveryGoldenRuleIsSound) {
  for (const std::string& line : GoldenApplications()) {
    Application application = ParseApplication(line);
    EXPECT_THAT(Verify(application.rule(), application.operands), IsEmpty()) << line;
  }
}

TEST(RulesTest, ExpandedFactorsHaveAnExpansionOfTheSameTypes) {
  for (const std::string& line : GoldenApplications()) {
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
