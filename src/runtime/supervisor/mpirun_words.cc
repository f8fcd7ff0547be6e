#include "runtime/supervisor/mpirun_words.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace heddle {
namespace {

constexpr size_t kDashes = 74;
constexpr size_t kLongestBlock = 60;          // lines
constexpr size_t kLongestLine = 1024 * 1024;  // bytes that wait for their end

bool IsDashes(const std::string& line) {
  return line.size() == kDashes && line.find_first_not_of('-') == std::string::npos;
}

}  // namespace

std::string MpirunWords::Take(std::string_view bytes) {
  partial_ += bytes;
  std::string shown;
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1)
    shown += Line(partial_.substr(begin, end - begin));
  partial_.erase(0, begin);
  if (partial_.size() > kLongestLine) {
    shown += partial_;
    partial_.clear();
  }
  return shown;
}

std::string MpirunWords::TakeRest() {
  std::string shown;
  for (const std::string& line : std::exchange(block_, {})) shown += line + "\n";
  shown += partial_;
  partial_.clear();
  return shown;
}

std::string MpirunWords::Line(const std::string& line) {
  if (block_.empty() && !IsDashes(line)) return line + "\n";
  block_.push_back(line);
  if (block_.size() == 1 || (!IsDashes(line) && block_.size() < kLongestBlock)) return "";
  std::string shown;
  if (!IsAboutAnEnd()) {
    for (const std::string& word : block_) shown += word + "\n";
  }
  block_.clear();
  return shown;
}

bool MpirunWords::IsAboutAnEnd() {
  bool about = false;
  RankEnd found;
  bool named = false, coded = false;
  for (const std::string& line : block_) {
    const char* text = line.c_str();
    for (const char* begin : {"Primary job  terminated normally, but", "MPI_ABORT was invoked",
                              "mpirun detected that one or more processes exited with non-zero",
                              "mpirun noticed that process rank"})
      about = about || line.starts_with(begin);
    int job = 0, part = 0;
    size_t on = line.find(" exited on signal ");
    if (std::sscanf(text, "mpirun noticed that process rank %d with PID", &found.rank) == 1 &&
        on != std::string::npos &&
        std::sscanf(text + on, " exited on signal %d", &found.signal) == 1)
      named = coded = true;
    if (std::sscanf(text, "  Process name: [[%d,%d],%d]", &job, &part, &found.rank) == 3)
      named = true;
    if (std::sscanf(text, "  Exit code: %d", &found.exit_code) == 1) coded = true;
  }
  if (about && named && coded && !end_) end_ = found;
  return about;
}

}  // namespace heddle
