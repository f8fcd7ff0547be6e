// Separates the messages of mpirun and Open MPI on standard error from those of ranks. Their messages stand between two
// lines of dashes, or begin with a host and a process, or with asterisks:
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

// How the first rank that failed has ended.
struct RankEnd {
  int rank = 0;
  int signal = 0;  // 0: the rank exited with `exit_code`
  int exit_code = 0;
  friend bool operator==(const RankEnd&, const RankEnd&) = default;
};

class MpirunWords {
 public:
  // Takes the next bytes that were read, any number of them. Returns the complete lines of ranks among them, for the
  // user.
  std::string Take(std::string_view bytes);
  std::string TakeRest();  // the incomplete last line

  const std::optional<RankEnd>& end() const { return end_; }
  // The messages of Open MPI itself, unchanged, without those about how ranks ended and that the others are stopped.
  // Shown at the end of a run: as a warning where the run succeeded, as the cause where no other cause is known.
  const std::string& own() const { return own_; }
  // A summary of `own` in one line: the first sentence between dashes and the values listed there ("Component: x"),
  // else the first line.
  std::string Cause() const;

 private:
  std::string Line(const std::string& line);
  void Keep(const std::string& line);
  bool IsAboutAnEnd();

  std::string partial_;
  std::vector<std::string> block_;  // lines since the first line of dashes; empty: outside a block
  std::optional<RankEnd> end_;
  std::string own_;
};

}  // namespace heddle
