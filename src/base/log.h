// Messages to people, on standard error, one line each. HEDDLE_LOG=quiet shows none of them,
// =info (the default) information and warnings, =debug everything. Errors are not logged but
// thrown. May be called from any thread; a line is written whole, above a progress line if there is
// one.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace heddle {

enum class LogLevel { kQuiet, kInfo, kDebug };

// What HEDDLE_LOG said when first asked; SetLogLevel overrides it.
LogLevel GetLogLevel();
void SetLogLevel(LogLevel level);

namespace internal {

// Writes "heddle: " + prefix + message.
void WriteLog(std::string_view prefix, std::string_view message);

// The line below the log, kept there after each message; empty removes it. For Progress only.
// Without escape codes an old line is wiped with spaces.
void SetStatusLine(std::string_view line, bool escape_codes);

}  // namespace internal

template <class... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  if (GetLogLevel() >= LogLevel::kInfo) {
    internal::WriteLog("", fmt::format(format, std::forward<Args>(args)...));
  }
}

template <class... Args>
void LogWarn(fmt::format_string<Args...> format, Args&&... args) {
  if (GetLogLevel() >= LogLevel::kInfo) {
    internal::WriteLog("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }
}

template <class... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  if (GetLogLevel() >= LogLevel::kDebug) {
    internal::WriteLog("debug: ", fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace heddle
