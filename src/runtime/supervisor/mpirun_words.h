// What mpirun says on standard error beside what its ranks say. It puts its own words between two lines of dashes:
//
//   --------------------------------------------------------------------------
//   mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).
//   --------------------------------------------------------------------------
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// How the first rank that did not end well ended.
struct RankEnd {
  int rank = 0;
  int signal = 0;  // 0: by itself, with `exit_code`
  int exit_code = 0;
  friend bool operator==(const RankEnd&, const RankEnd&) = default;
};

class MpirunWords {
 public:
  // Takes in what was read, in pieces of any size; returns what people should see: whole lines, without what mpirun
  // says of how ranks ended and of its stopping the others.
  std::string Take(std::string_view bytes);
  std::string TakeRest();  // at the end

  const std::optional<RankEnd>& end() const { return end_; }

 private:
  std::string Line(const std::string& line);
  bool IsAboutAnEnd();

  std::string partial_;
  std::vector<std::string>
      block_;  // between dashes, the first line of them included; empty: outside
  std::optional<RankEnd> end_;
};

}  // namespace heddle
