#include "plan/partition.h"

#include <algorithm>
#include <set>

#include "base/id_vector.h"
#include "base/integers.h"

namespace heddle {
namespace {

// Copies of chains first, then one element for each single node.
using ElementId = StrongId<struct ElementTag>;
using ComponentId = StrongId<struct ComponentTag>;

class Partition {
 public:
  Partition(const Model& model, const std::vector<bool>& side)
      : model_(model), side_(side), kept_(model.folding.chains.size(), true) {}

  std::vector<ModelBlock> Run() {
    do {
      FindElements();
      FindComponents();
    } while (GiveUpChain());
    Place();
    bool in_a_row = std::find(kept_.begin(), kept_.end(), false) == kept_.end() && EachFollows();
    if (!in_a_row && TooFewAreLayers()) {
      kept_.assign(kept_.size(), false);
      FindElements();
      FindComponents();
      Place();
    }
    return Collect();
  }

 private:
  // ---- The graph of elements.

  void FindElements() {
    copies_.clear();
    element_.assign(model_.graph.nodes.size(), ElementId{});
    for (size_t c = 0; c < kept_.size(); ++c) {
      if (!kept_[c]) continue;
      const Chain& chain = model_.folding.chains[c];
      for (size_t i = 0; i < chain.copies.size(); ++i) {
        ElementId copy = copies_.Add({{}, ToInt(c), ToInt(i)});
        for (NodeId id : chain.copies[i]) element_[id.index()] = copy;
      }
    }
    successors_.assign(copies_.size(), {});
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) {
        element_[n] = {};
      } else if (!element_[n].valid()) {
        element_[n] = successors_.Add({});
      }
    }
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) continue;
      for (NodeId reader : ReadersOf(n)) {
        ElementId from = element_[n], to = element_[reader.index()];
        if (from != to) successors_[from].push_back(to);
      }
    }
  }

  // Nodes that are in a block and read a result of a node.
  std::vector<NodeId> ReadersOf(size_t node) const {
    std::vector<NodeId> readers;
    for (ValueId id : model_.graph.nodes[node].results) {
      for (NodeId reader : model_.readers[id.index()]) {
        if (!side_[reader.index()]) readers.push_back(reader);
      }
    }
    return readers;
  }

  bool IsCopy(ElementId element) const { return copies_.Has(element); }

  // Tarjan's strongly connected components, without recursion: deep models have long paths.
  void FindComponents() {
    size_t count = successors_.size();
    component_.assign(count, {});
    components_ = 0;
    IdVector<ElementId, int> index(count, -1), low(count, 0);
    std::vector<ElementId> open;
    // An element and how many of its successors were seen.
    std::vector<std::pair<ElementId, size_t>> path;
    int next = 0;
    for (ElementId root : index.ids()) {
      if (index[root] >= 0) continue;
      path.emplace_back(root, 0);
      while (!path.empty()) {
        auto& [element, seen] = path.back();
        ElementId at = element;
        if (seen == 0 && index[at] < 0) {
          index[at] = low[at] = next++;
          open.push_back(at);
        }
        if (seen < successors_[at].size()) {
          ElementId to = successors_[at][seen++];
          if (index[to] < 0) {
            path.emplace_back(to, 0);
          } else if (!component_[to].valid()) {
            low[at] = std::min(low[at], index[to]);
          }
          continue;
        }
        if (low[at] == index[at]) Close(at, open);
        path.pop_back();
        if (!path.empty()) {
          ElementId parent = path.back().first;
          low[parent] = std::min(low[parent], low[at]);
        }
      }
    }
  }

  void Close(ElementId element, std::vector<ElementId>& open) {
    ComponentId component = ComponentId::FromIndex(components_++);
    ElementId last;
    do {
      last = open.back();
      open.pop_back();
      component_[last] = component;
    } while (last != element);
  }

  // Gives up the chain of the fewest nodes, the last of those, of chains whose copies are on a cycle with others.
  bool GiveUpChain() {
    IdVector<ComponentId, std::vector<int>> chains(components_);  // one for each copy
    for (ElementId e : copies_.ids()) chains[component_[e]].push_back(copies_[e].chain);
    int smallest = -1;
    auto nodes = [&](int c) {
      const Chain& chain = model_.folding.chains[ToSize(c)];
      return chain.count() * chain.nodes_per_block();
    };
    for (const std::vector<int>& at : chains) {
      if (at.size() < 2) continue;
      for (int c : at) {
        if (smallest < 0 || nodes(c) < nodes(smallest) ||
            (nodes(c) == nodes(smallest) && c > smallest)) {
          smallest = c;
        }
      }
    }
    if (smallest < 0) return false;
    kept_[ToSize(smallest)] = false;
    return true;
  }

  // Where branches are parallel and less than half of the nodes are in copies, these are no layers: stages of such a net
  // (Inception) are better cut at any node.
  bool TooFewAreLayers() const {
    size_t nodes = 0, layers = 0;
    for (ElementId element : element_) {
      nodes += element.valid() ? 1 : 0;
      layers += IsCopy(element) ? 1 : 0;
    }
    return 2 * layers < nodes;
  }

  void Place() {
    AbsorbCycles();
    OrderCopies();
    PlaceSingles();
  }

  // What comes out of a copy and goes back into it belongs to it.
  void AbsorbCycles() {
    IdVector<ComponentId, ElementId> copy_of(components_);
    for (ElementId e : copies_.ids()) copy_of[component_[e]] = e;
    for (ElementId& element : element_) {
      if (!element.valid()) continue;
      ElementId copy = copy_of[component_[element]];
      if (copy.valid()) element = copy;
    }
  }

  // ---- Order

  // Topological, the next copy of the chain at work before others. Copies are at odd positions, what lies between them
  // at even ones.
  void OrderCopies() {
    order_.clear();
    IdVector<ElementId, std::set<ElementId>> after(successors_.size());
    IdVector<ElementId, int> missing(successors_.size(), 0);
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) continue;
      for (NodeId reader : ReadersOf(n)) {
        ElementId to = element_[reader.index()];
        if (to != element_[n] && after[element_[n]].insert(to).second) ++missing[to];
      }
    }
    std::vector<ElementId> singles;
    std::set<ElementId> ready;  // copies
    auto open = [&](ElementId element) {
      if (IsCopy(element)) {
        ready.insert(element);
      } else {
        singles.push_back(element);
      }
    };
    for (ElementId e : missing.ids()) {
      if (missing[e] == 0) open(e);
    }
    ElementId last;
    while (!singles.empty() || !ready.empty()) {
      ElementId element;
      if (!singles.empty()) {
        element = singles.back();
        singles.pop_back();
      } else {
        ElementId follower{last.value + 1};
        bool next = last.valid() && ready.contains(follower) &&
                    copies_[last].chain == copies_[follower].chain;
        element = next ? follower : *ready.begin();
        ready.erase(element);
        last = element;
        order_.push_back(element);
      }
      for (ElementId to : after[element]) {
        if (--missing[to] == 0) open(to);
      }
    }
  }

  void PlaceSingles() {
    position_.assign(model_.graph.nodes.size(), 0);
    IdVector<ElementId, int> of_copy(copies_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) of_copy[order_[i]] = 2 * ToInt(i) + 1;
    auto single = [&](size_t n) { return !side_[n] && !IsCopy(element_[n]); };
    for (size_t n = 0; n < position_.size(); ++n) {
      if (side_[n]) continue;
      if (!single(n)) {
        position_[n] = of_copy[element_[n]];
        continue;
      }
      int after = 0;
      for (ValueId id : model_.graph.nodes[n].operands) {
        NodeId producer = model_.graph.value(id).producer;
        if (producer.valid()) after = std::max(after, position_[producer.index()]);
      }
      position_[n] = after + after % 2;
    }
    for (size_t n = position_.size(); n-- > 0;) {
      if (!single(n) || position_[n] != 0) continue;
      int before = -1;
      for (NodeId reader : ReadersOf(n)) {
        int at = position_[reader.index()];
        if (before < 0 || at < before) before = at;
      }
      position_[n] = std::max(0, before - (before > 0 ? before % 2 : 0));
    }
  }

  // Does every copy but the first depend on the one that comes before it?
  bool EachFollows() const {
    std::vector<bool> follows(order_.size(), false);
    std::vector<bool> of_previous(position_.size(),
                                  false);  // depends on the copy before its position
    for (size_t n = 0; n < position_.size(); ++n) {
      if (side_[n]) continue;
      bool copy = position_[n] % 2 == 1;
      int previous = position_[n] - (copy ? 2 : 1);
      for (ValueId id : model_.graph.nodes[n].operands) {
        NodeId producer = model_.graph.value(id).producer;
        if (!producer.valid() || side_[producer.index()]) continue;
        int at = position_[producer.index()];
        bool between = at == previous + 1 && of_previous[producer.index()];
        of_previous[n] = of_previous[n] || at == previous || between;
      }
      if (copy && of_previous[n]) follows[ToSize(position_[n] / 2)] = true;
    }
    return std::all_of(follows.begin() + (follows.empty() ? 0 : 1), follows.end(),
                       [](bool is) { return is; });
  }

  std::vector<ModelBlock> Collect() const {
    std::vector<std::vector<NodeId>> at(2 * copies_.size() + 1);
    for (size_t n = 0; n < position_.size(); ++n) {
      if (!side_[n]) at[ToSize(position_[n])].push_back(NodeId::FromIndex(n));
    }
    std::vector<ModelBlock> blocks;
    for (size_t p = 0; p < at.size(); ++p) {
      if (p % 2 == 1) {
        blocks.push_back(copies_[order_[p / 2]]);
        blocks.back().nodes = at[p];
      } else {
        for (NodeId id : at[p]) blocks.push_back({{id}, -1, -1});
      }
    }
    return blocks;
  }

  const Model& model_;
  const std::vector<bool>& side_;
  std::vector<bool> kept_;                  // per chain
  IdVector<ElementId, ModelBlock> copies_;  // without nodes
  std::vector<ElementId> element_;          // per node; invalid: a side node
  IdVector<ElementId, std::vector<ElementId>> successors_;
  IdVector<ElementId, ComponentId> component_;
  size_t components_ = 0;
  std::vector<ElementId> order_;  // copies
  std::vector<int> position_;     // per node
};

}  // namespace

std::vector<ModelBlock> PartitionIntoBlocks(const Model& model, const std::vector<bool>& side) {
  return Partition(model, side).Run();
}

}  // namespace heddle
