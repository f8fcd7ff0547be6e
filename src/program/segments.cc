#include "program/segments.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "ops/gradient_factors.h"
#include "program/factor_gradients.h"
#include "program/stage_builder.h"

namespace heddle {
namespace {

class Splitter {
 public:
  Splitter(const LoweringContext& context, StageId stage)
      : context_(context),
        model_(context.expanded.model),
        stage_(context.expanded.stages[stage.index()]),
        segment_of_(model_.graph.nodes.size()) {
    for (const FactorGradient& gradient : FindFactorGradients(context, stage)) {
      const Node& node = model_.graph.node(gradient.node);
      ends_.insert(gradient.node);
      for (size_t o : FindGradientFactors(node, gradient.operand)->operands)
        factors_.insert(node.operands[o]);
    }
  }

  SegmentLayout Run() {
    std::vector<NodeId> main = NodesOf(model_, stage_);
    std::vector<NodeId> side = SideNodesOf(model_, main);
    std::vector<NodeId> once, inputs;
    for (NodeId id : side) (model_.once[id.index()] ? once : inputs).push_back(id);
    std::set<NodeId> first = FirstNodes(inputs);
    std::vector<NodeId> first_nodes(first.begin(), first.end());
    AddSegments(once, Phase::kOnce);
    AddSegments(first_nodes, Phase::kFirst);
    std::fill(segment_of_.begin(), segment_of_.end(), SegmentId{});
    AddSegments(NodesOfMain(inputs, first, main), Phase::kMain);
    FindProduced();
    return std::move(out_);
  }

 private:
  // Nodes made from inputs that a sum over all samples needs.
  std::set<NodeId> FirstNodes(const std::vector<NodeId>& inputs) const {
    std::set<NodeId> first;
    for (size_t i = inputs.size(); i-- > 0;) {
      const Node& node = model_.graph.node(inputs[i]);
      bool wanted = std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) {
        if (context_.sums.first[id.index()]) return true;
        const std::vector<NodeId>& readers = model_.readers[id.index()];
        return std::any_of(readers.begin(), readers.end(),
                           [&](NodeId reader) { return first.count(reader) != 0; });
      });
      if (wanted) first.insert(inputs[i]);
    }
    return first;
  }

  // Side nodes that each micro-batch needs, then the blocks in their order.
  std::vector<NodeId> NodesOfMain(const std::vector<NodeId>& inputs, const std::set<NodeId>& first,
                                  const std::vector<NodeId>& main) const {
    std::set<NodeId> wanted(main.begin(), main.end());
    std::vector<NodeId> nodes;
    for (size_t i = inputs.size(); i-- > 0;) {
      const Node& node = model_.graph.node(inputs[i]);
      bool read = false;
      for (ValueId id : node.results) {
        if (context_.sums.first[id.index()]) continue;
        for (NodeId reader : model_.readers[id.index()]) read = read || wanted.count(reader) != 0;
      }
      if (!read && first.count(inputs[i])) continue;
      wanted.insert(inputs[i]);
      nodes.push_back(inputs[i]);
    }
    std::reverse(nodes.begin(), nodes.end());
    for (int b = stage_.first_block; b < stage_.last_block; ++b) {
      const std::vector<NodeId>& block = model_.blocks[static_cast<size_t>(b)].nodes;
      nodes.insert(nodes.end(), block.begin(), block.end());
    }
    return nodes;
  }

  const Rule& rule(NodeId id) const { return context_.rules[id.index()]; }
  const Strategy& strategy(NodeId id) const { return stage_.strategies[id.index()]; }

  Sharding Given(ValueId id) const {
    NodeId producer = model_.graph.value(id).producer;
    const Node& node = model_.graph.node(producer);
    size_t r = static_cast<size_t>(std::find(node.results.begin(), node.results.end(), id) -
                                   node.results.begin());
    return ResultSharding(stage_.mesh, rule(producer), strategy(producer), r);
  }

  // Can the node read this operand where it is made, with nothing in between, both ways?
  bool IsDirect(NodeId id, size_t o) const {
    ValueId operand = model_.graph.node(id).operands[o];
    Sharding given = Given(operand);
    if (OperandSharding(stage_.mesh, rule(id), strategy(id), o) != given) return false;
    if (!WantsGradient(model_, id, o)) return true;
    given.partial = {};
    return OperandGradient(stage_.mesh, rule(id), strategy(id), o) == given;
  }

  struct Place {
    BlockId block = {};
    UnitId unit = {};
    int shard = 0;
    bool operator==(const Place&) const = default;
  };

  Place PlaceOf(NodeId id, Phase phase) const {
    int block = model_.block_of[id.index()];
    if (phase != Phase::kMain || block < 0) return {};
    int shard = ShardOf(stage_, block);
    bool chain = IsChain(block);
    BlockId named = chain ? BlockId{block} : BlockId{};
    if (IsRecomputed(model_, id, PolicyOf(block))) return {named, UnitId{block}, shard};
    if (chain || !IsRecomputedSingle(block)) return {named, {}, shard};
    // Single nodes one after the other are recomputed together; their number is that of no block.
    int first = block;
    while (first > stage_.first_block && !IsChain(first - 1) && IsRecomputedSingle(first - 1) &&
           ShardOf(stage_, first - 1) == shard)
      --first;
    return {{}, UnitId{static_cast<int>(model_.blocks.size()) + first}, shard};
  }

