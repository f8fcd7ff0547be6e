// Gradients, what is reported of a step, updates, and weights that are split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "runtime/executor_internal.h"
#include "runtime/kernels/factor_kernels.h"
#include "runtime/tensor.h"

namespace heddle {

void Executor::AddGradient(const Instruction& i) {
  const StageProgram& at = stage(i.stage);
  const Local& local = at.locals[i.local()];
  for (const Local& stored : at.locals) {
    if (!stored.Is<FromParameter>() || stored.value != local.value) continue;
    const FromParameter& from = stored.As<FromParameter>();
    const ParameterGroup& group = at.groups[from.group];
    AxisMask complete = group.reduce_axes & ~local.sharding.partial_axes();
    Position position = PositionIn(at, device_);
    for (size_t a = 0; a < position.size(); ++a) {
      if (Contains(complete, a) && position[a] != 0) return;
    }
    store(i.stage, from.group).AddGradient(from.slot, At(i.reads[0]));
    return;
  }
  HEDDLE_CHECK(false, "the parameter '{}' is in no group",
               program_.model.graph.value(local.value).name);
}

void Executor::ComputeFactorGradient(const Instruction& i) {
  const StageProgram& at = stage(i.stage);
  const FactorGradient& gradient = at.factor_gradients[i.factor_gradient()];
  size_t node = gradient.node.index();
  const Node& of = program_.model.graph.nodes[node];
  FactorKernelFn kernel = FindFactorKernel(of.op, gradient.operand);
  HEDDLE_CHECK(kernel != nullptr, "{} has no kernel for factors of operand {}", of.op,
               gradient.operand);
  std::vector<at::Tensor> factors;
  for (BufferId id : i.reads) {
    at::Tensor factor = At(id);
    if (factor.is_cpu() && factor.scalar_type() == at::kHalf) factor = factor.to(at::kFloat);
    factors.push_back(std::move(factor));
  }
  at::Tensor dy = std::move(factors.back());
  factors.pop_back();
  std::vector<Block> blocks = LocalBlocks(at.mesh, program_.micro_rules[node],
                                          FactorStrategy(at, gradient), PositionIn(at, device_));
  at::NoGradGuard no_grad;
  const FromParameter& stored = at.locals[gradient.parameter].As<FromParameter>();
  store(i.stage, stored.group)
      .AddGradient(stored.slot,
                   kernel({of.attributes, program_.model.rules[node], blocks, factors, {}}, dy));
}

// What the update reads: reduced, or as backward left it.
at::Tensor Executor::FinalGradients(BufferId id) {
  const Buffer& buffer = run_.buffers[id];
  if (buffer.kind == BufferKind::kWeightGradients && !At(id).defined()) {
    At(id) = store(buffer).TakeGradients();
  }
  return At(id);
}

// Gradients that nothing has reduced or looked at stay as they were added. An accelerator takes them flat: a few
// kernels rather than some for every parameter.
bool Executor::IsAsAdded(BufferId id) {
  return options_.device.is_cpu() && run_.buffers[id].kind == BufferKind::kWeightGradients &&
         !At(id).defined() && !options_.keep_gradients;
}

void Executor::ReduceGradients(const Instruction& i, size_t index) {
  GroupStore& group = store(i);
  const ParameterGroup& at = this->group(i.stage, i.group());
  at::Tensor give = group.TakeGradients().to(ToTorch(program_.precision.gradients));
  if (at.zero == 0) {
    BufferId made = i.writes[0];
    int64_t elements = group.chunk_elements();  // none where the server is another
    return StartCollective(index, i, Reduction::kSum, give, give, [this, made, give, elements] {
      At(made) = give.narrow(0, 0, elements).to(at::kFloat);
    });
  }
  at::Tensor got = at::empty({group.chunk_elements()}, give.options());
  bool adds = !i.adds.empty();
  BufferId made = adds ? i.adds[0] : i.writes[0];
  StartCollective(index, i, Reduction::kSum, give, got, [this, made, got] {
    if (At(made).defined()) {
      At(made).add_(got);
    } else {
      At(made) = got.to(at::kFloat);
    }
  });
}

void Executor::ReduceShards(const Instruction& i, size_t index) {
  at::Tensor sum = At(i.reads[0]).to(ToTorch(program_.precision.gradients));
  BufferId made = i.writes[0];
  StartCollective(index, i, Reduction::kSum, sum, sum,
                  [this, made, sum] { At(made) = sum.to(at::kFloat); });
}

void Executor::SyncTied(const Instruction& i, size_t index) {
  at::Tensor sum = FinalGradients(i.reads[0]).clone();
  for (size_t r = 1; r < i.reads.size(); ++r) sum.add_(FinalGradients(i.reads[r]));
  sum = sum.to(ToTorch(program_.precision.gradients));
  BufferIds held = i.adds;
  StartCollective(index, i, Reduction::kSum, sum, sum, [this, held, sum] {
    for (BufferId id : held) At(id) = sum.to(at::kFloat);
  });
}

void Executor::Report(const Instruction& i, size_t index) {
  at::TensorOptions number = at::TensorOptions(at::kDouble).device(options_.device);
  at::Tensor sums = at::zeros({2}, number);  // of the loss, and of the squares of gradients
  at::Tensor loss = sums[0], squares = sums[1];
  for (BufferId id : i.reads) {
    const Buffer& buffer = run_.buffers[id];
    const StageProgram& at = stage(buffer.stage);
    if (buffer.kind == BufferKind::kLocal) {
      const Local& local = at.locals[buffer.local()];
      Position position = PositionIn(at, device_);
      bool counts = true;
      for (size_t a = 0; a < position.size(); ++a) {
        counts = counts && (position[a] == 0 || local.sharding.partial[a] == PartialState::kSum);
      }
      if (counts) loss.add_(At(id));
    } else {
      GroupStore& group = store(buffer);
      squares.add_(IsAsAdded(id) ? group.SquaredNormOfAdded()
                                 : group.SquaredNorm(FinalGradients(id)));
    }
  }
  if (spills_) squares.add_(early_squares_);
  StartCollective(index, i, Reduction::kSum, sums, sums, [this, sums] { FinishReport(sums); });
}

// What the update needs to know of the whole step. The host looks at it here only where it holds it anyway.
void Executor::FinishReport(const at::Tensor& sums) {
  at::Tensor loss = sums[0], norm = sums[1].sqrt();
  if (forward_only_) {
    report_ = at::stack({loss, norm, norm});  // there are no gradients
    return;
  }
  at::Tensor overflow = at::isfinite(norm).logical_not();
  at::Tensor skip = at::logical_or(at::isfinite(loss).logical_not(), overflow);
  factors_.scale = at::ones_like(loss);
  if (loss_scale_) {
    norm = norm / loss_scale_->value();
    factors_.scale = unscale_ = loss_scale_->value().reciprocal();
    if (!look_closer_) loss_scale_->Update(overflow);
  }
  if (options_.clip_norm > 0) {
    at::Tensor clipped = factors_.scale * options_.clip_norm / (norm + 1e-6);
    factors_.scale = at::where(norm > options_.clip_norm, clipped, factors_.scale);
  }
  factors_.skip = skip.to(at::kDouble);
  report_ = at::stack({loss, norm, factors_.skip});
  if (!sums.is_cpu() && !look_closer_) return;
  loss_ = loss.item<double>();
  if (!std::isfinite(loss_)) StopNotFinite();
}

// All devices come here together: the first parameter, in the model's order, of which any of them holds a number
// that is not finite.
void Executor::StopNotFinite() {
  WaitForCopies();
  const std::vector<ValueId> parameters = program_.model.graph.ValuesOf(ValueKind::kParameter);
  const int64_t none = static_cast<int64_t>(parameters.size());
  int64_t weights = none, gradients = none;
  for (const auto& [key, held] : stores_) {
    const ParameterGroup& group = this->group(key.first, key.second);
    for (size_t slot = 0; slot < group.slots.size(); ++slot) {
      auto at = std::find(parameters.begin(), parameters.end(), group.slots[slot].parameter) -
                parameters.begin();
      if (!held->IsFinite(slot, held->MasterFlat()))
        weights = std::min(weights, static_cast<int64_t>(at));
      if (!held->IsFiniteAsAdded(slot)) gradients = std::min(gradients, static_cast<int64_t>(at));
      for (BufferId id : run_.buffers.ids()) {
        const Buffer& buffer = run_.buffers[id];
        bool reduced =
            buffer.kind == BufferKind::kReduced || buffer.kind == BufferKind::kWeightGradients;
        if (!reduced || buffer.stage != key.first || buffer.group() != key.second ||
            !At(id).defined())
          continue;
        if (!held->IsFinite(slot, At(id)))
          gradients = std::min(gradients, static_cast<int64_t>(at));
      }
    }
  }
  at::Tensor first = at::tensor({-weights, -gradients}, at::kLong);
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < program_.device_count(); ++rank) all.push_back(rank);
  Ticket ticket =
      transport_.Start(CollectiveKind::kAllReduce, Reduction::kMax, GroupOf(all), first, first);
  transport_.Wait(ticket);
  weights = -first[0].item<int64_t>();
  gradients = -first[1].item<int64_t>();
  auto name = [&](int64_t at) {
    return program_.model.graph.value(parameters[static_cast<size_t>(at)]).name;
  };
  std::string where = "every weight and gradient is finite: look at the data";
  if (gradients < none)
    where = fmt::format("the first gradient that is not finite is that of '{}'", name(gradients));
  if (weights < none)
    where = fmt::format("the first weights that are not finite are '{}'", name(weights));
  if (step_ == 0)
    throw CommonRunError(fmt::format("the loss is {} before any update; {}", loss_, where));
  throw CommonRunError(
      fmt::format("the loss is {} at step {}; {}; lower the learning rate (--lr {})", loss_, step_,
                  where, options_.optimizer.lr / 10));
}

