#include "plan/partition.h"

#include <algorithm>
#include <set>

namespace heddle {
namespace {

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
  // ---- The graph of elements: copies first, then one element for each single node.

  void FindElements() {
    copies_.clear();
    element_.assign(model_.graph.nodes.size(), -1);
    for (size_t c = 0; c < kept_.size(); ++c) {
      if (!kept_[c]) continue;
      const Chain& chain = model_.folding.chains[c];
      for (size_t i = 0; i < chain.copies.size(); ++i) {
        for (NodeId id : chain.copies[i]) {
          element_[id.index()] = static_cast<int>(copies_.size());
        }
        copies_.push_back({{}, static_cast<int>(c), static_cast<int>(i)});
      }
    }
    int next = static_cast<int>(copies_.size());
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) {
        element_[n] = -1;
      } else if (element_[n] < 0) {
        element_[n] = next++;
      }
    }
    successors_.assign(static_cast<size_t>(next), {});
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) continue;
      for (NodeId reader : ReadersOf(n)) {
        int from = element_[n], to = element_[reader.index()];
        if (from != to) successors_[static_cast<size_t>(from)].push_back(to);
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

  bool IsCopy(int element) const { return element < static_cast<int>(copies_.size()); }

  // Tarjan's strongly connected components, without recursion: deep models have long paths.
  void FindComponents() {
    size_t count = successors_.size();
    component_.assign(count, -1);
    components_ = 0;
    std::vector<int> index(count, -1), low(count, 0), open;
    std::vector<std::pair<int, size_t>>
        path;  // an element and how many of its successors were seen
    int next = 0;
    for (size_t root = 0; root < count; ++root) {
      if (index[root] >= 0) continue;
      path.emplace_back(static_cast<int>(root), 0);
      while (!path.empty()) {
        auto& [element, seen] = path.back();
        size_t at = static_cast<size_t>(element);
        if (seen == 0 && index[at] < 0) {
          index[at] = low[at] = next++;
          open.push_back(element);
        }
        if (seen < successors_[at].size()) {
          size_t to = static_cast<size_t>(successors_[at][seen++]);
          if (index[to] < 0) {
            path.emplace_back(static_cast<int>(to), 0);
          } else if (component_[to] < 0) {
            low[at] = std::min(low[at], index[to]);
          }
          continue;
        }
        if (low[at] == index[at]) Close(element, open);
        path.pop_back();
        if (!path.empty()) {
          size_t parent = static_cast<size_t>(path.back().first);
          low[parent] = std::min(low[parent], low[at]);
        }
      }
    }
  }

  void Close(int element, std::vector<int>& open) {
    int last;
    do {
      last = open.back();
      open.pop_back();
      component_[static_cast<size_t>(last)] = components_;
    } while (last != element);
    ++components_;
  }

  // Gives up the chain of the fewest nodes, the last of those, of chains whose copies are on a cycle with others.
  bool GiveUpChain() {
    std::vector<std::vector<int>> chains(
        static_cast<size_t>(components_));  // by component, one for each copy
    for (size_t e = 0; e < copies_.size(); ++e) {
      chains[static_cast<size_t>(component_[e])].push_back(copies_[e].chain);
    }
    int smallest = -1;
    auto nodes = [&](int c) {
      const Chain& chain = model_.folding.chains[static_cast<size_t>(c)];
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
    kept_[static_cast<size_t>(smallest)] = false;
    return true;
  }

  // Where branches are parallel and less than half of the nodes are in copies, these are no layers: stages of such a net
  // (Inception) are better cut at any node.
  bool TooFewAreLayers() const {
    size_t nodes = 0, layers = 0;
    for (int element : element_) {
      nodes += element >= 0 ? 1 : 0;
      layers += element >= 0 && IsCopy(element) ? 1 : 0;
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
    std::vector<int> copy_of(static_cast<size_t>(components_), -1);
    for (size_t e = 0; e < copies_.size(); ++e) {
      copy_of[static_cast<size_t>(component_[e])] = static_cast<int>(e);
    }
    for (int& element : element_) {
      if (element < 0) continue;
      int copy = copy_of[static_cast<size_t>(component_[static_cast<size_t>(element)])];
      if (copy >= 0) element = copy;
    }
  }

  // ---- Order

  // Topological, the next copy of the chain at work before others. Copies are at odd positions, what lies between them
  // at even ones.
  void OrderCopies() {
    order_.clear();
    std::vector<std::set<int>> after(successors_.size());
    std::vector<int> missing(successors_.size(), 0);
    for (size_t n = 0; n < element_.size(); ++n) {
      if (side_[n]) continue;
      for (NodeId reader : ReadersOf(n)) {
        int to = element_[reader.index()];
        if (to != element_[n] && after[static_cast<size_t>(element_[n])].insert(to).second) {
          ++missing[static_cast<size_t>(to)];
        }
      }
    }
    std::vector<int> singles;
    std::set<int> ready;  // copies
    auto open = [&](int element) {
      if (IsCopy(element)) {
        ready.insert(element);
      } else {
        singles.push_back(element);
      }
    };
    for (size_t e = 0; e < missing.size(); ++e) {
      if (missing[e] == 0) open(static_cast<int>(e));
    }
    int last = -1;
    while (!singles.empty() || !ready.empty()) {
      int element;
      if (!singles.empty()) {
        element = singles.back();
        singles.pop_back();
      } else {
        bool next = last >= 0 && ready.contains(last + 1) &&
                    copies_[static_cast<size_t>(last)].chain ==
                        copies_[static_cast<size_t>(last) + 1].chain;
        element = next ? last + 1 : *ready.begin();
        ready.erase(element);
        last = element;
        order_.push_back(element);
      }
      for (int to : after[static_cast<size_t>(element)]) {
        if (--missing[static_cast<size_t>(to)] == 0) open(to);
      }
    }
  }

  void PlaceSingles() {
    position_.assign(model_.graph.nodes.size(), 0);
    std::vector<int> of_copy(copies_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      of_copy[static_cast<size_t>(order_[i])] = 2 * static_cast<int>(i) + 1;
    }
    auto single = [&](size_t n) { return !side_[n] && !IsCopy(element_[n]); };
    for (size_t n = 0; n < position_.size(); ++n) {
      if (side_[n]) continue;
      if (!single(n)) {
        position_[n] = of_copy[static_cast<size_t>(element_[n])];
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
      if (copy && of_previous[n]) follows[static_cast<size_t>(position_[n] / 2)] = true;
    }
    return std::all_of(follows.begin() + (follows.empty() ? 0 : 1), follows.end(),
                       [](bool is) { return is; });
  }

  std::vector<ModelBlock> Collect() const {
    std::vector<std::vector<NodeId>> at(2 * copies_.size() + 1);
    for (size_t n = 0; n < position_.size(); ++n) {
      if (!side_[n]) at[static_cast<size_t>(position_[n])].push_back(NodeId::FromIndex(n));
    }
    std::vector<ModelBlock> blocks;
    for (size_t p = 0; p < at.size(); ++p) {
      if (p % 2 == 1) {
        blocks.push_back(copies_[static_cast<size_t>(order_[p / 2])]);
        blocks.back().nodes = at[p];
      } else {
        for (NodeId id : at[p]) blocks.push_back({{id}, -1, -1});
      }
    }
    return blocks;
  }

  const Model& model_;
  const std::vector<bool>& side_;
  std::vector<bool> kept_;                    // per chain
  std::vector<ModelBlock> copies_;            // without nodes
  std::vector<int> element_;                  // per node; -1: a side node
  std::vector<std::vector<int>> successors_;  // per element
  std::vector<int> component_;                // per element
  int components_ = 0;
  std::vector<int> order_;     // copies
  std::vector<int> position_;  // per node
};

}  // namespace

std::vector<ModelBlock> PartitionIntoBlocks(const Model& model, const std::vector<bool>& side) {
  return Partition(model, side).Run();
}

}  // namespace heddle