  bool IsChain(int block) const { return model_.blocks[static_cast<size_t>(block)].chain >= 0; }
  RecomputePolicy PolicyOf(int block) const {
    return stage_.recompute[static_cast<size_t>(block - stage_.first_block)];
  }
  // Between the visits of a shard nothing of it is to stay, of nodes outside chains neither.
  bool IsRecomputedSingle(int block) const {
    return context_.plan.offload == Offload::kAll && DefOf(PolicyOf(block)).single_nodes_in_shards;
  }

  void AddSegments(const std::vector<NodeId>& nodes, Phase phase) {
    Place place;
    bool open = false;
    for (NodeId id : nodes) {
      const Node& node = model_.graph.node(id);
      Place at = PlaceOf(id, phase);
      bool cut = !open || at != place;
      for (size_t o = 0; o < node.operands.size() && !cut; ++o) {
        NodeId producer = model_.graph.value(node.operands[o]).producer;
        bool here = producer.valid() && segment_of_[producer.index()] == Last();
        cut = here && (!IsDirect(id, o) || ends_.count(producer) != 0);
      }
      if (cut) Open(phase, at);
      open = true;
      place = at;
      AddNode(id);
    }
  }

  SegmentId Last() const { return out_.segments.last_id(); }

  void Open(Phase phase, const Place& place) {
    Segment segment;
    segment.phase = phase;
    segment.block = place.block;
    segment.unit = place.unit;
    segment.shard = place.shard;
    out_.segments.push_back(std::move(segment));
  }

  void AddNode(NodeId id) {
    const Node& node = model_.graph.node(id);
    Segment& segment = out_.segments.back();
    std::vector<OperandRef> operands;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      NodeId producer = model_.graph.value(node.operands[o]).producer;
      bool inside = producer.valid() && segment_of_[producer.index()] == Last();
      operands.push_back({inside ? SegmentInputId{} : FindInput(id, o)});
    }
    segment.nodes.push_back(id);
    segment.operands.push_back(std::move(operands));
    segment_of_[id.index()] = Last();
  }

  // The input of the last segment that this operand reads: one for each value, sharding and sharding of the
  // gradient.
  SegmentInputId FindInput(NodeId id, size_t o) {
    ValueId operand = model_.graph.node(id).operands[o];
    Sharding wanted = OperandSharding(stage_.mesh, rule(id), strategy(id), o);
    std::optional<Sharding> gradient;
    if (WantsGradient(model_, id, o))
      gradient = OperandGradient(stage_.mesh, rule(id), strategy(id), o);
    std::vector<SegmentUse>& uses = out_.uses[operand];
    for (const SegmentUse& use : uses) {
      if (use.segment == Last() && use.wanted == wanted && use.gradient == gradient) {
        return use.input;
      }
    }
    SegmentInputId made = out_.segments.back().inputs.Add({});
    uses.push_back({Last(), made, wanted, gradient});
    return made;
  }

  // What is read outside its segment, or by another stage, or is the loss.
  void FindProduced() {
    out_.produced.resize(out_.segments.size());
    for (SegmentId s : out_.segments.ids()) {
      const Segment& segment = out_.segments[s];
      for (NodeId id : segment.nodes) {
        for (ValueId result : model_.graph.node(id).results) {
          bool away = segment.phase == Phase::kMain && model_.block_of[id.index()] >= 0 &&
                      !context_.reader_stages[result.index()].empty();
          bool loss = segment.phase == Phase::kMain && result == model_.graph.outputs.front();
          bool summed = segment.phase == Phase::kFirst && context_.sums.first[result.index()];
          bool used = segment.phase != Phase::kFirst && IsUsed(result, segment.phase);
          bool in_first = segment.phase == Phase::kFirst && IsUsed(result, Phase::kFirst);
          bool factor = segment.phase != Phase::kFirst && factors_.count(result) != 0;
          if (away || loss || summed || used || in_first || factor)
            out_.produced[s].push_back({result, Given(result)});
        }
      }
    }
  }

  // Is it an input of a segment of a later phase or of the same?
  bool IsUsed(ValueId id, Phase phase) const {
    auto found = out_.uses.find(id);
    if (found == out_.uses.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const SegmentUse& use) {
      Phase at = out_.segments[use.segment].phase;
      return phase == Phase::kOnce || at == phase;
    });
  }

  const LoweringContext& context_;
  const Model& model_;
  const Stage& stage_;
  std::vector<SegmentId> segment_of_;
  // Nodes whose gradients are computed from factors: those of their results must come from outside their segment, and
  // the operands among the factors must leave it.
  std::set<NodeId> ends_;
  std::set<ValueId> factors_;
  SegmentLayout out_;
};

}  // namespace

SegmentLayout SplitIntoSegments(const LoweringContext& context, StageId stage) {
  return Splitter(context, stage).Run();
}

}  // namespace heddle
