// What mpirun and Open MPI say on standard error beside what ranks say. They put their words between two lines of
// dashes, or begin lines with a host and a process or with asterisks:
//
//   --------------------------------------------------------------------------
//   mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).
//   --------------------------------------------------------------------------
//   [vm:1234] *** An error occurred in MPI_Init_thread
//   *** on a NULL communicator
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
  // Takes in what was read, in pieces of any size; returns what people should see: whole lines of ranks.
  std::string Take(std::string_view bytes);
  std::string TakeRest();  // at the end

  const std::optional<RankEnd>& end() const { return end_; }
  // What Open MPI said itself, but for how ranks ended and that it stops the others, as it was. It is for the end of a
  // run: a warning where all went well, a cause where nothing else tells one.
  const std::string& own() const { return own_; }
  // The beginning of it as one line: the first sentence between dashes and the values it names ("Component: x"), else
  // the first line.
  std::string Cause() const;

 private:
  std::string Line(const std::string& line);
  void Keep(const std::string& line);
  bool IsAboutAnEnd();

  std::string partial_;
  std::vector<std::string>
      block_;  // between dashes, the first line of them included; empty: outside
  std::optional<RankEnd> end_;
  std::string own_;
};

}  // namespace heddle
