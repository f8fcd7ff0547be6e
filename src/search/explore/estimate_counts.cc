// What an estimator counts in the model once: what crosses a cut, and parameters by who reads them.
#include <algorithm>
#include <map>
#include <set>

#include "search/explore/estimate_internal.h"

namespace heddle {

// What crosses a cut of the whole batch: in the middle, and where it is least.
void Estimator::CountCrossing() {
  const Model& model = prices_.model();
  if (units_.count() < 2) return;
  std::vector<double> change(model.blocks.size() + 1,
                             0);  // per block: what begins and what ends there
  for (size_t v = 0; v < model.graph.values.size(); ++v) {
    const Value& value = model.graph.values[v];
    if (!value.producer.valid()) continue;
    int made = model.block_of[value.producer.index()], read = made;
    for (NodeId at : model.readers[v]) read = std::max(read, model.block_of[at.index()]);
    if (made < 0 || read == made) continue;
    change[static_cast<size_t>(made)] += static_cast<double>(ByteCount(value.type));
    change[static_cast<size_t>(read)] -= static_cast<double>(ByteCount(value.type));
  }
  for (size_t b = 1; b < change.size(); ++b) change[b] += change[b - 1];
  auto crossing = [&](int cut) { return change[static_cast<size_t>(cut) - 1]; };
  crossing_bytes_ = crossing(units_.begins[static_cast<size_t>(units_.count()) / 2]);
  least_crossing_bytes_ = LeastCrossing();
}

// Of all cuts the one with the fewest bytes that the unit before it makes and the unit after it reads: what is made earlier,
// as the output of an encoder, may come from another stage.
double Estimator::LeastCrossing() const {
  const Model& model = prices_.model();
  std::vector<int> unit_of(model.blocks.size(), 0);
  std::vector<double> crossing(static_cast<size_t>(units_.count()), 0);  // before each unit
  for (int u = 0; u < units_.count(); ++u) {
    size_t first = static_cast<size_t>(units_.begins[static_cast<size_t>(u)]);
    size_t last = static_cast<size_t>(units_.begins[static_cast<size_t>(u) + 1]);
    std::fill(unit_of.begin() + static_cast<std::ptrdiff_t>(first),
              unit_of.begin() + static_cast<std::ptrdiff_t>(last), u);
  }
  auto unit = [&](NodeId id) {
    int block = model.block_of[id.index()];
    return block < 0 ? -2 : unit_of[static_cast<size_t>(block)];
  };
  for (size_t v = 0; v < model.graph.values.size(); ++v) {
    const Value& value = model.graph.values[v];
    if (!value.producer.valid()) continue;
    int next = unit(value.producer) + 1;
    bool read = next > 0 && std::any_of(model.readers[v].begin(), model.readers[v].end(),
                                        [&](NodeId at) { return unit(at) == next; });
    if (read) crossing[static_cast<size_t>(next)] += static_cast<double>(ByteCount(value.type));
  }
  return *std::min_element(crossing.begin() + 1, crossing.end());
}

void Estimator::CountParameters() {
  const Graph& graph = prices_.model().graph;
  auto elements = [&](ValueId id) {
    return static_cast<double>(ElementCount(graph.value(id).type.shape));
  };
  for (ValueId id : graph.ValuesOf(ValueKind::kParameter)) {
    parameters_ += elements(id);
    largest_parameter_ = std::max(largest_parameter_, elements(id));
  }
  std::map<ValueId, std::set<int>> readers;  // blocks
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId operand : graph.nodes[n].operands) {
      bool parameter = graph.value(operand).kind == ValueKind::kParameter;
      if (parameter) readers[operand].insert(prices_.model().block_of[n]);
    }
  }
  int last_unit = units_.begins[static_cast<size_t>(units_.count()) - 1];
  int middle = units_.begins[static_cast<size_t>(units_.count()) / 2];
  for (const auto& [id, blocks] : readers) {
    bool apart = *blocks.begin() < middle && *blocks.rbegin() >= middle;
    if (apart) tied_parameters_ += elements(id);
    bool with_head = *blocks.begin() < last_unit && *blocks.rbegin() >= last_unit;
    if (units_.head && with_head && prices_.model().flow.needed[id.index()])
      head_tied_parameters_ += elements(id);
  }
  for (const ModelBlock& block : prices_.model().blocks) {
    std::set<ValueId> read;
    for (NodeId id : block.nodes) {
      for (ValueId operand : graph.node(id).operands) {
        if (graph.value(operand).kind == ValueKind::kParameter) read.insert(operand);
      }
    }
    double sum = 0;
    for (ValueId id : read) sum += elements(id);
    block_parameters_.push_back(sum);
    largest_block_ = std::max(largest_block_, sum);
    if (block.chain < 0) {
      loose_parameters_ += sum;
      trains_loose_ = trains_loose_ || std::any_of(read.begin(), read.end(), [&](ValueId id) {
                        return prices_.model().flow.needed[id.index()];
                      });
    }
    bool alone = false;  // what blocks share stays whole
    for (ValueId id : read) {
      auto found = readers.find(id);
      bool shared = found != readers.end() && found->second.size() > 1;
      if (block.chain >= 0 && shared) shared_layer_parameters_ += elements(id);
    }
    for (NodeId id : block.nodes) {
      const std::vector<WorkTerm>& work = prices_.model().rules[id.index()].work;
      bool product = std::any_of(work.begin(), work.end(),
                                 [](const WorkTerm& term) { return term.contraction; });
      for (ValueId operand : graph.node(id).operands) {
        auto found = readers.find(operand);
        if (found == readers.end() || found->second.size() > 1) continue;
        alone = true;
        if (product && block.chain >= 0) product_parameters_ += elements(operand);
      }
    }
    gathered_layers_ += alone && block.chain >= 0 ? 1 : 0;
  }
}

}  // namespace heddle
