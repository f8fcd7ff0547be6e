// Messages for users on standard error, one line each. HEDDLE_LOG=quiet shows none, =info (the default) shows
// information and warnings, =debug shows everything. Errors are thrown, not logged. Any thread may log; each line is
// written in one piece, above the progress line if there is one.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace heddle {

enum class LogLevel { kQuiet, kInfo, kDebug };

// The level that HEDDLE_LOG had at the first call; SetLogLevel overrides it.
LogLevel GetLogLevel();
void SetLogLevel(LogLevel level);

namespace internal {

// Writes "heddle: " + prefix + message.
void WriteLog(std::string_view prefix, std::string_view message);

// Sets the line that stays below the log and is redrawn after each message; an empty line removes it. For Progress
// only. Without escape codes the old line is overwritten with spaces.
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
