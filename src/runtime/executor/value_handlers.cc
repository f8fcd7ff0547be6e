#include "runtime/executor/value_handlers.h"

#include "base/check.h"
#include "runtime/kernels/kernel.h"
#include "runtime/tiles.h"

namespace heddle {

struct ReshardHandler::Step {
  const Instruction& i;
  const ReshardStep& step;
  const Exchange& exchange;
  const Mesh& mesh;
  Position position;
  at::Tensor source;

  BufferId made() const { return i.writes[0]; }
  Shape shape() const { return LocalShape(mesh, step.after, position); }
  // Memory for a chunk of every device along the axes.
  at::Tensor Chunks() const {
    Shape shape = exchange.chunk;
    shape.insert(shape.begin(), GroupSize(mesh, step.axes));
    return at::empty(shape, source.options());
  }
};

const Exchange& ReshardHandler::ExchangeFor(const Instruction& i, const ReshardStep& step) {
  auto [found, fresh] = exchanges_.try_emplace({i.stage, i.local()});
  if (fresh) found->second = ExchangeOf(state_.stage(i.stage).mesh, step, state_.position(i.stage));
  return found->second;
}

at::Tensor ReshardHandler::SourceOf(const Instruction& i, LocalId source) {
  const auto* parameter = std::get_if<FromParameter>(&state_.stage(i.stage).locals[source].source);
  if (parameter == nullptr) return state_.buffers[i.reads[0]];
  return state_.parameters->at(i.stage, parameter->group).leaf(parameter->slot).detach();
}

std::optional<StartedTransfer> ReshardHandler::Reshard(const Instruction& i) {
  const StageProgram& at = state_.stage(i.stage);
  const FromReshard& reshard = at.locals[i.local()].As<FromReshard>();
  const ReshardStep& kind = at.steps[reshard.step];
  Step step{
      i, kind, ExchangeFor(i, kind), at.mesh, state_.position(i.stage), SourceOf(i, reshard.local)};
  switch (kind.kind) {
    case StepKind::kSlice:
      state_.buffers[step.made()] = TakeTile(step.source, step.exchange.give[0]).contiguous();
      return std::nullopt;
    case StepKind::kMask:
      Mask(step);
      return std::nullopt;
    case StepKind::kAllReduce:
      return AllReduce(step);
    case StepKind::kAllGather:
      return AllGather(step);
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll:
      return Scatter(step);
  }
  HEDDLE_CHECK(false, "unknown kind of resharding");
  return std::nullopt;
}

// The first device along the axes keeps the value; the others have zeros.
void ReshardHandler::Mask(const Step& step) {
  bool first = true;
  for (size_t a = 0; a < step.position.size(); ++a)
    first = first && (!Contains(step.step.axes, a) || step.position[a] == 0);
  state_.buffers[step.made()] = first ? step.source : at::zeros_like(step.source);
}

StartedTransfer ReshardHandler::AllReduce(const Step& step) {
  at::Tensor sum = step.source.contiguous().clone();
  return StartCollective(state_, step.i, step.step.reduction, sum, sum,
                         [this, made = step.made(), sum] { state_.buffers[made] = sum; });
}

StartedTransfer ReshardHandler::AllGather(const Step& step) {
  at::Tensor got = step.Chunks();
  return StartCollective(state_, step.i, step.step.reduction,
                         Padded(step.source, step.exchange.chunk), got,
                         [this, &exchange = step.exchange, shape = step.shape(), made = step.made(),
                          got] { Place(exchange, shape, made, got); });
}

// A reduce-scatter or an all-to-all: every device gets a chunk from every other.
StartedTransfer ReshardHandler::Scatter(const Step& step) {
  at::Tensor give = step.Chunks();
  for (size_t m = 0; m < step.exchange.give.size(); ++m) {
    give[static_cast<int64_t>(m)].copy_(
        Padded(TakeTile(step.source, step.exchange.give[m]), step.exchange.chunk));
  }
  if (step.step.kind == StepKind::kAllToAll) {
    at::Tensor got = step.Chunks();
    return StartCollective(state_, step.i, step.step.reduction, give, got,
                           [this, &exchange = step.exchange, shape = step.shape(),
                            made = step.made(), got] { Place(exchange, shape, made, got); });
  }
  at::Tensor got = at::empty(step.exchange.chunk, step.source.options());
  return StartCollective(state_, step.i, step.step.reduction, give, got,
                         [this, made = step.made(), got, shape = step.shape()] {
                           state_.buffers[made] = Unpadded(got, shape).contiguous();
                         });
}

// Puts the tiles of all devices together.
void ReshardHandler::Place(const Exchange& exchange, const Shape& shape, BufferId made,
                           const at::Tensor& got) {
  at::Tensor whole = at::empty(shape, got.options());
  for (size_t m = 0; m < exchange.get.size(); ++m) {
    if (IsEmpty(exchange.get[m])) continue;
    PutTile(whole, exchange.get[m],
            Unpadded(got[static_cast<int64_t>(m)], ShapeOf(exchange.get[m])));
  }
  state_.buffers[made] = whole;
}

const std::vector<PeerMessage>& MessageHandler::MessagesFor(const Instruction& i, bool sends) {
  auto [found, fresh] = messages_.try_emplace({i.transfer(), sends});
  if (fresh) found->second = MessagesOf(state_.program, i, state_.device);
  return found->second;
}

int MessageHandler::TagOf(const Instruction& i) const {
  return i.transfer().value * static_cast<int>(state_.program.microbatches) + i.microbatch;
}

std::optional<StartedTransfer> MessageHandler::Send(const Instruction& i) {
  const std::vector<PeerMessage>& messages = MessagesFor(i, /*sends=*/true);
  StartedTransfer started;
  for (const PeerMessage& message : messages) {
    started.keep.push_back(TakeTile(state_.buffers[i.reads[0]], message.message.give).contiguous());
    started.tickets.push_back(state_.communicators->transport().Send(
        static_cast<int>(message.peer), TagOf(i), started.keep.back()));
  }
  if (started.tickets.empty()) return std::nullopt;
  return started;
}

StartedTransfer MessageHandler::Recv(const Instruction& i) {
  const std::vector<PeerMessage>& messages = MessagesFor(i, /*sends=*/false);
  const StageTransfer& transfer = state_.program.transfers[i.transfer()];
  const StageProgram& at = state_.stage(transfer.to_stage);
  const Local& local = at.locals[transfer.to_local];
  at::TensorOptions options = at::TensorOptions(ToTorch(local.dtype)).device(state_.on);
  StartedTransfer started;
  for (const PeerMessage& message : messages) {
    started.keep.push_back(at::empty(ShapeOf(message.message.get), options));
    started.tickets.push_back(state_.communicators->transport().Recv(
        static_cast<int>(message.peer), TagOf(i), started.keep.back()));
  }
  Shape shape = LocalShape(at.mesh, local.sharding, state_.position(transfer.to_stage));
  started.finish = [this, made = i.writes[0], shape, parts = started.keep, options, &messages] {
    if (parts.size() == 1 && parts[0].sizes() == at::IntArrayRef(shape)) {
      state_.buffers[made] = parts[0];
      return;
    }
    at::Tensor whole = at::empty(shape, options);
    for (size_t p = 0; p < parts.size(); ++p) PutTile(whole, messages[p].message.get, parts[p]);
    state_.buffers[made] = whole;
  };
  return started;
}

void RunSum(DeviceState& state, const Instruction& i) {
  at::Tensor sum = state.buffers[i.reads[0]];
  for (size_t r = 1; r < i.reads.size(); ++r) {
    const at::Tensor& term = state.buffers[i.reads[r]];
    sum = r == 1 ? sum + term : sum.add_(term);
  }
  state.buffers[i.writes[0]] = sum;
}

}  // namespace heddle
