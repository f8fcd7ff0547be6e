#include "runtime/executor/gradient_handlers.h"

#include "base/check.h"
#include "runtime/kernels/factor_kernels.h"
#include "runtime/kernels/kernel.h"

namespace heddle {

void GradientHandlers::AddGradient(const Instruction& i) {
  const StageProgram& at = state_.stage(i.stage);
  const Local& local = at.locals[i.local()];
  for (const Local& stored : at.locals) {
    if (!stored.Is<FromParameter>() || stored.value != local.value) continue;
    const FromParameter& from = stored.As<FromParameter>();
    if (!AddsGradient(at.groups[from.group], local.sharding.partial_axes(),
                      state_.position(i.stage)))
      return;
    state_.parameters->at(i.stage, from.group)
        .gradients()
        .Add(from.slot, state_.buffers[i.reads[0]]);
    return;
  }
  HEDDLE_CHECK(false, "the parameter '{}' is in no group",
               state_.program.model.graph.value(local.value).name);
}

void GradientHandlers::ComputeFactorGradient(const Instruction& i) {
  const StageProgram& at = state_.stage(i.stage);
  const FactorGradient& gradient = at.factor_gradients[i.factor_gradient()];
  size_t node = gradient.node.index();
  const Node& of = state_.program.model.graph.nodes[node];
  FactorKernelFn kernel = FindFactorKernel(of.op, gradient.operand);
  HEDDLE_CHECK(kernel != nullptr, "{} has no kernel for factors of operand {}", of.op,
               gradient.operand);
  std::vector<at::Tensor> factors;
  for (BufferId id : i.reads) {
    at::Tensor factor = state_.buffers[id];
    if (factor.is_cpu() && factor.scalar_type() == at::kHalf) factor = factor.to(at::kFloat);
    factors.push_back(std::move(factor));
  }
  at::Tensor dy = std::move(factors.back());
  factors.pop_back();
  std::vector<Block> blocks = LocalBlocks(at.mesh, state_.program.micro_rules[node],
                                          FactorStrategy(at, gradient), state_.position(i.stage));
  at::NoGradGuard no_grad;
  const FromParameter& stored = at.locals[gradient.parameter].As<FromParameter>();
  state_.parameters->at(i.stage, stored.group)
      .gradients()
      .Add(stored.slot,
           kernel({of.attributes, state_.program.model.rules[node], blocks, factors, {}}, dy));
}

bool GradientHandlers::IsAsAdded(BufferId id) const {
  return state_.on.is_cpu() && state_.run.buffers[id].kind == BufferKind::kWeightGradients &&
         !state_.buffers[id].defined() && !keep_;
}

const at::Tensor& GradientHandlers::Flat(BufferId id) {
  const Buffer& buffer = state_.run.buffers[id];
  at::Tensor& flat = state_.buffers[id];
  if (buffer.kind == BufferKind::kWeightGradients && !flat.defined())
    flat = state_.parameters->at(buffer).gradients().TakeFlat();
  return flat;
}

at::Tensor GradientHandlers::SquaredNorm(BufferId id) {
  GroupStore& store = state_.parameters->at(state_.run.buffers[id]);
  return IsAsAdded(id) ? store.gradients().SquaredNorm() : store.SquaredNorm(Flat(id));
}

StartedTransfer GradientHandlers::ReduceGradients(const Instruction& i) {
  GroupStore& store = state_.parameters->at(i);
  int64_t chunk = store.layout().chunk.size();
  at::Tensor give = store.gradients().TakeFlat().to(ToTorch(state_.program.precision.gradients));
  if (store.group().zero == 0) {
    // The chunk is empty where the server is another device.
    return StartCollective(state_, i, Reduction::kSum, give, give,
                           [this, made = i.writes[0], give, chunk] {
                             state_.buffers[made] = give.narrow(0, 0, chunk).to(at::kFloat);
                           });
  }
  at::Tensor got = at::empty({chunk}, give.options());
  BufferId made = i.adds.empty() ? i.writes[0] : i.adds[0];
  return StartCollective(state_, i, Reduction::kSum, give, got, [this, made, got] {
    at::Tensor& sum = state_.buffers[made];
    if (sum.defined()) {
      sum.add_(got);
    } else {
      sum = got.to(at::kFloat);
    }
  });
}

StartedTransfer GradientHandlers::ReduceShards(const Instruction& i) {
  at::Tensor sum = state_.buffers[i.reads[0]].to(ToTorch(state_.program.precision.gradients));
  return StartCollective(state_, i, Reduction::kSum, sum, sum, [this, made = i.writes[0], sum] {
    state_.buffers[made] = sum.to(at::kFloat);
  });
}

StartedTransfer GradientHandlers::SyncTied(const Instruction& i) {
  at::Tensor sum = Flat(i.reads[0]).clone();
  for (size_t r = 1; r < i.reads.size(); ++r) sum.add_(Flat(i.reads[r]));
  sum = sum.to(ToTorch(state_.program.precision.gradients));
  return StartCollective(state_, i, Reduction::kSum, sum, sum, [this, held = i.adds, sum] {
    for (BufferId id : held) state_.buffers[id] = sum.to(at::kFloat);
  });
}

}  // namespace heddle
