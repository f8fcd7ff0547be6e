// What tests of any module share.
//
//   EXPECT_THAT(ErrorOf([] { ElementCount(Shape{-1}); }), HasSubstr("negative"));
#pragma once

#include <string>

#include "base/error.h"

namespace heddle {

// The message of the InputError that `call` throws.
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
