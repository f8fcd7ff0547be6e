// Checks that a Graph is sound; graph.h lists the checks.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/text.h"

namespace heddle {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> Run() {
    CheckNames();
    for (size_t i = 0; i < graph_.values.size(); ++i) CheckValue(i);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) CheckNode(i);
    CheckOutputs();
    return std::move(found_);
  }

 private:
  template <class... Args>
  void Report(fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  template <class Id>
  static size_t Index(Id id) {
    return static_cast<size_t>(id.value);
  }
  bool InRange(ValueId id) const { return id.value >= 0 && Index(id) < graph_.values.size(); }
  bool InRange(NodeId id) const { return id.value >= 0 && Index(id) < graph_.nodes.size(); }

  std::string Describe(const Value& value) const {
    auto i = &value - graph_.values.data();
    return fmt::format("value {} ({})", i, ValueReference(value.name));
  }
  std::string DescribeNode(size_t i) const {
    const std::string& op = graph_.nodes[i].op;
    return fmt::format("node {} ({})", i, IsPlainIdentifier(op) ? op : Quote(op));
  }

  void CheckNames() {
    std::unordered_map<std::string_view, size_t> first;  // the first value of a name
    first.reserve(graph_.values.size());
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.name.empty()) {
        Report("value {} has no name", i);
        continue;
      }
      const auto [known, fresh] = first.try_emplace(value.name, i);
      if (!fresh) Report("{} has the name of value {}", Describe(value), known->second);
    }
  }

  void CheckValue(size_t i) {
    const Value& value = graph_.values[i];
    if (static_cast<int64_t>(value.type.shape.size()) > kMaxRank) {
      Report("{} has {} dimensions, above {}", Describe(value), value.type.shape.size(), kMaxRank);
    }
    try {
      ByteCount(value.type, "");
    } catch (const InputError& error) {
      found_.push_back(Describe(value) + error.what());  // described only now: few are wrong
    }
    CheckData(value);
    if (value.kind != ValueKind::kActivation) {
      if (value.producer != NodeId{}) {
        Report("{} is not an activation, but node {} is its producer", Describe(value),
               value.producer.value);
      }
      return;
    }
    if (!InRange(value.producer)) {
      Report("{} is an activation, but its producer is node {} of {}", Describe(value),
             value.producer.value, graph_.nodes.size());
      return;
    }
    size_t times = 0;
    for (ValueId result : graph_.node(value.producer).results)
      times += Index(result) == i ? 1u : 0u;
    if (times != 1) {
      Report("{} occurs {} times in the results of its producer, {}", Describe(value), times,
             DescribeNode(Index(value.producer)));
    }
  }

  void CheckData(const Value& value) {
    if (!value.data) return;
    if (value.kind != ValueKind::kConstant && value.kind != ValueKind::kParameter) {
      Report("{} has data, but is neither a constant nor a parameter", Describe(value));
    }
    if (value.data->type() != value.type) {
      Report("{} is {}, but its data is {}", Describe(value), ToString(value.type),
             ToString(value.data->type()));
      return;
    }
    try {
      int64_t bytes = ByteCount(value.type);
      if (static_cast<int64_t>(value.data->data.size()) != bytes) {
        Report("{} has {} bytes of data, expected {}", Describe(value), value.data->data.size(),
               bytes);
      }
    } catch (const InputError&) {
      // The error in its type has been reported already.
    }
  }

  void CheckNode(size_t i) {
    const Node& node = graph_.nodes[i];
    if (node.op.empty()) Report("node {} has no op", i);
    for (size_t k = 0; k < node.operands.size(); ++k) {
      ValueId id = node.operands[k];
      if (!InRange(id)) {
        Report("{} has value {} of {} as operand {}", DescribeNode(i), id.value,
               graph_.values.size(), k);
      } else if (const Value& value = graph_.value(id); value.kind == ValueKind::kActivation &&
                                                        InRange(value.producer) &&
                                                        Index(value.producer) >= i) {
        Report("{} reads {} before {} produces it", DescribeNode(i), Describe(value),
               DescribeNode(Index(value.producer)));
      }
    }
    if (node.results.empty()) Report("{} has no results", DescribeNode(i));
    for (size_t k = 0; k < node.results.size(); ++k) {
      ValueId id = node.results[k];
      if (!InRange(id)) {
        Report("{} has value {} of {} as result {}", DescribeNode(i), id.value,
               graph_.values.size(), k);
      } else if (const Value& value = graph_.value(id); value.kind != ValueKind::kActivation ||
                                                        !InRange(value.producer) ||
                                                        Index(value.producer) != i) {
        Report("{} has result {}, which it does not produce", DescribeNode(i), Describe(value));
      }
    }
  }

  void CheckOutputs() {
    if (graph_.outputs.empty()) Report("the graph has no output");
    for (ValueId id : graph_.outputs) {
      if (!InRange(id)) Report("value {} of {} is an output", id.value, graph_.values.size());
    }
  }

  const Graph& graph_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> Verify(const Graph& graph) { return Verifier(graph).Run(); }

std::vector<std::string> VerifyModel(const Graph& graph) {
  std::vector<std::string> found = Verify(graph);
  if (graph.outputs.size() != 1) {
    // Verify has already reported that there is no output.
    if (!graph.outputs.empty()) {
      found.push_back(
          fmt::format("a model has one output, its loss; this one has {}", graph.outputs.size()));
    }
    return found;
  }
  ValueId loss = graph.outputs.front();
  if (loss.value < 0 || static_cast<size_t>(loss.value) >= graph.values.size()) return found;
  const Value& value = graph.value(loss);
  if (!value.type.shape.empty() || !IsFloat(value.type.dtype)) {
    found.push_back(fmt::format("the loss {} is {}, not a scalar of a float type",
                                ValueReference(value.name), ToString(value.type)));
  }
  return found;
}

}  // namespace heddle
