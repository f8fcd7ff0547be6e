// Helpers for the tests of all modules.
//
//   EXPECT_THAT(ErrorOf([] { ElementCount(Shape{-1}); }), HasSubstr("negative"));
#pragma once

#include <string>

#include "base/error.h"

namespace heddle {

// Code that a sanitizer instruments is several times slower and takes more memory. Tests multiply limits of time by
// kSlowdown (ctest's own limit: HeddleModule.cmake), and leave out what memory does not allow where kInstrumented.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
inline constexpr int kSlowdown = 10;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kInstrumented = true;
inline constexpr int kSlowdown = 5;
#else
inline constexpr bool kInstrumented = false;
inline constexpr int kSlowdown = 1;
#endif

// The message of the InputError that `call` throws, or "(no error)".
template <class Call>
std::string ErrorOf(Call&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace heddle