// A group that is updated before the report, and so before the gradients of all others are known. Once one has
// gradients that are not finite, it and those after it are not updated in this step.
void Executor::CountEarly(const at::Tensor& squares) {
  early_squares_.add_(squares);
  factors_.skip = at::isfinite(early_squares_).logical_not().to(at::kDouble);
}

void Executor::Update(const Instruction& i) {
  GroupStore& group = store(i);
  bool early = this->group(i.stage, i.group()).spilled;
  if (IsAsAdded(i.reads[0])) {
    if (early) CountEarly(group.SquaredNormOfAdded());
    return group.UpdateFromAdded(factors_);
  }
  at::Tensor reduced = FinalGradients(i.reads[0]);
  if (early) CountEarly(group.SquaredNorm(reduced));
  if (options_.keep_gradients) KeepGradients(i, reduced);
  group.Update(reduced, factors_);
}

void Executor::GatherWeights(const Instruction& i, size_t index) {
  GroupStore& group = store(i);
  at::Tensor whole = group.WholeToFill();
  bool served = this->group(i.stage, i.group()).server >= 0;
  StartCollective(index, i, Reduction::kSum, served ? whole : group.Chunk(), whole,
                  [&group, whole] { group.Filled(whole); });
}

void Executor::KeepGradients(const Instruction& i, const at::Tensor& reduced) {
  GroupStore& group = store(i);
  const ParameterGroup& at = this->group(i.stage, i.group());
  if (group.chunk_elements() == 0) return;
  at::Tensor whole = loss_scale_ ? reduced * unscale_ : reduced;
  if (at.zero > 0) {
    at::Tensor chunk = whole;
    whole = at::empty({group.kept_elements()}, reduced.options());
    Instruction gather = i;
    gather.op = Opcode::kGatherWeights;
    Ticket ticket =
        transport_.Start(CollectiveKind::kAllGather, Reduction::kSum,
                         GroupOf(CollectiveOf(program_, gather, device_).ranks), chunk, whole);
    transport_.Wait(ticket);
  }
  for (ParameterPart& part : group.Parts(whole)) gradients_.push_back(std::move(part));
}

