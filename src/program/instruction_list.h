// A list of instructions being written, and the buffers they speak of.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "program/program.h"

namespace heddle {

class InstructionList {
 public:
  // Both must outlive it, and the stages be as they are.
  InstructionList(const Program& program, DeviceProgram& run)
      : program_(program), run_(run), rows_(program.stages.size()), defs_(AllOpcodes()) {}

  DeviceProgram& run() { return run_; }

  // The id of a buffer, invalid where there is none yet.
  BufferId Find(const Buffer& b) {
    BufferId* place = PlaceOf(b);
    if (place != nullptr) return *place;
    const auto found = others_.find(b);
    return found == others_.end() ? BufferId{} : found->second;
  }
  bool Exists(const Buffer& b) { return Find(b).valid(); }

  // The id of a buffer, made where there is none yet.
  BufferId Get(const Buffer& b, bool persistent = false) {
    BufferId* place = PlaceOf(b);
    if (place == nullptr) place = &others_[b];
    if (!place->valid()) {
      *place = run_.buffers.Add(b);
      if (persistent) run_.persistent.push_back(*place);
    }
    return *place;
  }

  // What is added from now on belongs to another visit, or to an earlier one.
  void BeginVisit(const ShardVisit& visit) {
    if (!run_.visits.empty() && run_.visits.back() == visit) return;
    visit_ = run_.visits.Add(visit);
  }
  void GoToVisit(VisitId visit) { visit_ = visit; }

  // Valid until the next one is added.
  Instruction& Add(Opcode op, StageId stage, InstructionTarget target, int microbatch) {
    Instruction& instruction = run_.instructions.emplace_back();
    instruction.op = op;
    instruction.stage = stage;
    instruction.target = target;
    instruction.stream = op == Opcode::kReshard ? StreamOf(program_, instruction)
                                                : defs_[static_cast<size_t>(op)].stream;
    instruction.microbatch = microbatch;
    instruction.visit = visit_;
    return instruction;
  }

 private:
  // Buffers of one stage and micro-batch (or of the step), by kind and target: ids, or invalid ones. A pass over a stage asks for them
  // again and again.
  struct Row {
    std::vector<BufferId> ids;
    size_t saved = 0, gradients = 0, weights = 0;  // where those of each kind begin
  };
  static constexpr size_t kVersions = 2;  // of Locals

  // Where the id of a buffer is; null: in others_.
  BufferId* PlaceOf(const Buffer& b) {
    switch (b.kind) {
      case BufferKind::kLocal:
        return &RowOf(b).ids[kVersions * b.local().index() + (b.version > 0 ? 1 : 0)];
      case BufferKind::kSaved: {
        Row& row = RowOf(b);
        return &row.ids[row.saved + b.segment().index()];
      }
      case BufferKind::kWeightGradients: {
        Row& row = RowOf(b);
        return &row.ids[row.gradients + b.group().index()];
      }
      case BufferKind::kWeights: {
        Row& row = RowOf(b);
        return &row.ids[row.weights + b.group().index()];
      }
      default:
        return nullptr;
    }
  }

  Row& RowOf(const Buffer& b) {
    std::vector<Row>& of_stage = rows_[b.stage];
    size_t at = static_cast<size_t>(b.microbatch + 1);
    if (at >= of_stage.size()) of_stage.resize(static_cast<size_t>(program_.microbatches) + 1);
    Row& row = of_stage[at];
    if (row.ids.empty()) {
      const StageProgram& stage = program_.stages[b.stage];
      row.saved = kVersions * stage.locals.size();
      row.gradients = row.saved + stage.segments.size();
      row.weights = row.gradients + stage.groups.size();
      row.ids.assign(row.weights + stage.groups.size(), BufferId{});
    }
    return row;
  }

  struct HashOfBuffer {
    size_t operator()(const Buffer& b) const {
      uint64_t hash = static_cast<uint64_t>(b.kind) + 8 * static_cast<uint64_t>(b.version + 1);
      for (int part : {b.stage.value, NumberOf(b.target), b.microbatch}) {
        hash = (hash ^ static_cast<uint64_t>(static_cast<uint32_t>(part))) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
      }
      return static_cast<size_t>(hash);
    }
  };

  const Program& program_;
  DeviceProgram& run_;
  VisitId visit_{0};
  IdVector<StageId, std::vector<Row>> rows_;  // by micro-batch, from -1
  std::unordered_map<Buffer, BufferId, HashOfBuffer> others_;
  std::span<const OpcodeDef> defs_;
};

// Puts the reductions of gradients where the last has been added, and the updates of what is spilled after them; ends the
// step: what tied weights and shards still need, the report, updates, and the gathering of updated weights. State that
// is on the host comes `ahead` visits before its update.
void EndStep(const Program& program, int ahead, InstructionList& list);

}  // namespace heddle
