#include "search/prices/short_model.h"

#include <algorithm>

namespace heddle {
namespace {

class Shortener {
 public:
  explicit Shortener(const Model& whole)
      : whole_(whole),
        gone_(whole.graph.nodes.size(), false),
        chain_of_(whole.graph.nodes.size(), -1),
        copy_of_(whole.graph.nodes.size(), -1),
        index_of_(whole.graph.nodes.size(), -1) {}

  ShortModel Run() {
    for (size_t c = 0; c < whole_.folding.chains.size(); ++c) Locate(c);
    for (size_t c = 0; c < whole_.folding.chains.size(); ++c) {
      bool can = CanShorten(c);
      out_.left_out.push_back(can ? static_cast<int64_t>(Count(c) - kExplicitCopies) : 0);
      if (!can) continue;
      for (size_t i = kExplicitCopies - 1; i + 1 < Count(c); ++i) {
        for (NodeId id : Copy(c, i)) gone_[id.index()] = true;
      }
    }
    DropUnread();
    CopyNodes();
    CopyChains();
    CopyBlocks();
    return std::move(out_);
  }

 private:
  const std::vector<NodeId>& Copy(size_t chain, size_t copy) const {
    return whole_.folding.chains[chain].copies[copy];
  }
  size_t Count(size_t chain) const { return whole_.folding.chains[chain].count(); }

  void Locate(size_t c) {
    for (size_t i = 0; i < Count(c); ++i) {
      for (size_t j = 0; j < Copy(c, i).size(); ++j) {
        size_t n = Copy(c, i)[j].index();
        chain_of_[n] = static_cast<int>(c);
        copy_of_[n] = static_cast<int>(i);
        index_of_[n] = static_cast<int>(j);
      }
    }
  }

  // A chain can be shortened if only the next copy reads what a copy to be left out makes, and if
  // its blocks contain no nodes other than the chain's.
  bool CanShorten(size_t c) const {
    if (Count(c) <= kExplicitCopies) return false;
    for (const ModelBlock& block : whole_.blocks) {
      if (block.chain != static_cast<int>(c)) continue;
      bool own = std::all_of(block.nodes.begin(), block.nodes.end(), [&](NodeId id) {
        return chain_of_[id.index()] == static_cast<int>(c);
      });
      if (!own) return false;
    }
    for (size_t i = kExplicitCopies - 1; i + 1 < Count(c); ++i) {
      for (NodeId id : Copy(c, i)) {
        for (ValueId result : whole_.graph.node(id).results) {
          if (result == whole_.graph.outputs.front()) return false;
          for (NodeId reader : whole_.readers[result.index()]) {
            bool next = chain_of_[reader.index()] == static_cast<int>(c) &&
                        copy_of_[reader.index()] - copy_of_[id.index()] <= 1;
            if (!next) return false;
          }
        }
      }
    }
    return true;
  }

  // Side nodes that only nodes left out read are left out as well.
  void DropUnread() {
    for (size_t n = gone_.size(); n-- > 0;) {
      if (gone_[n] || whole_.block_of[n] >= 0) continue;
      bool read = false;
      for (ValueId result : whole_.graph.nodes[n].results) {
        for (NodeId reader : whole_.readers[result.index()]) read = read || !gone_[reader.index()];
      }
      gone_[n] = !read;
    }
  }

  // The last copy reads from the last remaining copy before it what it read from a copy that is
  // left out.
  ValueId Stand(ValueId id) const {
    NodeId producer = whole_.graph.value(id).producer;
    if (!producer.valid() || !gone_[producer.index()] || chain_of_[producer.index()] < 0) return id;
    size_t n = producer.index();
    const std::vector<ValueId>& results = whole_.graph.node(producer).results;
    size_t r = static_cast<size_t>(std::find(results.begin(), results.end(), id) - results.begin());
    NodeId stand = Copy(static_cast<size_t>(chain_of_[n]),
                        kExplicitCopies - 2)[static_cast<size_t>(index_of_[n])];
    return whole_.graph.node(stand).results[r];
  }

