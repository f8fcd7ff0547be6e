// Helpers for the tests of all modules.
//
//   EXPECT_THAT(ErrorOf([] { ElementCount(Shape{-1}); }), HasSubstr("negative"));
#pragma once

#include <string>

#include "base/error.h"

namespace heddle {

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
