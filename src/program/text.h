// Programs as text, for people and golden tests.
//
//   device 1: 26 instructions, stages 0
//      4 compute        F seg0 mb0: MatMul, Add; reads x, group0 -> h.0.out f32[4/dp,64] sum(tp) 1.00 KiB, saved
//      5 communication  all-reduce h.0.out mb0: over tp {0,1} 1.00 KiB -> h.0.out f32[4/dp,64] 1.00 KiB; waits 4; frees h.0.out
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

// The list of a device, one line per instruction. The program must be sound (verify.h).
std::string ToText(const Program& program, int64_t device);

}  // namespace heddle