  void AddValue(ValueId id, NodeId producer) {
    value_[id.index()] = ValueId::FromIndex(out_.model.graph.values.size());
    out_.model.graph.values.push_back(whole_.graph.value(id));
    out_.model.graph.values.back().producer = producer;
    out_.model.flow.needed.push_back(whole_.flow.needed[id.index()]);
    out_.model.flow.weight.push_back(whole_.flow.weight[id.index()]);
    if (out_.model.batch) out_.model.batch->dims.push_back(whole_.batch->dims[id.index()]);
  }

  void CopyNodes() {
    Model& small = out_.model;
    small.graph.name = whole_.graph.name;
    small.no_batch = whole_.no_batch;
    if (whole_.batch) {
      small.batch.emplace();
      small.batch->size = whole_.batch->size;
    }
    value_.resize(whole_.graph.values.size());
    node_.resize(whole_.graph.nodes.size());
    for (size_t n = 0; n < gone_.size(); ++n) {
      if (gone_[n]) continue;
      NodeId id = NodeId::FromIndex(small.graph.nodes.size());
      node_[n] = id;
      Node node = whole_.graph.nodes[n];
      for (ValueId& operand : node.operands) {
        ValueId stand = Stand(operand);
        if (!value_[stand.index()].valid()) AddValue(stand, NodeId{});
        operand = value_[stand.index()];
      }
      for (ValueId& result : node.results) {
        AddValue(result, id);
        result = value_[result.index()];
      }
      small.graph.nodes.push_back(std::move(node));
      small.rules.push_back(whole_.rules[n]);
      small.once.push_back(whole_.once[n]);
      if (small.batch) small.batch->factors.push_back(whole_.batch->factors[n]);
    }
    for (ValueId output : whole_.graph.outputs) {
      small.graph.outputs.push_back(value_[output.index()]);
    }
    small.readers = Readers(small.graph);
  }

  void CopyChains() {
    for (size_t c = 0; c < whole_.folding.chains.size(); ++c) {
      Chain chain;
      chain.crossing_bytes = whole_.folding.chains[c].crossing_bytes;
      for (const std::vector<NodeId>& copy : whole_.folding.chains[c].copies) {
        if (copy.empty() || gone_[copy[0].index()]) continue;
        chain.copies.emplace_back();
        for (NodeId id : copy) chain.copies.back().push_back(node_[id.index()]);
      }
      out_.model.folding.chains.push_back(std::move(chain));
    }
  }

  void CopyBlocks() {
    Model& small = out_.model;
    small.block_of.assign(small.graph.nodes.size(), -1);
    for (const ModelBlock& block : whole_.blocks) {
      ShortNode at = PlaceOf(block.nodes[0].index());
      if (at.chain >= 0) {
        out_.blocks.push_back({at.node, at.chain, at.copy});
        out_.blocks.back().node.value = small.block_of[at.node.index()];
        continue;
      }
      ModelBlock kept{{}, block.chain, block.copy};
      if (block.chain >= 0 && out_.left_out[static_cast<size_t>(block.chain)] > 0) {
        kept.copy = std::min(kept.copy, static_cast<int>(kExplicitCopies) - 1);
      }
      for (NodeId id : block.nodes) {
        kept.nodes.push_back(node_[id.index()]);
        small.block_of[kept.nodes.back().index()] = static_cast<int>(small.blocks.size());
      }
      out_.blocks.push_back({NodeId::FromIndex(small.blocks.size())});
      small.blocks.push_back(std::move(kept));
    }
    for (size_t n = 0; n < gone_.size(); ++n) out_.nodes.push_back(PlaceOf(n));
  }

  ShortNode PlaceOf(size_t n) const {
    if (!gone_[n] || chain_of_[n] < 0) return {node_[n]};
    const std::vector<NodeId>& stand = Copy(static_cast<size_t>(chain_of_[n]), kExplicitCopies - 2);
    return {node_[stand[static_cast<size_t>(index_of_[n])].index()], chain_of_[n],
            copy_of_[n] - static_cast<int64_t>(kExplicitCopies - 1)};
  }

  const Model& whole_;
  std::vector<bool> gone_;
  std::vector<int> chain_of_, copy_of_, index_of_;  // per node
  std::vector<ValueId> value_;  // per value of the whole model: the short model's
  std::vector<NodeId> node_;
  ShortModel out_;
};

}  // namespace

ShortModel Shorten(const Model& whole) { return Shortener(whole).Run(); }

}  // namespace heddle
