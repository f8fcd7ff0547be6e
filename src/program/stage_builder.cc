#include "program/stage_builder.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "program/arrival.h"
#include "program/copies.h"
#include "program/factor_gradients.h"
#include "program/gather_again.h"
#include "program/parameter_groups.h"
#include "program/segment_halves.h"
#include "program/segments.h"

namespace heddle {
namespace {

class Builder {
 public:
  Builder(const LoweringContext& context, StageId stage)
      : context_(context),
        model_(context.expanded.model),
        index_(stage),
        layout_(SplitIntoSegments(context, stage)) {
    out_.stage.mesh = context.expanded.stages[stage.index()].mesh;
    out_.stage.strategies = context.expanded.stages[stage.index()].strategies;
    out_.stage.segments = layout_.segments;
    out_.stage.factor_gradients = FindFactorGradients(context, stage);
    for (const FactorGradient& at : out_.stage.factor_gradients)
      from_factors_.insert(model_.graph.node(at.node).operands[at.operand]);
  }

  StageBuild Run() {
    for (SegmentId id : out_.stage.segments.ids()) AddOutputs(id);
    ChooseStorage();
    for (ValueId value : ValuesRead()) Connect(value);
    AddLoss();
    ConnectFactorGradients(context_, out_.stage);
    for (Segment& segment : out_.stage.segments) SetHalves(context_, out_.stage.locals, segment);
    MarkGatheredAgain(context_, out_);
    GroupParameters(context_, index_, out_.stage);
    return std::move(out_);
  }

 private:
  struct OutputRef {
    SegmentId segment;
    size_t output;
  };

  const Mesh& mesh() const { return out_.stage.mesh; }
  const Value& value(ValueId id) const { return model_.graph.value(id); }

  LocalId AddLocal(ValueId id, Sharding sharding, bool gradient, bool once, Source source) {
    return out_.stage.locals.Add(
        {id, std::move(sharding), value(id).type.dtype, gradient, once, std::move(source)});
  }
  const Local& local(LocalId id) const { return out_.stage.locals[id]; }
  SegmentOutput& OutputAt(const OutputRef& ref) {
    return out_.stage.segments[ref.segment].outputs[ref.output];
  }

  LocalId AddChain(LocalId from, const Sharding& to, ReshardEnd end = ReshardEnd::kExact) {
    return heddle::AddChain(out_.stage, from, to, end);
  }

  // ---- Outputs of segments.

  void AddOutputs(SegmentId id) {
    Segment& segment = out_.stage.segments[id];
    for (const ProducedValue& produced : layout_.produced[id]) {
      bool once = segment.phase == Phase::kOnce;
      LocalId made = AddLocal(produced.value, produced.sharding, false, once, FromSegment{id});
      segment.outputs.push_back({made, {}});
      outputs_[{produced.value, segment.phase == Phase::kFirst}] = {id, segment.outputs.size() - 1};
    }
  }

  // ---- Uses.

  std::vector<ValueId> ValuesRead() const {
    std::vector<ValueId> values;
    for (const auto& [id, uses] : layout_.uses) values.push_back(id);
    for (const auto& [key, output] : outputs_) {
      bool sent = !context_.reader_stages[key.first.index()].empty() && !key.second;
      if (sent && !layout_.uses.count(key.first)) values.push_back(key.first);
    }
    std::sort(values.begin(), values.end());
    return values;
  }

  // ---- Parameters.

  // A parameter is stored in the sharding that its first reader in a block needs.
  void ChooseStorage() {
    for (const auto& [id, uses] : layout_.uses) {
      if (value(id).kind != ValueKind::kParameter) continue;
      stored_[id] = AddLocal(id, Complete(uses.front().wanted), false, true, FromParameter{});
    }
  }

  // ---- Connections.

