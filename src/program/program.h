// A program: for every device, the ordered instructions of one training step.
//
// Devices of one run of a pipeline share a list: what differs between them (groups, peers, blocks, sizes) follows
// from their position in a stage's mesh. The simulator and the runtime execute the same lists.
//
// Values live in *buffers*: a value in one sharding (a Local) at one micro-batch. Work is done by *segments*: runs
// of nodes with no communication inside, forward or backward, that never cross the boundary of a folded block.
//
//   F of a segment   reads its inputs, writes its outputs and what it keeps for backward
//   B, W, BW         read the gradients of its outputs and what was kept; B and BW write the gradients of its
//                    inputs; W and BW add to the gradients of parameters
//
// An input that an all-gather made is not kept but gathered again for backward (gather_again.h).
//
// Where every replica computes the whole gradient of a parameter from factors that are gathered over the samples, the
// segment computes none for it: a FactorGradient takes the place of that part of W.
//
// Values that do not depend on the samples (parameters, constants, what follows from them) are *once* values:
// resharded and computed before the first micro-batch. Their gradients are added up over the micro-batches and go
// back after the last.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/any_id.h"
#include "base/small_vector.h"
#include "plan/exchange.h"
#include "plan/expand.h"
#include "program/ids.h"
#include "program/local.h"
#include "program/opcodes.h"
#include "schedule/schedule.h"

namespace heddle {

using BufferIds = SmallVector<BufferId, 4>;

// Where a node of a segment gets an operand: the result of a node of the segment, or an input of it.
struct OperandRef {
  SegmentInputId input;  // invalid: made in the segment
  bool operator==(const OperandRef&) const = default;
};

struct SegmentInput {
  LocalId local;
  // The gradient that backward computes for it; invalid: none, or it is a parameter.
  LocalId gradient = {};
  // A parameter read as it is stored, and trained: the axes over which this reader's gradient is partial. Over
  // other axes of its group's reduction only the first device adds it.
  bool trained = false;
  AxisMask partial_axes = 0;
  bool late = false;   // of a once value: its gradient is W's, where B and W are apart
  bool again = false;  // not kept: it is gathered again for backward
  bool operator==(const SegmentInput&) const = default;
};

struct SegmentOutput {
  LocalId local;
  LocalId gradient;  // that backward reads; invalid: none
  bool operator==(const SegmentOutput&) const = default;
};

enum class Phase : uint8_t {
  kOnce,   // before all micro-batches
  kFirst,  // over the labels of all micro-batches
  kMain,   // each micro-batch
};

struct Segment {
  Phase phase = Phase::kMain;
  std::vector<NodeId> nodes;
  std::vector<std::vector<OperandRef>> operands;  // per node
  IdVector<SegmentInputId, SegmentInput> inputs;
  std::vector<SegmentOutput> outputs;
  BlockId block;  // invalid: outside of blocks
  int shard = 0;  // of the stage (Stage::shard_starts)
  // Segments of one unit are recomputed together, before the backward of the last; invalid: never.
  UnitId unit;
  bool has_backward = false;
  bool operator==(const Segment&) const = default;
};

// A parameter of a group. The parameters of a group are neighbours in one flat tensor: they are reduced, gathered and
// updated together.
struct ParameterSlot {
  ValueId parameter;
  Sharding sharding;  // as stored
  // Pruned: the weights that are kept of each shard, by its place along the axes that split it. Empty: all are. Of a
  // pruned parameter gradients, master weights and moments hold these alone, one after the other.
  std::vector<int64_t> kept = {};
  bool operator==(const ParameterSlot&) const = default;
};
struct ParameterGroup {
  std::vector<ParameterSlot> slots;
  AxisMask reduce_axes = 0;  // gradients are partial over these
  AxisMask zero_axes = 0;    // of them, those over which state is split
  int zero = 0;              // level; 0 where zero_axes is empty
  bool trained = true;
  TiedGroupId tied;        // valid: also held by other stages
  bool offloaded = false;  // moments and master weights live on the host between updates
  // The weights live on the host, too: they are fetched for every pass over a shard that reads them, and updated as soon as
  // the last gradient is there, without waiting for the norm of all gradients.
  bool spilled = false;
  // The place along reduce_axes of the device that alone has the state, and updates for all; -1: all update.
  int64_t server = -1;
  bool operator==(const ParameterGroup&) const = default;
};

// The gradient of a parameter, from its node's operands and the gradient of its result (ops/gradient_factors.h), both
// gathered over `axes`: those along which the node's own gradient would be partial. Every device has it complete.
struct FactorGradient {
  NodeId node;
  size_t operand = 0;  // the parameter
  AxisMask axes = 0;
  SegmentId segment;             // of the node
  LocalId parameter;             // as it is stored
  std::vector<LocalId> factors;  // of the operands, then of the gradient of the result
  bool operator==(const FactorGradient&) const = default;
};

using ParameterGroups = IdVector<ParameterGroupId, ParameterGroup>;
using FactorGradients = IdVector<FactorGradientId, FactorGradient>;

struct StageProgram {
  Mesh mesh;
  std::vector<Strategy> strategies;  // per node
  Locals locals;
  IdVector<SegmentId, Segment> segments;  // in forward order
  IdVector<ReshardStepId, ReshardStep> steps;
  ParameterGroups groups;
  std::vector<LocalId> parameter_gradients;  // of parameters that are read otherwise than stored
  FactorGradients factor_gradients;
  LocalId loss;  // a term per micro-batch; invalid where another stage has it
  bool operator==(const StageProgram&) const = default;
};

// A value on its way from one stage to another, or its gradient on the way back.
struct StageTransfer {
  StageId from_stage, to_stage;
  LocalId from_local, to_local;
};

// A parameter held by several stages: gradients are summed over them. Member i of every stage's mesh meets the
// members i of the others.
struct TiedGroup {
  std::vector<std::pair<StageId, ParameterGroupId>> holders;  // ascending
  ParameterGroupId GroupOn(StageId stage) const;
};

enum class BufferKind : uint8_t {
  kLocal,     // a Local at a micro-batch
  kSaved,     // what a segment keeps for backward
  kWeights,   // of a parameter group, between steps
  kGathered,  // of a parameter group split by ZeRO 3, or spilled: its whole weights for a while
  kWeightGradients,  // of a parameter group: what backward adds to
  kReduced,          // of a parameter group: what the update reads
  kOptimizer,  // of a parameter group: moments, and master weights of another type than the weights
  kHostOptimizer,  // the same in the memory of the host, between the updates of a group that is offloaded
  kHostWeights,  // those of a group that is spilled
  kReport,       // loss and squared norm
};

using BufferTarget = AnyId<LocalId, SegmentId, ParameterGroupId>;

struct Buffer {
  BufferKind kind = BufferKind::kLocal;
  StageId stage{0};
  BufferTarget target;  // what it holds, or is of
  int microbatch = -1;  // -1: of the step
  int version = 0;      // 1: recomputed, or gathered again
  bool operator==(const Buffer&) const = default;

