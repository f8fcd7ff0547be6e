// The errors that a command can end with, and Infeasible, which is thrown where nothing fits. A bug is not among them:
// see base/check.h.
//
//   ThrowInput("{}:{}: batch is {}, must be positive; give --batch N", file, line, batch);
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace heddle {

// `text` as one printable line: control characters become spaces (line breaks, tabs) or \xNN.
std::string OneLine(std::string_view text);

// Bad usage or bad input. The message says file, place, value and remedy in one line. Exit code 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::string_view message) : std::runtime_error(OneLine(message)) {}
};

// A failure at run time that is not the fault of the input, such as a full disk or a lost rank. Exit code 1.
class RunError : public std::runtime_error {
 public:
  explicit RunError(std::string_view message) : std::runtime_error(OneLine(message)) {}
};

// Nothing fits: no plan fits the devices, or a job fits on no device. The message says why and what would help. Exit
// code 3.
class Infeasible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A RunError that all ranks raise together, for example because the loss is not finite. Only one of them reports it.
class CommonRunError : public RunError {
 public:
  using RunError::RunError;
};

// An InputError that all ranks raise together, for example because they resume from the same checkpoint. Only one of
// them reports it.
class CommonInputError : public InputError {
 public:
  using InputError::InputError;
};

template <class... Args>
[[noreturn]] void ThrowInput(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void ThrowRun(fmt::format_string<Args...> format, Args&&... args) {
  throw RunError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace heddle
