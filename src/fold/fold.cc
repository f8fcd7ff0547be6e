#include "fold/fold.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "base/checked_math.h"
#include "fold/canonical.h"

namespace heddle {
namespace {

// Seed pairs have neighbourhoods of these radii in common: large ones tell the nodes of a block apart, small
// ones find blocks and chains that are short.
constexpr int kRadii[] = {0, 1, 2, 4};
constexpr size_t kMaxSeeds = 24;   // tried per chain and radius
constexpr size_t kMaxCuts = 24;    // places tried to cut blocks apart
constexpr size_t kLeastBlock = 2;  // nodes: less is no block

// A partial map from nodes to their counterparts one block later, and its inverse.
struct Shift {
  std::vector<NodeId> to, from;
  std::vector<NodeId> mapped;  // nodes with a counterpart
  bool twisted = false;        // some node was asked to have two counterparts

  explicit Shift(size_t nodes) : to(nodes), from(nodes) {}
};

// One place where a value is read.
struct Use {
  NodeId reader;
  int operand;
};

class Folder {
 public:
  Folder(const Graph& graph, const Rules& rules)
      : graph_(graph),
        order_(CanonicalOrder(graph)),
        rank_(graph.nodes.size(), -1),
        signature_(Signatures(graph, rules)),
        uses_(graph.values.size()),
        taken_(graph.nodes.size(), false) {
    neighbourhoods_.push_back(signature_);
    for (size_t i = 1; i < std::size(kRadii);
         ++i) {  // from the radius before, by so many steps more
      neighbourhoods_.push_back(
          Neighbourhoods(graph, neighbourhoods_.back(), kRadii[i] - kRadii[i - 1]));
    }
    std::reverse(neighbourhoods_.begin(), neighbourhoods_.end());
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i].index()] = static_cast<int32_t>(i);
    result_index_.assign(graph.values.size(), 0);
    for (NodeId id : order_) {
      const std::vector<ValueId>& results = graph.node(id).results;
      for (size_t r = 0; r < results.size(); ++r)
        result_index_[results[r].index()] = static_cast<int>(r);
      const std::vector<ValueId>& operands = graph.node(id).operands;
      for (size_t o = 0; o < operands.size(); ++o) {
        uses_[operands[o].index()].push_back({id, static_cast<int>(o)});
      }
    }
    MeasureAlive();
  }

  Folding Run() {
    Folding folding;
    while (std::optional<Chain> chain = BestChain()) {
      for (const auto& copy : chain->copies) {
        for (NodeId id : copy) taken_[id.index()] = true;
      }
      folding.chains.push_back(*std::move(chain));
    }
    // By the end of the first block: a decoder may begin with what reads inputs alone, but ends it with what the encoder made.
    std::sort(folding.chains.begin(), folding.chains.end(), [&](const Chain& a, const Chain& b) {
      return rank_[a.copies[0].back().index()] < rank_[b.copies[0].back().index()];
    });
    return folding;
  }

 private:
  bool Free(NodeId id) const { return id.valid() && rank_[id.index()] >= 0 && !taken_[id.index()]; }

