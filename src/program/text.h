// Programs as text, for people and golden tests.
//
//   device 1: 11 instructions, stages 0
//       2 compute        F seg0 mb0: MatMul, Relu; reads x mb0, weights group0 -> m1 mb0 f32[8/dp,16] sum(tp) 256 B,
//                        saved seg0 mb0; waits 1; frees x mb0                              (one line)
//       3 communication  all-reduce m1 mb0: over {0,1} 256 B; reads m1 mb0 -> m1 mb0 f32[8/dp,16] 256 B; waits 2
#pragma once

#include <string>

#include "program/program.h"

namespace heddle {

// What an instruction does, in a few words, for traces and messages: "F seg3 mb0", "all-reduce h.0.out mb1",
// "send x mb0". A segment of a program of several stages is named with its stage: "F seg1.3 mb0". The program's
// indices must be in range.
std::string InstructionName(const Program& program, const Instruction& instruction);

// "x mb0", "grad x mb0", "saved seg3 mb0", "weights group2"; "again" for what was recomputed.
std::string BufferName(const Program& program, const Buffer& buffer);

// Bytes of a buffer on a device; what a segment keeps is not known here and counts 0.
int64_t BufferBytes(const Program& program, const Buffer& buffer, int64_t device);

// Bytes that an instruction hands to the transport on a device; 0 where it hands over nothing.
int64_t PayloadBytes(const Program& program, const Instruction& instruction, int64_t device);
// What a Fetch or Evict copies from the host, or to it, on a device of the run: state for an update, or weights.
int64_t HostCopyBytes(const Program& program, const DeviceProgram& run,
                      const Instruction& instruction, int64_t device);

// The list of a device, one line per instruction. The program must be sound (verify.h).
std::string ToText(const Program& program, int64_t device);

}  // namespace heddle
