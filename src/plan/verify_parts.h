// What the files of the plan's verifier share, and nobody else includes.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/plan.h"

namespace heddle {

// The rules that a plan breaks, one line each.
class PlanProblems {
 public:
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(OneLine(fmt::format(format, std::forward<Args>(args)...)));
  }

  size_t size() const { return lines_.size(); }
  bool empty() const { return lines_.empty(); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

// The mesh of every stage: its axes, their names, sizes and shares, and devices that the cluster has. `devices` is not
// known where the cluster is not sound.
void CheckMeshes(const Plan& plan, std::optional<int64_t> devices, PlanProblems& problems);

// With chunks the stages are those of an interleaved pipeline; with one each may be anywhere. Asks for sound meshes.
void CheckDevicesOfChunks(const Plan& plan, PlanProblems& problems);

}  // namespace heddle
