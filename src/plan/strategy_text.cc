#include "plan/strategy_text.h"

#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/integers.h"
#include "base/nearest.h"

namespace heddle {
namespace {

constexpr std::string_view kPartial = "partial";

size_t AxisOf(const Mesh& mesh, std::string_view name) {
  std::vector<std::string_view> names;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.axes[a].name == name) return a;
    names.push_back(mesh.axes[a].name);
  }
  if (names.empty()) ThrowInput("no axis '{}': the mesh has none", name);
  ThrowInput("no axis '{}': {}", name, DidYouMean(name, names));
}

// Factors come first: one may be called partial0.
AxisChoice ChoiceOf(const Rule& rule, std::string_view name) {
  std::vector<std::string_view> names;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.name == name) {
      if (factor.kind == FactorKind::kWhole)
        ThrowInput("factor '{}' is whole and cannot be split", name);
      return Split(ToInt(f));
    }
    if (factor.kind != FactorKind::kWhole) names.push_back(factor.name);
  }
  if (name.starts_with(kPartial)) {
    std::string_view digits = name.substr(kPartial.size());
    int set = -1;
    const char* end = digits.data() + digits.size();
    bool number = !digits.empty() && std::from_chars(digits.data(), end, set).ptr == end;
    if (number && set >= 0 && ToSize(set) < rule.linear.size()) return PassPartial(set);
    ThrowInput("no linear set '{}': there are {}", name, rule.linear.size());
  }
  if (names.empty()) ThrowInput("no factor '{}': none of this op can be split", name);
  ThrowInput("no factor '{}': {}", name, DidYouMean(name, names));
}

}  // namespace

std::string ToText(const Mesh& mesh, const Rule& rule, const Strategy& strategy) {
  std::string text;
  for (size_t a = 0; a < strategy.size(); ++a) {
    AxisChoice choice = strategy[a];
    if (choice == kReplicate) continue;
    std::string name = choice.is_partial() ? fmt::format("{}{}", kPartial, choice.linear_set())
                                           : rule.factors[choice.factor_index()].name;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", mesh.axes[a].name, name);
  }
  return text;
}

Strategy StrategyFromText(const Mesh& mesh, const Rule& rule, std::string_view text) {
  Strategy strategy(mesh.axes.size(), kReplicate);
  while (!text.empty()) {
    size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    size_t equals = word.find('=');
    if (equals == std::string_view::npos) ThrowInput("'{}' is not AXIS=FACTOR", word);
    size_t axis = AxisOf(mesh, word.substr(0, equals));
    if (strategy[axis] != kReplicate) ThrowInput("axis '{}' is given twice", mesh.axes[axis].name);
    strategy[axis] = ChoiceOf(rule, word.substr(equals + 1));
  }
  return strategy;
}

}  // namespace heddle