std::vector<ParameterPart> Executor::Weights() {
  WaitForCopies();
  std::vector<ParameterPart> parts;
  for (auto& [key, held] : stores_) {
    at::Tensor whole = held->HeldFlat();
    if (whole.numel() == 0) continue;  // its server has them
    const ParameterGroup& at = this->group(key.first, key.second);
    if (at.zero > 0) {
      whole = at::empty({held->kept_elements()}, held->MasterFlat().options());
      Instruction gather;
      gather.op = Opcode::kGatherWeights;
      gather.stage = key.first;
      gather.target = key.second;
      Ticket ticket = transport_.Start(CollectiveKind::kAllGather, Reduction::kSum,
                                       GroupOf(CollectiveOf(program_, gather, device_).ranks),
                                       held->MasterFlat(), whole);
      transport_.Wait(ticket);
    }
    for (ParameterPart& part : held->Parts(whole)) parts.push_back(std::move(part));
  }
  return parts;
}

// What came back is whole on the host.
void Executor::WaitForCopies() const {
  if (host_.fetches) WaitFor(*host_.fetches);
  if (host_.evictions) WaitFor(*host_.evictions);
}

TrainState Executor::State() {
  WaitForCopies();
  TrainState state;
  int64_t updates = 0;
  for (auto& [key, held] : stores_) {
    for (StatePart& part : held->State()) state.parts.push_back(std::move(part));
    updates = std::max(updates, held->updates());
  }
  state.numbers["updates"] = updates;
  if (loss_scale_) {
    LossScale::State scale = loss_scale_->state();
    state.numbers["loss_scale"] = {{"scale", scale.scale}, {"good_steps", scale.good_steps}};
  }
  return state;
}

