#include "runtime/step_inputs.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "runtime/kernels/kernel.h"
#include "runtime/tiles.h"

namespace heddle {
namespace {

const Local& LocalOf(const Program& program, const Instruction& load) {
  return program.stages[load.stage].locals[load.local()];
}

}  // namespace

Block RowsOf(const Program& program, const Instruction& load) {
  const Value& value = program.model.graph.value(LocalOf(program, load).value);
  int64_t rows = value.type.shape[0] / program.microbatches;
  return {load.microbatch * rows, (load.microbatch + 1) * rows};
}

at::Tensor LoadedPart(const Program& program, const Instruction& load, int64_t device,
                      const Batch& rows) {
  const StageProgram& stage = program.stages[load.stage];
  const Local& local = LocalOf(program, load);
  Position position = PositionIn(stage, device);
  Tile tile;
  for (const ShardedDim& dim : local.sharding.dims)
    tile.push_back(HeldRanges(stage.mesh, dim, position));
  at::Tensor part = TakeTile(rows.at(program.model.graph.value(local.value).name), tile);
  return part.to(ToTorch(local.dtype)).contiguous();
}

StepInputs::StepInputs(const Program& program, const DeviceProgram& run, int64_t device,
                       at::Device on, DataFn data)
    : program_(program),
      run_(run),
      device_(device),
      data_(std::move(data)),
      copies_(*NewStream(on)),
      arrived_(on.type()),
      taken_(on.type()) {
  for (const Instruction& i : run_.instructions) {
    if (i.op == Opcode::kLoad) held_[&i];
  }
}

void StepInputs::Begin(int64_t step) {
  if (staged_step_ != step) Bring(step);
  c10::Stream compute =
      c10::impl::VirtualGuardImpl(copies_.device_type()).getStream(copies_.device());
  arrived_.block(compute);
  for (auto& [load, held] : held_) held.ready.copy_(held.staged);
  taken_.record(compute);
}

void StepInputs::Ahead(int64_t step) {
  try {
    Bring(step);
  } catch (const std::exception&) {
    staged_step_ = -1;  // if that step comes, Begin throws the error again
  }
}

void StepInputs::Bring(int64_t step) {
  staged_step_ = -1;
  std::map<int64_t, Batch> batches;  // by first row
  for (auto& [load, held] : held_) {
    Block rows = RowsOf(program_, *load);
    if (!batches.count(rows.begin)) batches[rows.begin] = data_(step, rows);
    at::Tensor part = LoadedPart(program_, *load, device_, batches[rows.begin]);
    if (!held.staged.defined()) {
      held.staged = at::empty(part.sizes(), part.options().device(copies_.device()));
      held.ready = at::empty_like(held.staged);
    }
    // The allocator of pinned memory waits for the copy before it uses the memory again.
    at::Tensor pinned = at::empty(part.sizes(), part.options().pinned_memory(true));
    pinned.copy_(part);
    StreamScope copying(copies_);
    if (taken_.was_marked_for_recording()) taken_.block(copies_);
    held.staged.copy_(pinned, /*non_blocking=*/true);
  }
  arrived_.record(copies_);
  staged_step_ = step;
}

}  // namespace heddle