  void Connect(ValueId id) {
    auto found = layout_.uses.find(id);
    std::vector<SegmentUse> uses =
        found == layout_.uses.end() ? std::vector<SegmentUse>{} : found->second;
    switch (value(id).kind) {
      case ValueKind::kConstant:
      case ValueKind::kInput:
        return ConnectSource(id, uses);
      case ValueKind::kParameter:
        return ConnectOnce(stored_.at(id), uses);
      default:
        break;
    }
    auto first = outputs_.find({id, true});
    if (first != outputs_.end()) {
      std::vector<SegmentUse> before = TakeFirst(uses);
      ConnectFirst(first->second, before, uses);
      if (context_.sums.first[id.index()] || uses.empty()) return;
    }
    auto made = outputs_.find({id, false});
    if (made == outputs_.end()) return ConnectReceived(id, uses);
    const OutputRef& ref = made->second;
    if (out_.stage.segments[ref.segment].phase == Phase::kOnce)
      return ConnectOnce(OutputAt(ref).local, uses);
    ConnectMade(id, ref, uses);
  }

  SegmentInput& InputOf(const SegmentUse& use) {
    return out_.stage.segments[use.segment].inputs[use.input];
  }

  // Constants and inputs are there in any sharding.
  void ConnectSource(ValueId id, const std::vector<SegmentUse>& uses) {
    bool constant = value(id).kind == ValueKind::kConstant;
    std::vector<std::pair<Sharding, LocalId>> made;
    for (const SegmentUse& use : uses) {
      auto known = std::find_if(made.begin(), made.end(),
                                [&](const auto& at) { return at.first == use.wanted; });
      if (known == made.end()) {
        Source source = constant ? Source(FromConstant{}) : Source(FromLoad{});
        LocalId base = AddLocal(id, Complete(use.wanted), false, constant, std::move(source));
        known = made.insert(made.end(), {use.wanted, AddChain(base, use.wanted)});
      }
      InputOf(use).local = known->second;
    }
  }

  // Forward from `from` to every use through `copy`.
  void ConnectForward(LocalId from, const Sharding& copy, const std::vector<SegmentUse>& uses,
                      LocalId* copy_local) {
    std::vector<std::pair<Sharding, LocalId>> made = {{local(from).sharding, from}};
    auto provide = [&](LocalId base, const Sharding& wanted) {
      for (const auto& [sharding, at] : made) {
        if (sharding == wanted) return at;
      }
      LocalId end = AddChain(base, wanted);
      made.push_back({wanted, end});
      return end;
    };
    for (const SegmentUse& use : uses) {
      if (use.wanted == local(from).sharding) {
        InputOf(use).local = from;
        continue;
      }
      if (!copy_local->valid()) *copy_local = provide(from, copy);
      InputOf(use).local = provide(*copy_local, use.wanted);
    }
  }

  // The gradients that uses give, one Local for each sharding they come in.
  std::vector<LocalId> GradientsOf(ValueId id, bool once, const std::vector<SegmentUse>& uses) {
    std::vector<LocalId> gradients;
    for (const SegmentUse& use : uses) {
      if (!use.gradient) continue;
      // The gradients of a once value in one sharding are added up wherever they come from.
      auto found = std::find_if(gradients.begin(), gradients.end(), [&](LocalId known) {
        return once && local(known).sharding == *use.gradient;
      });
      if (found == gradients.end()) {
        Source source =
            once ? Source(FromAccumulation{use.segment}) : Source(FromInputGradient{use.segment});
        LocalId made = AddLocal(id, *use.gradient, true, once, std::move(source));
        found = gradients.insert(gradients.end(), made);
      }
      InputOf(use).gradient = *found;
    }
    return gradients;
  }

  LocalId AddSum(const std::vector<LocalId>& terms) {
    if (terms.size() == 1) return terms[0];
    const Local first = local(terms[0]);
    return AddLocal(first.value, first.sharding, true, first.once, FromSum{terms});
  }

