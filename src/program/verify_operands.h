// The buffers of an instruction against those that it must read, write and add to: what the entry of its opcode
// (opcodes.cc) is given to say which these are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/verify_parts.h"

namespace heddle {

// A buffer that is wanted; none where nothing must come.
struct Wanted {
  std::optional<Buffer> buffer;
  bool any_version = false;

  bool Fits(const Buffer& is) const {
    Buffer wanted = *buffer;
    if (any_version) wanted.version = is.version;
    return is == wanted;
  }
};
using WantedList = std::vector<Wanted>;

class OperandCheck {
 public:
  // Instruction `i` of a run.
  OperandCheck(const Program& program, size_t run, size_t i, Findings& findings)
      : program_(program), run_(program.runs[run]), r_(run), i_(i), findings_(findings) {}

  const Program& program() const { return program_; }
  const DeviceProgram& run() const { return run_; }
  const Instruction& now() const { return run_.instructions[i_]; }
  const StageProgram& stage() const { return program_.stages[now().stage]; }
  const Local& local(LocalId id) const { return stage().locals[id]; }
  // The Local and the group that the instruction is about.
  const Local& local() const { return local(now().local()); }
  const ParameterGroup& group() const { return stage().groups[now().group()]; }

  // Local l of the instruction's stage at its micro-batch, or at another.
  Wanted At(LocalId l, int microbatch, bool any_version) const;
  Wanted At(LocalId l) const { return At(l, now().microbatch, true); }
  // Of the instruction's group.
  Wanted Of(BufferKind kind, int microbatch = -1, int version = 0) const {
    return {Buffer{kind, now().stage, now().group(), microbatch, version}, false};
  }
  // What backward adds to of a group of the instruction's stage.
  Wanted GradientsOf(ParameterGroupId group, int microbatch) const;
  Wanted Report() const { return {Buffer{BufferKind::kReport, run_.home(), {}, -1, 0}, false}; }

  void Wrong(const std::string& why) { findings_.Add(program_, r_, i_, why); }
  void Compare(const WantedList& reads, const WantedList& writes, const WantedList& adds);
  void CheckStream();

 private:
  std::string NameOf(BufferId id) const;
  void CompareList(std::string_view verb, const BufferIds& is, const WantedList& wanted);

  const Program& program_;
  const DeviceProgram& run_;
  size_t r_, i_;
  Findings& findings_;
};

}  // namespace heddle
