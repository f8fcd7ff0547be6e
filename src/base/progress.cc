#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr double kQuietSeconds = 2;
constexpr double kRedrawSeconds = 0.1;

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressTerminal ProgressTerminal::StandardError() {
  ProgressTerminal terminal;
  terminal.visible = isatty(STDERR_FILENO) == 1 && GetLogLevel() != LogLevel::kQuiet;
  const char* kind = std::getenv("TERM");
  terminal.escape_codes = !IsSet("NO_COLOR") && kind != nullptr && std::string_view(kind) != "dumb";
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  terminal.now = SteadySeconds;
  terminal.draw = internal::SetStatusLine;
  return terminal;
}

Progress::Progress(std::string label, std::int64_t total, ProgressTerminal terminal)
    : label_(std::move(label)), total_(total), terminal_(std::move(terminal)) {
  if (terminal_.visible) next_draw_ = terminal_.now() + kQuietSeconds;
}

Progress::~Progress() {
  if (drawn_) terminal_.draw("", terminal_.escape_codes);
}

void Progress::Update(std::int64_t done, std::string_view note) {
  if (!terminal_.visible) return;
  const std::lock_guard lock(mutex_);
  const double now = terminal_.now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawSeconds;
  std::string line = label_;
  if (total_ > 0) {
    const double part = static_cast<double>(done) / static_cast<double>(total_);
    line += fmt::format(" {:.0f} % ({}/{})", 100 * std::clamp(part, 0.0, 1.0), done, total_);
  } else {
    line += fmt::format(" {}", done);
  }
  if (!note.empty()) line += fmt::format(", {}", note);
  const int width = std::max(terminal_.columns - 1, 1);
  terminal_.draw(std::string(CutText(OneLine(line), static_cast<std::size_t>(width))),
                 terminal_.escape_codes);
  drawn_ = true;
}

}  // namespace heddle
