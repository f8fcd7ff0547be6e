#include "search/explore/model_counts.h"

#include <algorithm>
#include <map>
#include <set>

namespace heddle {
namespace {

double Elements(const Model& model, ValueId id) {
  return static_cast<double>(ElementCount(model.graph.value(id).type.shape));
}

using ReadersOfParameters = std::map<ValueId, std::set<int>>;  // the blocks that read each

ReadersOfParameters FindReaders(const Model& model) {
  ReadersOfParameters readers;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    for (ValueId operand : model.graph.nodes[n].operands) {
      bool parameter = model.graph.value(operand).kind == ValueKind::kParameter;
      if (parameter) readers[operand].insert(model.block_of[n]);
    }
  }
  return readers;
}

// Does the block alone read this parameter?
bool IsOwn(const ReadersOfParameters& readers, ValueId id) {
  auto found = readers.find(id);
  return found != readers.end() && found->second.size() == 1;
}

void CountTied(const Model& model, const ModelUnits& units, const ReadersOfParameters& readers,
               ModelCounts& out) {
  int last_unit = units.begins[static_cast<size_t>(units.count()) - 1];
  int middle = units.begins[static_cast<size_t>(units.count()) / 2];
  for (const auto& [id, blocks] : readers) {
    bool apart = *blocks.begin() < middle && *blocks.rbegin() >= middle;
    if (apart) out.tied_across_middle += Elements(model, id);
    bool with_head = *blocks.begin() < last_unit && *blocks.rbegin() >= last_unit;
    if (units.head && with_head && model.flow.needed[id.index()])
      out.tied_to_head += Elements(model, id);
  }
}

// Parameters that the nodes of a layer read and no other block does.
void CountOwn(const Model& model, const ModelBlock& layer, const ReadersOfParameters& readers,
              ModelCounts& out) {
  bool own = false;
  for (NodeId id : layer.nodes) {
    const std::vector<WorkTerm>& work = model.rules[id.index()].work;
    bool product = std::any_of(work.begin(), work.end(),
                               [](const WorkTerm& term) { return term.contraction; });
    for (ValueId operand : model.graph.node(id).operands) {
      if (!IsOwn(readers, operand)) continue;
      own = true;
      if (product) out.products += Elements(model, operand);
    }
  }
  out.layers_with_own += own ? 1 : 0;
}

void CountBlock(const Model& model, const ModelBlock& block, const ReadersOfParameters& readers,
                ModelCounts& out) {
  std::set<ValueId> read;
  for (NodeId id : block.nodes) {
    for (ValueId operand : model.graph.node(id).operands) {
      if (model.graph.value(operand).kind == ValueKind::kParameter) read.insert(operand);
    }
  }
  double sum = 0;
  for (ValueId id : read) sum += Elements(model, id);
  out.block_parameters.push_back(sum);
  out.largest_block = std::max(out.largest_block, sum);
  if (block.chain >= 0) {
    for (ValueId id : read) {
      if (!IsOwn(readers, id)) out.shared_with_layers += Elements(model, id);
    }
    CountOwn(model, block, readers, out);
    return;
  }
  out.outside_layers += sum;
  out.trains_outside_layers =
      out.trains_outside_layers || std::any_of(read.begin(), read.end(), [&](ValueId id) {
        return model.flow.needed[id.index()];
      });
}

// Bytes that cross a cut in the middle of the model.
double CrossingInTheMiddle(const Model& model, const ModelUnits& units) {
  // Per block: the bytes that begin to cross after it, less those that end.
  std::vector<double> change(model.blocks.size() + 1, 0);
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
  int cut = units.begins[static_cast<size_t>(units.count()) / 2];
  return change[static_cast<size_t>(cut) - 1];
}

// The least over all cuts of the bytes that the unit before the cut makes and the unit after it
// reads. Values made earlier, such as the output of an encoder, are not counted: they may come from
// another stage.
double LeastCrossing(const Model& model, const ModelUnits& units) {
  std::vector<int> unit_of(model.blocks.size(), 0);
  std::vector<double> crossing(static_cast<size_t>(units.count()), 0);  // before each unit
  for (int u = 0; u < units.count(); ++u) {
    size_t first = static_cast<size_t>(units.begins[static_cast<size_t>(u)]);
    size_t last = static_cast<size_t>(units.begins[static_cast<size_t>(u) + 1]);
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

}  // namespace

ModelCounts CountModel(const Model& model, const ModelUnits& units) {
  ModelCounts out;
  for (ValueId id : model.graph.ValuesOf(ValueKind::kParameter)) {
    out.parameters += Elements(model, id);
    out.largest_parameter = std::max(out.largest_parameter, Elements(model, id));
  }
  ReadersOfParameters readers = FindReaders(model);
  CountTied(model, units, readers, out);
  for (const ModelBlock& block : model.blocks) CountBlock(model, block, readers, out);
  if (units.count() < 2) return out;
  out.crossing_bytes = CrossingInTheMiddle(model, units);
  out.least_crossing_bytes = LeastCrossing(model, units);
  return out;
}

}  // namespace heddle
