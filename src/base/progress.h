// A line on standard error that says how far a long piece of work is.
//
//   Progress progress("searching", candidates.size());
//   for (...) progress.Update(i, fmt::format("best {}", FormatSeconds(best)));
//   // searching 40 % (12/30), best 1.23 s
//
// Redrawn in place on a terminal, at most ten times a second, and only once the work has taken two
// seconds; silent when standard error is no terminal or HEDDLE_LOG=quiet. NO_COLOR or TERM=dumb:
// no escape codes. The line disappears with the object. One at a time; Update may be called from
// any thread and costs a clock reading.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace heddle {

// What Progress sees of the world; tests make their own.
struct ProgressTerminal {
  bool visible = false;  // a terminal, and not quiet
  bool escape_codes = false;
  int columns = 80;
  std::function<double()> now;  // seconds, monotonic
  std::function<void(std::string_view line, bool escape_codes)> draw;

  static ProgressTerminal StandardError();
};

class Progress {
 public:
  // `total` 0: not known, only the count is shown.
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
