// What the entries of the table of opcodes are made of, beside the files of what they do: names in text.cc, payloads in
// payload.cc, demands on targets in verify_indices.cc, on buffers in verify_operands.cc.
#pragma once

#include "program/program.h"

namespace heddle {

std::string RunWords(const Program& program, const Instruction& instruction);
std::string ReshardWords(const Program& program, const Instruction& instruction);

bool IsOfAReshard(const Program& program, const Instruction& instruction);
bool IsSentByItsStage(const Program& program, const Instruction& instruction);
bool IsReceivedByItsStage(const Program& program, const Instruction& instruction);
bool IsHeldByItsStage(const Program& program, const Instruction& instruction);

Payload ReshardPayload(const Program& program, const Instruction& at, int64_t device, bool listed);
Payload ReducePayload(const Program& program, const Instruction& at, int64_t device, bool listed);
Payload ShardsPayload(const Program& program, const Instruction& at, int64_t device, bool listed);
Payload GatherPayload(const Program& program, const Instruction& at, int64_t device, bool listed);
Payload TiedPayload(const Program& program, const Instruction& at, int64_t device, bool listed);
Payload ReportPayload(const Program& program, const Instruction& at, int64_t device, bool listed);

void CheckRun(OperandCheck& check);
void CheckLoad(OperandCheck& check);
void CheckReshard(OperandCheck& check);
void CheckSum(OperandCheck& check);
void CheckAddGradient(OperandCheck& check);
void CheckFactorGradient(OperandCheck& check);
void CheckSend(OperandCheck& check);
void CheckRecv(OperandCheck& check);
void CheckReduceGradients(OperandCheck& check);
void CheckReduceShards(OperandCheck& check);
void CheckSyncTied(OperandCheck& check);
void CheckReport(OperandCheck& check);
void CheckUpdate(OperandCheck& check);
void CheckGatherWeights(OperandCheck& check);
void CheckFetch(OperandCheck& check);
void CheckEvict(OperandCheck& check);

}  // namespace heddle