  // Adds up gradients at the copy, partial as they are, and brings the sum to `to`.
  LocalId Collect(const std::vector<LocalId>& gradients, const Sharding& copy, const Sharding& to) {
    std::vector<LocalId> direct, others;
    for (LocalId gradient : gradients)
      (local(gradient).sharding == to ? direct : others).push_back(gradient);
    if (others.empty()) return AddSum(direct);
    LocalId sum = others[0];
    if (others.size() > 1) {
      std::vector<LocalId> at_copy;
      Sharding partial = Complete(copy);
      for (LocalId gradient : others) {
        at_copy.push_back(AddChain(gradient, Complete(copy), ReshardEnd::kPartialStays));
        const Sharding& end = local(at_copy.back()).sharding;
        for (size_t a = 0; a < kMaxAxes; ++a) {
          if (end.partial[a] != PartialState::kComplete) partial.partial[a] = PartialState::kSum;
        }
      }
      for (LocalId& gradient : at_copy) gradient = AddChain(gradient, partial);
      sum = AddSum(at_copy);
    }
    direct.push_back(AddChain(sum, to));
    return AddSum(direct);
  }

  void ConnectMade(ValueId id, const OutputRef& ref, const std::vector<SegmentUse>& uses) {
    LocalId from = OutputAt(ref).local;
    Sharding given = local(from).sharding;
    Routes routes = RoutesOf(uses);
    const std::vector<StageId>& away = context_.reader_stages[id.index()];
    LocalId copy_local;
    if (!away.empty()) {
      routes.wanted.push_back(Complete(given));
    }
    Sharding copy = copies_.Of(mesh(), given, routes, !away.empty());
    ConnectForward(from, copy, uses, &copy_local);
    std::vector<LocalId> gradients = GradientsOf(id, false, uses);
    if (!away.empty()) {
      StageBuild::Crossing& crossing = out_.sent[id];
      crossing.local = copy_local.valid() ? copy_local : AddChain(from, copy);
      for (StageId stage : away) {
        const std::vector<StageId>& back = context_.gradient_stages[id.index()];
        if (std::find(back.begin(), back.end(), stage) == back.end()) continue;
        crossing.gradients[stage] = AddReceived(id, local(crossing.local).sharding, true);
        gradients.push_back(crossing.gradients[stage]);
      }
    }
    if (gradients.empty()) return;
    LocalId back = Collect(gradients, copy, Complete(given));
    OutputAt(ref).gradient = back;
  }

  LocalId AddReceived(ValueId id, const Sharding& wanted, bool gradient) {
    return AddLocal(id, Arriving(context_.plan.cluster, mesh(), wanted), gradient, false,
                    FromTransfer{});
  }

  void ConnectReceived(ValueId id, const std::vector<SegmentUse>& uses) {
    Routes routes = RoutesOf(uses);
    Sharding copy = copies_.Of(mesh(), std::nullopt, routes, true);
    StageBuild::Crossing& crossing = out_.received[id];
    crossing.local = AddReceived(id, copy, false);
    LocalId copy_local = AddChain(crossing.local, copy);
    ConnectForward(copy_local, copy, uses, &copy_local);
    std::vector<LocalId> gradients = GradientsOf(id, false, uses);
    if (!gradients.empty()) crossing.gradients[StageId{}] = Collect(gradients, copy, copy);
  }

  // A parameter, or what follows from parameters and constants.
  void ConnectOnce(LocalId from, const std::vector<SegmentUse>& uses) {
    ValueId id = local(from).value;
    bool parameter = value(id).kind == ValueKind::kParameter;
    Sharding given = local(from).sharding;
    Routes routes = RoutesOf(uses);
    Sharding copy = parameter ? given : copies_.Of(mesh(), given, routes, false);
    LocalId copy_local;
    if (parameter) copy_local = from;
    ConnectForward(from, copy, uses, &copy_local);
    if (parameter && from_factors_.count(id) != 0) return;
    std::vector<SegmentUse> others;
    for (const SegmentUse& use : uses) {
      if (!use.gradient) continue;
      if (parameter && use.wanted == given) {
        InputOf(use).trained = true;
        InputOf(use).partial_axes = use.gradient->partial_axes();
      } else {
        others.push_back(use);
      }
    }
    if (others.empty()) return;
    std::vector<LocalId> gradients = GradientsOf(id, true, others);
    if (parameter) {
      // Brought to the split it is stored in, and there reduced with the rest of its group.
      for (LocalId gradient : gradients) {
        LocalId end = AddChain(gradient, given, ReshardEnd::kPartialStays);
        out_.stage.parameter_gradients.push_back(end);
      }
      return;
    }
    const OutputRef& ref = outputs_.at({id, false});
    LocalId back = Collect(gradients, Complete(copy), Complete(given));
    OutputAt(ref).gradient = back;
  }

