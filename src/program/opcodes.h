// The instructions that there are: one table with the name of each, the stream it runs on, what it is about, how it is
// printed, what it hands to the transport and which buffers it must touch.
//
// A new one is an Opcode and its entry (opcodes.cc, with the functions of opcode_parts.h that it needs), lowering that
// emits it, its handler (InstructionHandlers::Start of the runtime) and its price in the simulator (sim/durations.cc,
// sim/memory_replay.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

struct Instruction;
struct Program;
struct Payload;
class OperandCheck;

enum class Opcode : uint8_t {
  kLoad,            // writes a part of an input
  kRun,             // a half of a segment
  kReshard,         // one step of a chain
  kSum,             // adds up what it reads, Local by Local or over micro-batches
  kAddGradient,     // a Local to the gradient of its parameter
  kFactorGradient,  // computes one, and adds it
  kSend,
  kRecv,             // a transfer
  kReduceGradients,  // of a group, over reduce_axes: summed (to its server), or scattered
  kReduceShards,     // what was scattered, over the reduce_axes that split no state
  kSyncTied,         // gradients of a tied group, over the stages that hold it
  kReport,           // loss and squared norm of the gradients, over all devices
  kUpdate,           // the optimizer's step on a group
  kGatherWeights,    // of a group that is split over zero_axes, or from its server
  kFetch,            // what a group has on the host: its state for the update, or weights
  kEvict,            // and back
};
constexpr size_t kOpcodeCount = 16;

// Copies to the device are one stream, those from it another.
enum class Stream : uint8_t { kCompute, kCommunication, kCopy, kCopyOut };
constexpr std::array<std::string_view, 4> kStreamNames = {"compute", "communication", "copy",
                                                          "copy out"};
inline std::string_view NameOf(Stream stream) { return kStreamNames[static_cast<size_t>(stream)]; }

// What an instruction is about (Instruction::target).
enum class TargetKind : uint8_t {
  kNone,
  kSegment,
  kLocal,  // that it writes, or adds
  kTransfer,
  kGroup,
  kTied,
  kFactorGradient,
};

struct OpcodeDef {
  Opcode op = Opcode::kRun;
  std::string_view name;
  TargetKind target = TargetKind::kNone;
  Stream stream = Stream::kCompute;  // of a Reshard: where it communicates (StreamOf)
  std::string_view category;         // in traces; of a Run and a Reshard see Category (trace.h)
  // Its name in messages and traces, but for the micro-batch; null: `name` and its target.
  std::string (*words)(const Program& program, const Instruction& instruction) = nullptr;
  // What must hold of its target besides that there is such a one; null: nothing.
  bool (*fits)(const Program& program, const Instruction& instruction) = nullptr;
  // What it hands to the transport on a device, without its ranks unless they are `listed`; null: no collective.
  Payload (*payload)(const Program& program, const Instruction& instruction, int64_t device,
                     bool listed) = nullptr;
  // Compares the buffers it reads, writes and adds to with those that it must (verify_operands.h).
  void (*check)(OperandCheck& check) = nullptr;
};

// In the order of Opcode.
std::span<const OpcodeDef> AllOpcodes();
const OpcodeDef& DefOf(Opcode op);
inline std::string_view NameOf(Opcode op) { return DefOf(op).name; }

// A Reshard that communicates with nobody is computed.
Stream StreamOf(const Program& program, const Instruction& instruction);

}  // namespace heddle