void Executor::Restore(CheckpointReader& from) {
  Json numbers = from.manifest().run.value("state", Json::object());
  auto number = [&](const Json& json, const char* key) {
    auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end() || !found->is_number()) {
      ThrowInput("{}: {}: run: {} is missing", from.path(), kManifestName, key);
    }
    return found->get<double>();
  };
  auto updates = static_cast<int64_t>(number(numbers, "updates"));
  if (loss_scale_ && numbers.contains("loss_scale")) {
    const Json& scale = numbers["loss_scale"];
    loss_scale_->set_state(
        {number(scale, "scale"), static_cast<int64_t>(number(scale, "good_steps"))});
  }
  const std::string& name = options_.optimizer.name;
  // Another optimizer's moments are of no use (those of Adam and AdamW are the same): it starts with none.
  const Json& run = from.manifest().run;
  const Json::json_pointer pointer("/optimizer/name");
  const Json saved = run.contains(pointer) ? run.at(pointer) : Json(name);
  if (saved.is_string() && MomentsOf(saved.get<std::string>()) != MomentsOf(name)) {
    for (auto& [key, held] : stores_) held->Restore(0, nullptr, nullptr);
    return;
  }
  auto source = [&](StateKind kind, bool needed) -> WeightSource {
    if (!needed) return nullptr;
    return [&from, kind, &name](const std::string& parameter) {
      std::optional<HostTensor> whole = from.Whole(kind, parameter);
      if (!whole) {
        ThrowInput("{}: it was trained by another optimizer: no {} moments of '{}', which {} needs",
                   from.path(), kStateNames[static_cast<size_t>(kind)], parameter, name);
      }
      return ToTorchTensor(*whole);
    };
  };
  for (auto& [key, held] : stores_) {
    held->Restore(updates, source(StateKind::kFirst, MomentsOf(name) >= 1),
                  source(StateKind::kSecond, MomentsOf(name) == 2));
  }
}

}  // namespace heddle