  LocalId local() const { return IdIn<LocalId>(target); }        // of kLocal
  SegmentId segment() const { return IdIn<SegmentId>(target); }  // of kSaved
  ParameterGroupId group() const {
    return IdIn<ParameterGroupId>(target);
  }  // of all others but kReport
};

// What an instruction is about.
using InstructionTarget =
    AnyId<SegmentId, LocalId, TransferId, ParameterGroupId, TiedGroupId, FactorGradientId>;

struct Instruction {
  Opcode op = Opcode::kRun;
  Stream stream = Stream::kCompute;
  StageId stage{0};
  InstructionTarget target;
  int microbatch = -1;
  Half half = Half::kF;
  bool recompute = false;
  // A Run backward reads per output of the segment its gradient, invalid where none comes; what was kept; whole weights
  // (ZeRO 3) and what was gathered again, in the order of the inputs.
  BufferIds reads = {}, writes = {};
  BufferIds adds = {};   // written by adding to what is there (the first: by writing)
  BufferIds frees = {};  // no later instruction reads these; a fetch frees them before it begins
  SmallVector<int, 2> waits = {};  // instructions of other streams that must have ended
  VisitId visit{0};
  bool operator==(const Instruction&) const = default;

  // Its target, which must be of that kind. A Local is written, or added.
  SegmentId segment() const { return IdIn<SegmentId>(target); }
  LocalId local() const { return IdIn<LocalId>(target); }
  TransferId transfer() const { return IdIn<TransferId>(target); }
  ParameterGroupId group() const { return IdIn<ParameterGroupId>(target); }
  TiedGroupId tied() const { return IdIn<TiedGroupId>(target); }
  FactorGradientId factor_gradient() const { return IdIn<FactorGradientId>(target); }
};

// A pass over one shard of a stage, forward or backward: what a device does between fetching what the shard needs and
// letting it go. Of stages that are not spilled the whole step is one.
struct ShardVisit {
  StageId stage;   // invalid: the whole step
  int shard = -1;  // of the stage
  Half half = Half::kF;
  int microbatch = -1;
  bool operator==(const ShardVisit&) const = default;
};

// The instructions of devices that have the same stages: of a run of a pipeline, or of those that are in the meshes of
// the same stages. Devices between others that have no stage have a program too: they report.
struct DeviceProgram {
  std::vector<int64_t> devices;  // ascending
  std::vector<StageId> stages;
  IdVector<BufferId, Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<BufferId> persistent;      // live across steps
  IdVector<VisitId, ShardVisit> visits;  // in their order: those of instructions ascend

