#include "host/supervisor/mpirun_words.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

namespace heddle {
namespace {

constexpr size_t kDashes = 74;
constexpr size_t kLongestBlock = 60;          // lines
constexpr size_t kMostKept = 64 * 1024;       // bytes of Open MPI's own messages
constexpr size_t kLongestCause = 400;         // bytes
constexpr size_t kLongestLine = 1024 * 1024;  // bytes that wait for their end

bool IsDashes(const std::string& line) {
  return line.size() == kDashes && line.find_first_not_of('-') == std::string::npos;
}

// Where the text begins in a line of the form "[host:1234] text" (12 in this one); 0 for any other line.
size_t AfterSource(const std::string& line) {
  size_t colon = line.find(':'), end = line.find("] ");
  if (!line.starts_with('[') || colon == std::string::npos || end == std::string::npos ||
      colon + 1 >= end)
    return 0;
  size_t stop = line.find_first_not_of("0123456789", colon + 1);
  return stop == end && line.find(' ') > end ? end + 2 : 0;
}

bool IsOfOpenMpi(const std::string& line) {
  return line.starts_with("*** ") || AfterSource(line) > 0;
}

}  // namespace

void MpirunWords::Keep(const std::string& line) {
  if (own_.size() < kMostKept) own_ += line + "\n";
}

std::string MpirunWords::Cause() const {
  std::istringstream lines(own_);
  std::string first, words, details;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (IsDashes(line) && inside && !words.empty()) break;
    if (IsDashes(line)) {
      inside = true;
      continue;
    }
    if (!inside) {
      if (first.empty()) first = line.substr(AfterSource(line));
      continue;
    }
    size_t begin = line.find_first_not_of(' '), colon = line.find(": ");
    if (begin == std::string::npos) continue;
    if (colon != std::string::npos && line.find(' ', begin) > colon) {  // "Component:   name"
      size_t value = line.find_first_not_of(' ', colon + 1);
      details += (details.empty() ? "" : ", ") + line.substr(begin, colon + 2 - begin) +
                 (value == std::string::npos ? "" : line.substr(value));
    } else {
      words += (words.empty() ? "" : " ") + line.substr(begin);
    }
  }
  if (words.empty()) words = first;
  words = words.substr(0, words.find(". "));
  if (words.ends_with('.')) words.pop_back();
  if (!details.empty()) words += " (" + details + ")";
  if (words.size() <= kLongestCause) return words;
  return words.substr(0, std::min(words.rfind(' ', kLongestCause), kLongestCause)) + " ...";
}

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
  for (const std::string& line : std::exchange(block_, {})) Keep(line);
  return std::exchange(partial_, {});
}

std::string MpirunWords::Line(const std::string& line) {
  if (line.starts_with("heddle: "))
    return line + "\n";  // of a rank, even inside a block of mpirun's
  if (block_.empty() && !IsDashes(line)) {
    if (!IsOfOpenMpi(line)) return line + "\n";
    Keep(line);
    return "";
  }
  block_.push_back(line);
  if (block_.size() == 1 || (!IsDashes(line) && block_.size() < kLongestBlock)) return "";
  if (!IsAboutAnEnd()) {
    for (const std::string& word : block_) Keep(word);
  }
  block_.clear();
  return "";
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
