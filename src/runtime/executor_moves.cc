// How values move: loads, resharding steps, messages between stages.
#include "base/check.h"
#include "base/clock.h"
#include "runtime/executor_internal.h"
#include "runtime/tiles.h"

namespace heddle {

void Executor::Load(const Instruction& i) {
  if (inputs_) {
    At(i.writes[0]) = inputs_->at(i);
    return;
  }
  bool roams = !touched_.empty();
  if (!batches_.count(i.microbatch)) {
    AllocationMeter::Scope counted(roams ? host_.meter : *metered_);  // the host keeps these rows
    batches_[i.microbatch] = data_(step_, RowsOf(program_, i));
  }
  at::Tensor part = LoadedPart(program_, i, device_, batches_[i.microbatch]);
  At(i.writes[0]) = roams ? part.clone() : part;
}

void Executor::Reshard(const Instruction& i, size_t index) {
  const StageProgram& at = stage(i.stage);
  const Local& local = at.locals[i.local()];
  const FromReshard& reshard = local.As<FromReshard>();
  const ReshardStep& step = at.steps[reshard.step];
  Position position = PositionIn(at, device_);
  auto [found, fresh] = exchanges_.try_emplace({i.stage, i.local()});
  if (fresh) found->second = ExchangeOf(at.mesh, step, position);
  const Exchange& exchange = found->second;
  const auto* parameter = std::get_if<FromParameter>(&at.locals[reshard.local].source);
  at::Tensor source = parameter != nullptr
                          ? store(i.stage, parameter->group).leaf(parameter->slot).detach()
                          : At(i.reads[0]);
  BufferId made = i.writes[0];
  int64_t ranks = GroupSize(at.mesh, step.axes);
  auto chunks = [&] {
    Shape shape = exchange.chunk;
    shape.insert(shape.begin(), ranks);
    return at::empty(shape, source.options());
  };
  auto place = [this, made, shape = LocalShape(at.mesh, step.after, position),
                &exchange](const at::Tensor& got) {
    at::Tensor whole = at::empty(shape, got.options());
    for (size_t m = 0; m < exchange.get.size(); ++m) {
      if (IsEmpty(exchange.get[m])) continue;
      PutTile(whole, exchange.get[m],
              Unpadded(got[static_cast<int64_t>(m)], ShapeOf(exchange.get[m])));
    }
    At(made) = whole;
  };
  switch (step.kind) {
    case StepKind::kSlice:
      At(made) = TakeTile(source, exchange.give[0]).contiguous();
      return;
    case StepKind::kMask: {
      bool first = true;
      for (size_t a = 0; a < position.size(); ++a)
        first = first && (!Contains(step.axes, a) || position[a] == 0);
      At(made) = first ? source : at::zeros_like(source);
      return;
    }
    case StepKind::kAllReduce: {
      at::Tensor sum = source.contiguous().clone();
      return StartCollective(index, i, step.reduction, sum, sum,
                             [this, made, sum] { At(made) = sum; });
    }
    case StepKind::kAllGather: {
      at::Tensor got = chunks();
      return StartCollective(index, i, step.reduction, Padded(source, exchange.chunk), got,
                             [place, got] { place(got); });
    }
    case StepKind::kReduceScatter:
    case StepKind::kAllToAll: {
      at::Tensor give = chunks();
      for (size_t m = 0; m < exchange.give.size(); ++m) {
        give[static_cast<int64_t>(m)].copy_(
            Padded(TakeTile(source, exchange.give[m]), exchange.chunk));
      }
      if (step.kind == StepKind::kAllToAll) {
        at::Tensor got = chunks();
        return StartCollective(index, i, step.reduction, give, got, [place, got] { place(got); });
      }
      at::Tensor got = at::empty(exchange.chunk, source.options());
      Shape shape = LocalShape(at.mesh, step.after, position);
      return StartCollective(index, i, step.reduction, give, got, [this, made, got, shape] {
        At(made) = Unpadded(got, shape).contiguous();
      });
    }
  }
}

void Executor::Sum(const Instruction& i) {
  at::Tensor sum = At(i.reads[0]);
  for (size_t r = 1; r < i.reads.size(); ++r)
    sum = r == 1 ? sum + At(i.reads[r]) : sum.add_(At(i.reads[r]));
  At(i.writes[0]) = sum;
}

void Executor::Send(const Instruction& i) {
  auto [found, fresh] = messages_.try_emplace({i.transfer(), true});
  if (fresh) found->second = MessagesOf(program_, i, device_);
  int tag = i.transfer().value * static_cast<int>(program_.microbatches) + i.microbatch;
  Sent sent{&i, {}, {}, SteadySeconds(), trace_.events.size() - 1};
  for (const PeerMessage& message : found->second) {
    sent.parts.push_back(TakeTile(At(i.reads[0]), message.message.give).contiguous());
    sent.tickets.push_back(transport_.Send(static_cast<int>(message.peer), tag, sent.parts.back()));
  }
  if (!sent.tickets.empty()) sends_.push_back(std::move(sent));
}

void Executor::Recv(const Instruction& i, size_t index) {
  auto [found, fresh] = messages_.try_emplace({i.transfer(), false});
  if (fresh) found->second = MessagesOf(program_, i, device_);
  int tag = i.transfer().value * static_cast<int>(program_.microbatches) + i.microbatch;
  const StageTransfer& transfer = program_.transfers[i.transfer()];
  const StageProgram& at = stage(transfer.to_stage);
  const Local& local = at.locals[transfer.to_local];
  at::TensorOptions options = at::TensorOptions(ToTorch(local.dtype)).device(options_.device);
  Pending pending;
  pending.begin = SteadySeconds();
  pending.event = trace_.events.size() - 1;
  std::vector<at::Tensor> parts;
  for (const PeerMessage& message : found->second) {
    parts.push_back(at::empty(ShapeOf(message.message.get), options));
    pending.more.push_back(transport_.Recv(static_cast<int>(message.peer), tag, parts.back()));
  }
  BufferId made = i.writes[0];
  Shape shape = LocalShape(at.mesh, local.sharding, PositionIn(at, device_));
  const std::vector<PeerMessage>& messages = found->second;
  pending.finish = [this, made, shape, parts, options, &messages] {
    if (parts.size() == 1 && parts[0].sizes() == at::IntArrayRef(shape)) {
      At(made) = parts[0];
      return;
    }
    at::Tensor whole = at::empty(shape, options);
    for (size_t p = 0; p < parts.size(); ++p) PutTile(whole, messages[p].message.get, parts[p]);
    At(made) = whole;
  };
  pending.buffers = {made};
  pending_by_buffer_[made.index()] = index;
  pending_[index] = std::move(pending);
}

}  // namespace heddle