  StageId home() const { return stages.empty() ? StageId{0} : stages.front(); }  // its report's
};

struct Program {
  Model model;                 // expanded
  std::vector<NodeId> origin;  // per node, that of the plan's model
  Rules micro_rules;
  int64_t microbatches = 1;
  Precision precision;
  IdVector<StageId, StageProgram> stages;
  IdVector<TransferId, StageTransfer> transfers;
  IdVector<TiedGroupId, TiedGroup> tied;
  std::vector<DeviceProgram> runs;

  const DeviceProgram& RunOf(int64_t device) const;
  int64_t device_count() const;
};

// What a device hands to the transport in an instruction.
struct Payload {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<int64_t> ranks;  // the group, the device among them; empty: nothing is handed over
  int64_t bytes = 0;           // what each member gives; of a broadcast, the first alone
  int64_t GivenBy(int64_t device) const {
    return kind == CollectiveKind::kBroadcast && ranks.front() != device ? 0 : bytes;
  }
};
Payload CollectiveOf(const Program& program, const Instruction& instruction, int64_t device);
// The same without its ranks: a group may have as many members as the cluster has devices.
Payload KindAndBytesOf(const Program& program, const Instruction& instruction, int64_t device);

// The messages of a Send or Recv of a device, peers being devices of the cluster.
struct PeerMessage {
  int64_t peer = 0;
  Message message;
};
std::vector<PeerMessage> MessagesOf(const Program& program, const Instruction& instruction,
                                    int64_t device);

// Elements of a group's flat tensor on a device (padded so that zero_axes divide it), and of a slot in it: of weights as
// they are computed with, and of what is kept for them, which is less where they are pruned.
int64_t FlatElements(const StageProgram& stage, const ParameterGroup& group,
                     const Position& position);
int64_t SlotElements(const StageProgram& stage, const ParameterSlot& slot,
                     const Position& position);
int64_t KeptElements(const StageProgram& stage, const ParameterGroup& group,
                     const Position& position);
int64_t KeptElements(const StageProgram& stage, const ParameterSlot& slot,
                     const Position& position);
// Where the kept weights of pruned slots are: 4 bytes each (8 in one of 2^31 weights or more).
int64_t IndexBytes(const StageProgram& stage, const ParameterGroup& group,
                   const Position& position);
bool IsPruned(const ParameterGroup& group);
// Are its weights on the device only during the passes that read them?
inline bool Visits(const ParameterGroup& group) { return group.zero == 3 || group.spilled; }
// Is some group spilled: do weights and state come from the host and go back?
bool Spills(const Program& program);

// Where a device stands in the mesh of a stage it runs.
Position PositionIn(const StageProgram& stage, int64_t device);
// Which of the devices along some axes it is.
int64_t PlaceAlong(const Mesh& mesh, const Position& position, AxisMask axes);

// Does a device have the state of a group, or a part of it, and update that?
bool Updates(const StageProgram& stage, const ParameterGroup& group, const Position& position);

// The strategy of a node that computes a gradient from factors: it replicates along the axes they are gathered over.
Strategy FactorStrategy(const StageProgram& stage, const FactorGradient& gradient);
// The FactorGradient of an operand of a node; null where the segment computes its gradient.
const FactorGradient* FindFactorGradient(const StageProgram& stage, NodeId node, size_t operand);
// The flow of gradients inside the segments of a stage: without those of parameters that come from factors.
GradientFlow SegmentFlow(const Program& program, const StageProgram& stage);

}  // namespace heddle
