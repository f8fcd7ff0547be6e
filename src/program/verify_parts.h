// The parts of Verify(Program), each in a file of its name. All but the first need the indices to be in range.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

class Findings {
 public:
  void Add(std::string line) {
    if (!full()) lines_.push_back(std::move(line));
  }
  // Instruction i of run r.
  void Add(const Program& program, size_t r, size_t i, const std::string& what);

  bool full() const;
  bool empty() const { return lines_.empty(); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void CheckIndices(const Program& program, Findings& findings);
void CheckLayouts(const Program& program, Findings& findings);
void CheckSegments(const Program& program, Findings& findings);
void CheckOperands(const Program& program, Findings& findings);
void CheckBuffers(const Program& program, Findings& findings);
void CheckOrder(const Program& program, Findings& findings);
void CheckTraining(const Program& program, Findings& findings);
void CheckTogether(const Program& program, Findings& findings);

// Do all devices hold the same of both, in the same partial states?
bool SameLayout(const Mesh& mesh, const Sharding& a, const Sharding& b);

// Does a buffer hold a value between steps?
bool IsPersistent(const Program& program, const Buffer& buffer);

// What the update of a group reads, once all reductions are done.
Buffer FinalGradients(const Program& program, StageId stage, ParameterGroupId group);

}  // namespace heddle