  // The uses in the first phase, taken out of `uses`.
  std::vector<SegmentUse> TakeFirst(std::vector<SegmentUse>& uses) const {
    auto middle = std::stable_partition(uses.begin(), uses.end(), [&](const SegmentUse& use) {
      return out_.stage.segments[use.segment].phase != Phase::kFirst;
    });
    std::vector<SegmentUse> before(middle, uses.end());
    uses.erase(middle, uses.end());
    return before;
  }

  // A value of the first phase; a sum over samples is summed over the micro-batches before the others read it.
  void ConnectFirst(const OutputRef& ref, const std::vector<SegmentUse>& before,
                    const std::vector<SegmentUse>& uses) {
    LocalId term = OutputAt(ref).local;
    LocalId none;
    if (!before.empty()) {
      ConnectForward(term, copies_.Of(mesh(), local(term).sharding, RoutesOf(before), false),
                     before, &none);
    }
    if (!context_.sums.first[local(term).value.index()]) return;
    LocalId sum =
        AddLocal(local(term).value, local(term).sharding, false, true, FromMicrobatchSum{term});
    LocalId copy_local;
    ConnectForward(sum, copies_.Of(mesh(), local(sum).sharding, RoutesOf(uses), false), uses,
                   &copy_local);
  }

  // The loss is an output, and its gradient is 1.
  void AddLoss() {
    ValueId id = model_.graph.outputs.front();
    auto made = outputs_.find({id, false});
    if (made == outputs_.end()) return;
    SegmentOutput& output = OutputAt(made->second);
    out_.stage.loss = output.local;
    HEDDLE_CHECK(!output.gradient.valid(), "the loss is read by a node");
    if (!model_.flow.needed[id.index()]) return;
    output.gradient = AddLocal(id, Complete(local(output.local).sharding), true, false, FromSeed{});
  }

  const LoweringContext& context_;
  const Model& model_;
  StageId index_;
  SegmentLayout layout_;
  StageBuild out_;
  std::map<std::pair<ValueId, bool>, OutputRef>
      outputs_;  // by value and whether the first phase makes it
  std::map<ValueId, LocalId> stored_;
  CopyChoices copies_;
  std::set<ValueId> from_factors_;  // parameters whose gradients are
};

}  // namespace

bool WantsGradient(const Model& model, NodeId id, size_t operand) {
  const Node& node = model.graph.node(id);
  const std::vector<int>& differentiable = model.rules[id.index()].differentiable;
  if (!model.flow.needed[node.operands[operand].index()]) return false;
  if (std::find(differentiable.begin(), differentiable.end(), static_cast<int>(operand)) ==
      differentiable.end()) {
    return false;
  }
  return std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId result) { return model.flow.needed[result.index()]; });
}

LocalId AddChain(StageProgram& stage, LocalId from, const Sharding& to, ReshardEnd end) {
  for (const ReshardStep& step : Reshard(stage.mesh, stage.locals[from].sharding, to, end)) {
    Local next = stage.locals[from];
    next.sharding = step.after;
    next.source = FromReshard{from, stage.steps.Add(step)};
    from = stage.locals.Add(std::move(next));
  }
  return from;
}

StageBuild BuildStage(const LoweringContext& context, StageId stage) {
  return Builder(context, stage).Run();
}

}  // namespace heddle
