// Applications of ops in one line, for tests: the op, its attributes as a `.heddle` file writes them and
// the types of its operands,
//
//   TopK {axis=1, k=2} f32[4,7]
//   MatMul f32[8,16] x f32[16,4]
//
// and what the rule makes of it. tests/data/golden/rules.txt has one such line for every op:
//
//   MatMul f32[8,16] x f32[16,4] => [i,k] x [k,j] -> [i,j]   i,j parallel  k summed => f32[8,4]
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  Graph graph = FromText(fmt::format("heddle 1\nmodel \"\"\n{}%result: f32[] = {}({}) {}\noutput %result\n",
                                     inputs, op, fmt::join(names, ", "), attributes),
                         line);
  Application application{graph.nodes[0].op, graph.nodes[0].attributes, {}};
  for (ValueId id : graph.nodes[0].operands) application.operands.push_back(graph.value(id).type);
  return application;
}

// "rule => result types", or "error: ..." where the op refuses.
inline std::string Outcome(const Application& application) {
  try {
    Rule rule = application.rule();
    std::vector<std::string> types;
    for (const TensorType& type : ResultTypes(rule)) types.push_back(ToString(type));
    return fmt::format("{} => {}", Trim(ToString(rule)), fmt::join(types, ", "));
  } catch (const InputError& error) {
    return fmt::format("error: {}", error.what());
  }
}

inline const char* GoldenRulesPath() { return HEDDLE_TEST_DATA "/golden/rules.txt"; }

// The applications of the golden file, without what they give.
inline std::vector<std::string> GoldenApplications() {
  std::string text = ReadFile(GoldenRulesPath(), 1 << 20);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    line = Trim(line.substr(0, line.find(" => ")));
    if (!line.empty() && !line.starts_with('#')) lines.emplace_back(line);
  }
  return lines;
}

}  // namespace heddle
