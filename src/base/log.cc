#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.h"

namespace heddle {
namespace {

constexpr int kUnset = -1;
std::atomic<int> level = kUnset;

struct StatusLine {
  std::mutex mutex;  // also serialises messages
  std::string text;
  bool escape_codes = false;
};

StatusLine& Status() {
  static auto* status = new StatusLine;  // never destroyed, because threads may still log at exit
  return *status;
}

void Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // standard error itself fails: nothing can be reported
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

// The characters that remove the status line from the terminal.
std::string Wipe(const StatusLine& status) {
  if (status.text.empty()) return "";
  if (status.escape_codes) return "\r\x1b[K";
  return "\r" + std::string(status.text.size(), ' ') + "\r";
}

}  // namespace

LogLevel GetLogLevel() {
  int current = level.load(std::memory_order_relaxed);
  if (current != kUnset) return static_cast<LogLevel>(current);
  const char* variable = std::getenv("HEDDLE_LOG");
  const std::string_view value = variable == nullptr ? "" : variable;
  const bool known = value.empty() || value == "quiet" || value == "info" || value == "debug";
  const LogLevel wanted = value == "quiet"   ? LogLevel::kQuiet
                          : value == "debug" ? LogLevel::kDebug
                                             : LogLevel::kInfo;
  if (level.compare_exchange_strong(current, static_cast<int>(wanted)) && !known) {
    LogWarn("HEDDLE_LOG is {}; use quiet, info or debug", value);
  }
  return static_cast<LogLevel>(level.load());
}

void SetLogLevel(LogLevel wanted) { level = static_cast<int>(wanted); }

namespace internal {

void WriteLog(std::string_view prefix, std::string_view message) {
  StatusLine& status = Status();
  const std::lock_guard lock(status.mutex);
  Write(fmt::format("{}heddle: {}{}\n{}", Wipe(status), prefix, OneLine(message), status.text));
}

void SetStatusLine(std::string_view line, bool escape_codes) {
  StatusLine& status = Status();
  const std::lock_guard lock(status.mutex);
  const std::string wipe = Wipe(status);
  status.text = line;
  status.escape_codes = escape_codes;
  Write(wipe + status.text);
}

}  // namespace internal
}  // namespace heddle
