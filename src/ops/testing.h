// Applications of ops in one line, for tests: the op, its attributes as a `.heddle` file writes them and
// the types of its operands,
//
//   TopK {axis=1, k=2} f32[4,7]
//   MatMul f32[8,16] x f32[16,4]
//
// and what the rule makes of it. tests/data/golden/rules.txt has one such line for every op:
//
//   MatMul f32[8,16] x f32[16,4] => [i,k] x [k,j] -> [i,j]   i,j parallel  k summed => f32[8,4]
//       => linear {0} {1}  gradient 0,1  keep x0 x1  flops 2[i,k,j]c
//
// (in one line): where a partial sum may pass, which operands have a gradient, what is kept for it (o1
// operand 1, x1 operand 1 where another's gradient is needed, r0 result 0, 8[i] bytes per point of i) and
// the flops per point (c: a contraction; the gradients that repeat it, where not all).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "graph/text.h"
#include "ops/op.h"

namespace heddle {

struct Application {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> operands;

  Rule rule() const { return MakeRule(op, attributes, operands); }
};

inline std::string_view Trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \r\n") - begin + 1);
}

// Reads an application by way of the text form of a graph.
inline Application ParseApplication(std::string_view line) {
  size_t op_end = std::min(line.find(' '), line.size());
  std::string_view op = line.substr(0, op_end), rest = Trim(line.substr(op_end)), attributes;
  if (rest.starts_with('{')) {
    size_t end = rest.rfind('}') + 1;
    attributes = rest.substr(0, end);
    rest = Trim(rest.substr(end));
  }
  std::string inputs;
  std::vector<std::string> names;
  while (!rest.empty()) {
    size_t end = std::min(rest.find(" x "), rest.size());
    names.push_back(fmt::format("%o{}", names.size()));
    inputs += fmt::format("input {}: {}\n", names.back(), Trim(rest.substr(0, end)));
    rest = end == rest.size() ? "" : Trim(rest.substr(end + 3));
  }
  Graph graph =
      FromText(fmt::format("heddle 1\nmodel \"\"\n{}%result: f32[] = {}({}) {}\noutput %result\n",
                           inputs, op, fmt::join(names, ", "), attributes),
               line);
  Application application{graph.nodes[0].op, graph.nodes[0].attributes, {}};
  for (ValueId id : graph.nodes[0].operands) application.operands.push_back(graph.value(id).type);
  return application;
}

// The rest of a rule: "linear {0} {1}  gradient 0,1  keep x0 x1  flops 2[i,k,j]c", without what is empty.
inline std::string Details(const Rule& rule) {
  auto names = [&](const std::vector<int>& factors) {
    std::vector<std::string_view> list;
    for (int f : factors) list.push_back(rule.factors[static_cast<size_t>(f)].name);
    return fmt::format("[{}]", fmt::join(list, ","));
  };
  auto sets = [](const std::vector<std::vector<int>>& all) {
    std::string text;
    for (const std::vector<int>& set : all) text += fmt::format(" {{{}}}", fmt::join(set, ","));
    return text;
  };
  std::vector<std::string> parts;
  if (rule.view) parts.push_back("view");
  if (!rule.linear.empty()) parts.push_back("linear" + sets(rule.linear));
  if (!rule.differentiable.empty()) {
    parts.push_back(fmt::format("gradient {}", fmt::join(rule.differentiable, ",")));
  }
  std::string keep;
  for (int o : rule.keep.operands) keep += fmt::format(" o{}", o);
  for (int o : rule.keep.crossed) keep += fmt::format(" x{}", o);
  for (int r : rule.keep.results) keep += fmt::format(" r{}", r);
  for (const KeepTerm& term : rule.keep.extra) {
    keep += fmt::format(" {}{}", term.bytes, names(term.factors));
  }
  if (!keep.empty()) parts.push_back("keep" + keep);
  for (const WorkTerm& term : rule.work) {
    parts.push_back(fmt::format("flops {}{}{}{}", term.flops, names(term.factors),
                                term.contraction ? "c" : "", sets(term.gradients)));
  }
  return fmt::format("{}", fmt::join(parts, "  "));
}

// "rule => result types => the rest", or "error: ..." where the op refuses.
inline std::string Outcome(const Application& application) {
  try {
    Rule rule = application.rule();
    std::vector<std::string> types;
    for (const TensorType& type : ResultTypes(rule)) types.push_back(ToString(type));
    return fmt::format("{} => {} => {}", Trim(ToString(rule)), fmt::join(types, ", "),
                       Details(rule));
  } catch (const InputError& error) {
    return fmt::format("error: {}", error.what());
  }
}

// Golden files: comments, and lines "application => outcome".
inline constexpr const char* kGoldenRules = HEDDLE_TEST_DATA "/golden/rules.txt";
inline constexpr const char* kGoldenErrors = HEDDLE_TEST_DATA "/golden/op_errors.txt";

inline std::vector<std::string> ReadLines(const std::string& path) {
  std::string text = ReadFile(path, 1 << 20);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The application a line begins with; empty for a comment or a blank line.
inline std::string_view ApplicationOf(std::string_view line) {
  return line.starts_with('#') ? "" : Trim(line.substr(0, line.find(" =>")));
}

inline std::vector<std::string> GoldenApplications(const std::string& path) {
  std::vector<std::string> applications;
  for (const std::string& line : ReadLines(path)) {
    if (std::string_view found = ApplicationOf(line); !found.empty())
      applications.emplace_back(found);
  }
  return applications;
}

// What differs between a golden file and what the ops say now, with the remedy; empty where nothing does.
// With HEDDLE_UPDATE_GOLDEN=1 in the environment the file is rewritten instead.
inline std::string CompareWithGolden(const std::string& path) {
  std::string fresh, difference;
  int number = 0;
  for (const std::string& line : ReadLines(path)) {
    ++number;
    std::string_view application = ApplicationOf(line);
    std::string now = application.empty() ? line
                                          : fmt::format("{} => {}", application,
                                                        Outcome(ParseApplication(application)));
    if (now != line) difference += fmt::format("line {}\n- {}\n+ {}\n", number, line, now);
    fresh += now + "\n";
  }
  const char* update = std::getenv("HEDDLE_UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    WriteFileAtomically(path, fresh);
    return "";
  }
  if (difference.empty()) return "";
  return fmt::format(
      "{}Where the change is meant, run this test with HEDDLE_UPDATE_GOLDEN=1 and review the diff "
      "of {}.",
      difference, path);
}

}  // namespace heddle