  // Of the nodes with the same neighbourhood, the two in the middle of the canonical order. A node that occurs
  // once per block has its counterpart next to it.
  std::vector<std::pair<NodeId, NodeId>> Seeds(const std::vector<uint64_t>& neighbourhood) const {
    std::unordered_map<uint64_t, std::vector<NodeId>> classes;
    for (NodeId id : order_) {
      if (Free(id)) classes[neighbourhood[id.index()]].push_back(id);
    }
    std::vector<std::vector<NodeId>> sorted;
    for (auto& [hash, members] : classes) {
      if (members.size() > 1) sorted.push_back(std::move(members));
    }
    // Most members first: they belong to the longest chains. Ties by canonical order, not by hash.
    std::sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
      if (a.size() != b.size()) return a.size() > b.size();
      return rank_[a[0].index()] < rank_[b[0].index()];
    });
    std::vector<std::pair<NodeId, NodeId>> seeds;
    for (const std::vector<NodeId>& members : sorted) {
      size_t middle = (members.size() - 2) / 2;
      seeds.emplace_back(members[middle], members[middle + 1]);
    }
    return seeds;
  }

  Shift Grow(NodeId first, NodeId second) const {
    Shift shift(graph_.nodes.size());
    std::vector<std::pair<NodeId, NodeId>> open = {{first, second}};
    while (!open.empty()) {
      auto [u, v] = open.back();
      open.pop_back();
      if (u == v || !Free(u) || !Free(v) || signature_[u.index()] != signature_[v.index()])
        continue;
      if (shift.to[u.index()].valid() || shift.from[v.index()].valid()) {
        shift.twisted |= shift.to[u.index()] != v;
        continue;
      }
      shift.to[u.index()] = v;
      shift.from[v.index()] = u;
      shift.mapped.push_back(u);
      const Node& a = graph_.node(u);
      const Node& b = graph_.node(v);
      for (size_t o = 0; o < a.operands.size(); ++o) {
        if (a.operands[o] == b.operands[o]) continue;  // read by every block
        NodeId from = graph_.value(a.operands[o]).producer,
               to = graph_.value(b.operands[o]).producer;
        bool same_result =
            result_index_[a.operands[o].index()] == result_index_[b.operands[o].index()];
        if (from.valid() && to.valid() && same_result) open.emplace_back(from, to);
      }
      for (size_t r = 0; r < a.results.size(); ++r) PairReaders(a.results[r], b.results[r], &open);
    }
    return shift;
  }

  // Readers alike in signature and operand, where there is one such on each side. Others are paired through
  // what reads them in turn.
  void PairReaders(ValueId a, ValueId b, std::vector<std::pair<NodeId, NodeId>>* open) const {
    std::vector<Reader> left = SortedReaders(a), right = SortedReaders(b);
    for (const Use& use : uses_[a.index()]) {
      Reader wanted{use.operand, signature_[use.reader.index()], use.reader};
      auto here = std::equal_range(left.begin(), left.end(), wanted, Reader::Before);
      auto there = std::equal_range(right.begin(), right.end(), wanted, Reader::Before);
      bool alone = here.second - here.first == 1 && there.second - there.first == 1;
      if (alone) open->emplace_back(use.reader, there.first->id);
    }
  }

  struct Reader {
    int operand;
    uint64_t signature;
    NodeId id;
    static bool Before(const Reader& a, const Reader& b) {
      return std::pair(a.operand, a.signature) < std::pair(b.operand, b.signature);
    }
  };
  std::vector<Reader> SortedReaders(ValueId id) const {
    std::vector<Reader> readers;
    for (const Use& use : uses_[id.index()]) {
      readers.push_back({use.operand, signature_[use.reader.index()], use.reader});
    }
    std::sort(readers.begin(), readers.end(), Reader::Before);
    return readers;
  }

  // More nodes covered is better, then more copies, then fewer bytes across the cut.
  static auto Score(const Chain& chain) {
    int64_t count = static_cast<int64_t>(chain.count());
    return std::tuple(-count * static_cast<int64_t>(chain.nodes_per_block()), -count,
                      chain.crossing_bytes);
  }

  std::optional<Chain> BestChain() const {
    std::optional<Shift> last;
    std::optional<Chain> best;
    for (const std::vector<uint64_t>& neighbourhood : neighbourhoods_) {
      size_t tried = 0;
      for (auto [first, second] : Seeds(neighbourhood)) {
        if (last && !last->twisted && last->to[first.index()] == second)
          continue;  // grows the same
        if (tried++ == kMaxSeeds) break;
        Shift shift = Grow(first, second);
        // The shift by one block has more pairs than any other of the same chain.
        if (last && shift.mapped.size() + (last->twisted ? 1 : 0) <= last->mapped.size()) continue;
        std::optional<Chain> chain = CutChain(shift);
        if (!chain || (best && Score(*best) <= Score(*chain))) continue;
        best = std::move(chain);
        last = std::move(shift);
      }
    }
    return best;
  }

  // Elements of the orbits: u, its counterpart, and so on.
  std::vector<std::vector<NodeId>> Orbits(const Shift& shift) const {
    std::vector<std::vector<NodeId>> orbits;
    for (NodeId id : order_) {
      if (!shift.to[id.index()].valid() || shift.from[id.index()].valid()) continue;
      std::vector<NodeId> orbit;
      for (NodeId at = id; at.valid(); at = shift.to[at.index()]) orbit.push_back(at);
      orbits.push_back(std::move(orbit));
    }
    return orbits;
  }

  // The orbits after whose middle node the fewest bytes are alive in canonical order: the places where a cut
  // may be narrow. Trying every orbit would cost nodes times nodes per block.
  std::vector<std::vector<NodeId>> NarrowOrbits(const Shift& shift) const {
    std::vector<std::vector<NodeId>> orbits = Orbits(shift);
    auto alive = [&](const std::vector<NodeId>& orbit) {
      NodeId middle = orbit[orbit.size() / 2];
      return std::tuple(alive_bytes_[static_cast<size_t>(rank_[middle.index()])],
                        rank_[middle.index()]);
    };
    std::sort(orbits.begin(), orbits.end(),
              [&](const auto& a, const auto& b) { return alive(a) < alive(b); });
    if (orbits.size() > kMaxCuts) orbits.resize(kMaxCuts);
    return orbits;
  }

  // Bytes made at or before each position of the canonical order and read after it.
  void MeasureAlive() {
    std::vector<double> change(order_.size() + 1, 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      for (ValueId result : graph_.node(order_[i]).results) {
        size_t last = i;
        for (const Use& use : uses_[result.index()]) {
          last = std::max(last, static_cast<size_t>(rank_[use.reader.index()]));
        }
        double bytes = static_cast<double>(ByteCount(graph_.value(result).type, "a value"));
        change[i] += bytes;
        change[last] -= bytes;
      }
    }
    double alive = 0;
    for (size_t i = 0; i < order_.size(); ++i) alive_bytes_.push_back(alive += change[i]);
  }

  // Tries orbits as the last node of their block.
  std::optional<Chain> CutChain(const Shift& shift) const {
    std::optional<Chain> best;
    for (const std::vector<NodeId>& orbit : NarrowOrbits(shift)) {
      std::optional<Chain> chain = CutAt(shift, orbit);
      if (chain && (!best || Score(*chain) < Score(*best))) best = std::move(chain);
    }
    return best;
  }

  // Block i is what the i-th node of the orbit depends on and the one before it does not.
  std::optional<Chain> CutAt(const Shift& shift, const std::vector<NodeId>& orbit) const {
    std::vector<int32_t> block(graph_.nodes.size(), -1);
    std::vector<std::vector<NodeId>> blocks;
    for (NodeId last : orbit)
      blocks.push_back(NewAncestors(last, static_cast<int32_t>(blocks.size()), &block));
    // The first may be a whole block as well, among the nodes that lead up to the chain.
    if (orbit.size() >= 2) {
      std::vector<NodeId> before;
      for (NodeId id : blocks[1]) {
        NodeId source = shift.from[id.index()];
        if (source.valid() && block[source.index()] == 0) before.push_back(source);
      }
      if (before.size() == blocks[1].size()) {
        for (NodeId id : blocks[0]) block[id.index()] = -1;
        for (NodeId id : before) block[id.index()] = 0;
        blocks[0] = std::move(before);
      }
    }
    auto follows = [&](size_t i) {  // is block i+1 the counterpart of block i?
      if (blocks[i].size() != blocks[i + 1].size()) return false;
      return std::all_of(blocks[i].begin(), blocks[i].end(), [&](NodeId id) {
        NodeId to = shift.to[id.index()];
        return to.valid() && block[to.index()] == static_cast<int32_t>(i + 1);
      });
    };
    size_t best_begin = 0, best_count = 1;
    for (size_t begin = 0; begin < blocks.size();) {
      size_t end = begin;
      while (end + 1 < blocks.size() && follows(end)) ++end;
      if (end - begin + 1 > best_count)
        std::tie(best_begin, best_count) = std::pair(begin, end - begin + 1);
      begin = end + 1;
    }
    if (best_count < 2 || blocks[best_begin].size() < kLeastBlock) return std::nullopt;
    Chain chain;
    std::vector<NodeId> copy = blocks[best_begin];
    std::sort(copy.begin(), copy.end(),
              [&](NodeId a, NodeId b) { return rank_[a.index()] < rank_[b.index()]; });
    for (size_t i = 0; i < best_count; ++i) {
      chain.copies.push_back(copy);
      if (i + 1 == best_count) break;
      for (NodeId& id : copy) id = shift.to[id.index()];
    }
    chain.crossing_bytes = CrossingBytes(chain);
    return chain;
  }

  // Free nodes that `last` depends on and that are in no block yet.
  std::vector<NodeId> NewAncestors(NodeId last, int32_t index, std::vector<int32_t>* block) const {
    std::vector<NodeId> found, stack = {last};
    while (!stack.empty()) {
      NodeId id = stack.back();
      stack.pop_back();
      if (!Free(id) || (*block)[id.index()] >= 0) continue;
      (*block)[id.index()] = index;
      found.push_back(id);
      for (ValueId operand : graph_.node(id).operands) {
        NodeId producer = graph_.value(operand).producer;
        if (producer.valid()) stack.push_back(producer);
      }
    }
    return found;
  }

  // Values made in the first block (all blocks are alike) and read outside it.
  int64_t CrossingBytes(const Chain& chain) const {
    int64_t bytes = 0;
    const std::vector<NodeId>& copy = chain.copies.front();
    std::vector<bool> inside(graph_.nodes.size(), false);
    for (NodeId id : copy) inside[id.index()] = true;
    for (NodeId id : copy) {
      for (ValueId result : graph_.node(id).results) {
        const std::vector<Use>& uses = uses_[result.index()];
        bool crosses = std::any_of(uses.begin(), uses.end(),
                                   [&](const Use& use) { return !inside[use.reader.index()]; });
        if (crosses) {
          bytes = CheckedAdd(bytes, ByteCount(graph_.value(result).type, "a crossing value"),
                             "crossing bytes");
        }
      }
    }
    return bytes;
  }

  const Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<int32_t> rank_;  // in canonical order; -1 where no output needs the node
  std::vector<uint64_t> signature_;
  std::vector<std::vector<uint64_t>> neighbourhoods_;  // one per radius, the largest first
  std::vector<std::vector<Use>> uses_;
  std::vector<double> alive_bytes_;  // after each position of the order
  std::vector<int> result_index_;    // which result of its producer a value is
  std::vector<bool> taken_;
};

}  // namespace

Folding Fold(const Graph& graph, const Rules& rules) {
  HEDDLE_CHECK_EQ(graph.nodes.size(), rules.size());
  return Folder(graph, rules).Run();
}

}  // namespace heddle
