// Reads one line of the text form from left to right; text_parse.cc passes the lines one by one. Every method throws an
// InputError "file:line:column: ..." where the line does not have what it expects. Spaces between tokens do not matter;
// a # ends the line.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "graph/tensor.h"
#include "graph/text.h"

namespace heddle {

class LineCursor {
 public:
  // All arguments must outlive the cursor.
  LineCursor(std::string_view line, int64_t number, std::string_view file, const TextLimits& limits)
      : line_(line), number_(number), file_(file), limits_(limits) {}

  // Throws with the place of byte `at` of this line.
  template <class... Args>
  [[noreturn]] void FailAt(size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    ThrowInput("{}:{}:{}: {}", file_, number_, at + 1,
               fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
    FailAt(Mark(), format, std::forward<Args>(args)...);
  }

  size_t Mark();  // the byte at which the next token begins
  bool AtEnd() { return Mark() == line_.size() || line_[at_] == '#'; }
  char Peek() { return AtEnd() ? '\0' : line_[at_]; }

  // The next token, or the token at byte `at`, for messages.
  std::string Found() { return FoundAt(Mark()); }
  std::string FoundAt(size_t at) const;

  bool Accept(char c);
  void Expect(char c, std::string_view where);
  void ExpectEnd(std::string_view where);

  // The longest run of letters, digits and _ . : / - +; empty where there is none.
  std::string_view Word();
  std::string QuotedString();
  // A name of an op or attribute, or of a value after its %: plain or quoted.
  std::string Name(std::string_view what);
  std::string ValueName();
  int64_t Integer(std::string_view what);
  // A number or inf, -inf, nan, rounded once to Float (float or double).
  template <class Float>
  Float Real(std::string_view what);
  // Whether the next token is a float rather than an integer.
  bool LooksReal();
  TensorType Type();

 private:
  char Escape();

  std::string_view line_;
  int64_t number_;
  std::string_view file_;
  const TextLimits& limits_;
  size_t at_ = 0;
};

}  // namespace heddle
