#include "frontend/onnx/sort.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/error.h"
#include "frontend/onnx/node_import.h"

namespace heddle {
namespace {

constexpr size_t kMaxListed = 12;  // names in one message

// name -> the node that produces it.
std::unordered_map<std::string_view, size_t> Producers(const OnnxModel& model,
                                                       std::string_view file) {
  std::unordered_set<std::string_view> given;
  std::unordered_set<std::string_view> inputs;
  for (const OnnxValueInfo& input : model.inputs) {
    if (!inputs.insert(input.name).second)
      ThrowInput("{}: input '{}' is declared twice", file, input.name);
    given.insert(input.name);
  }
  for (const OnnxTensor& tensor : model.initializers) given.insert(tensor.name);
  std::unordered_map<std::string_view, size_t> producers;
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    for (const std::string& output : model.nodes[i].outputs) {
      if (output.empty()) continue;
      const auto [it, fresh] = producers.emplace(output, i);
      if (!fresh) {
        ThrowInput("{}: value '{}' is produced by node '{}' and again by node '{}'", file, output,
                   model.nodes[it->second].name, model.nodes[i].name);
      }
      if (given.contains(output)) {
        ThrowInput("{}: value '{}' is an input or initializer and also produced by node '{}'", file,
                   output, model.nodes[i].name);
      }
    }
  }
  for (const OnnxNode& node : model.nodes) {
    for (const std::string& input : node.inputs) {
      if (input.empty() || given.contains(input) || producers.contains(input)) continue;
      ThrowInput("{}: node '{}' reads '{}', which no node, input or initializer gives", file,
                 node.name, input);
    }
  }
  return producers;
}

// Walks back from a node that could not be sorted: each has an operand from another such node, so a
// node comes up again, and what lies between is a cycle.
[[noreturn]] void ThrowCycle(const OnnxModel& model, std::string_view file,
                             const std::unordered_map<std::string_view, size_t>& producers,
                             const std::vector<size_t>& missing) {
  size_t at = static_cast<size_t>(
      std::find_if(missing.begin(), missing.end(), [](size_t m) { return m > 0; }) -
      missing.begin());
  std::vector<size_t> path;
  std::unordered_map<size_t, size_t> place;
  while (!place.contains(at)) {
    place[at] = path.size();
    path.push_back(at);
    size_t next = model.nodes.size();
    for (const std::string& input : model.nodes[at].inputs) {
      const auto it = producers.find(input);
      if (it != producers.end() && missing[it->second] > 0) next = it->second;
    }
    HEDDLE_CHECK(next < model.nodes.size());
    at = next;
  }
  std::vector<size_t> cycle(path.begin() + static_cast<std::ptrdiff_t>(place[at]), path.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string names;
  for (size_t i = 0; i < std::min(cycle.size(), kMaxListed); ++i) {
    names += fmt::format("'{}' -> ", model.nodes[cycle[i]].name);
  }
  if (cycle.size() > kMaxListed) names += fmt::format("{} more -> ", cycle.size() - kMaxListed);
  ThrowInput("{}: the graph has a cycle: {}'{}'; export it again", file, names,
             model.nodes[cycle.front()].name);
}

}  // namespace

std::vector<size_t> SortNodes(const OnnxModel& model, std::string_view file) {
  const auto producers = Producers(model, file);
  std::vector<size_t> missing(model.nodes.size(), 0);  // operands whose node has not come yet
  std::vector<std::vector<size_t>> readers(model.nodes.size());
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    for (const std::string& input : model.nodes[i].inputs) {
      const auto it = producers.find(input);
      if (it == producers.end()) continue;
      readers[it->second].push_back(i);
      ++missing[i];
    }
  }
  // The lowest index first: what is sorted already stays as it is.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const size_t reader : readers[node]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < model.nodes.size()) ThrowCycle(model, file, producers, missing);
  return order;
}

void CheckOpsKnown(const OnnxModel& model, std::string_view file) {
  std::map<std::string, int64_t> unknown;
  for (const OnnxNode& node : model.nodes) {
    if (!node.domain.empty()) {
      ++unknown[fmt::format("{}::{}", node.domain, node.op_type)];
    } else if (!FindOnnxOp(node.op_type)) {
      ++unknown[node.op_type];
    }
  }
  if (unknown.empty()) return;
  std::string list;
  size_t listed = 0;
  for (const auto& [op, count] : unknown) {
    if (listed++ == 4 * kMaxListed) {
      list += fmt::format(", and {} more", unknown.size() - 4 * kMaxListed);
      break;
    }
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", op, count);
  }
  ThrowInput("{}: uses {} ops that heddle does not know: {}; export without them or add them", file,
             unknown.size(), list);
}

}  // namespace heddle
