#include "frontend/onnx/sort.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

constexpr size_t kMaxNodesListed = 12;  // names in one message

constexpr size_t kNone = std::numeric_limits<size_t>::max();
constexpr size_t kGiven = kNone - 1;

// For every name the node that produces it, kGiven for inputs and initializers, or kNone.
std::vector<size_t> Producers(const ModelFile& model, std::string_view file) {
  std::vector<size_t> producers(model.names.size(), kNone);
  for (const StatedValue& input : model.inputs) {
    size_t& producer = producers[input.id.index()];
    if (producer == kGiven) ThrowInput("{}: input '{}' is declared twice", file, input.name);
    producer = kGiven;
  }
  for (const FileTensor& tensor : model.tensors) producers[tensor.id.index()] = kGiven;
  for (size_t i = 0; i < model.calls.size(); ++i) {
    for (const CallName output : model.calls[i].results) {
      if (!output.valid()) continue;
      size_t& producer = producers[output.index()];
      if (producer == kGiven) {
        ThrowInput("{}: value '{}' is an input or initializer and also produced by node '{}'", file,
                   model.names[output], model.calls[i].name);
      }
      if (producer != kNone) {
        ThrowInput("{}: value '{}' is produced by node '{}' and again by node '{}'", file,
                   model.names[output], model.calls[producer].name, model.calls[i].name);
      }
      producer = i;
    }
  }
  return producers;
}

// Node `to` reads a result of node `from`.
struct Edge {
  size_t from, to;
};

// One edge per operand, grouped by the node that reads it.
std::vector<Edge> Edges(const ModelFile& model, std::string_view file) {
  const std::vector<size_t> producers = Producers(model, file);
  std::vector<Edge> edges;
  for (size_t i = 0; i < model.calls.size(); ++i) {
    for (const CallName input : model.calls[i].operands) {
      if (!input.valid()) continue;
      const size_t producer = producers[input.index()];
      if (producer == kNone) {
        ThrowInput("{}: node '{}' reads '{}', which no node, input or initializer produces", file,
                   model.calls[i].name, model.names[input]);
      }
      if (producer != kGiven) edges.push_back({producer, i});
    }
  }
  return edges;
}

// Walks back from a node that could not be sorted. Each such node has an operand from another such node, so a node is
// reached again, and the nodes in between form a cycle.
[[noreturn]] void ThrowCycle(const ModelFile& model, std::string_view file,
                             const std::vector<Edge>& edges, const std::vector<size_t>& missing) {
  size_t at = static_cast<size_t>(
      std::find_if(missing.begin(), missing.end(), [](size_t m) { return m > 0; }) -
      missing.begin());
  std::vector<size_t> path;
  std::unordered_map<size_t, size_t> place;
  while (!place.contains(at)) {
    place[at] = path.size();
    path.push_back(at);
    size_t next = model.calls.size();
    auto edge = std::ranges::lower_bound(edges, at, {}, &Edge::to);
    for (; edge != edges.end() && edge->to == at; ++edge) {
      if (missing[edge->from] > 0) next = edge->from;
    }
    HEDDLE_CHECK(next < model.calls.size());
    at = next;
  }
  std::vector<size_t> cycle(path.begin() + static_cast<std::ptrdiff_t>(place[at]), path.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::string names;
  for (size_t i = 0; i < std::min(cycle.size(), kMaxNodesListed); ++i) {
    names += fmt::format("'{}' -> ", model.calls[cycle[i]].name);
  }
  if (cycle.size() > kMaxNodesListed)
    names += fmt::format("{} more -> ", cycle.size() - kMaxNodesListed);
  ThrowInput("{}: the graph has a cycle: {}'{}'; export it again", file, names,
             model.calls[cycle.front()].name);
}

}  // namespace

std::vector<size_t> SortNodes(const ModelFile& model, std::string_view file) {
  const std::vector<Edge> edges = Edges(model, file);
  std::vector<size_t> order(model.calls.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (std::ranges::all_of(edges, [](const Edge& edge) { return edge.from < edge.to; })) {
    return order;
  }
  order.clear();
  // Number of operands whose node has not been sorted yet.
  std::vector<size_t> missing(model.calls.size(), 0);
  std::vector<std::vector<size_t>> readers(model.calls.size());
  for (const Edge& edge : edges) {
    readers[edge.from].push_back(edge.to);
    ++missing[edge.to];
  }
  // The lowest index comes first, so that sorted nodes keep their order.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const size_t reader : readers[node]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < model.calls.size()) ThrowCycle(model, file, edges, missing);
  return order;
}

}  // namespace heddle
