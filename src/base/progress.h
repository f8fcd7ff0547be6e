// A progress line on standard error.
//
//   Progress progress("searching", candidates.size());
//   for (...) progress.Update(i, fmt::format("best {}", FormatSeconds(best)));
//   // searching 40 % (12/30), best 1.23 s
//
// The line is redrawn in place at most ten times a second, starting two seconds after the object is made. Nothing is
// drawn where standard error is not a terminal or HEDDLE_LOG=quiet. NO_COLOR and TERM=dumb turn escape codes off. The
// destructor removes the line. At most one object may exist at a time. Update may be called from any thread and costs
// one reading of the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace heddle {

// The terminal and the clock that Progress uses; tests replace them.
struct ProgressTerminal {
  bool visible = false;  // standard error is a terminal, and the log is not quiet
  bool escape_codes = false;
  int columns = 80;
  std::function<double()> now;  // seconds, monotonic
  std::function<void(std::string_view line, bool escape_codes)> draw;

  static ProgressTerminal StandardError();
};

class Progress {
 public:
  // A `total` of 0 means that it is not known: only the count is shown.
  explicit Progress(std::string label, std::int64_t total = 0,
                    ProgressTerminal terminal = ProgressTerminal::StandardError());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(std::int64_t done, std::string_view note = "");

 private:
  const std::string label_;
  const std::int64_t total_;
  const ProgressTerminal terminal_;
  std::mutex mutex_;
  double next_draw_ = 0;
  bool drawn_ = false;
};

}  // namespace heddle
