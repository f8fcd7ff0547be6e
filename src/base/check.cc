#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace heddle::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fputs(fmt::format("{}:{}: bug in heddle: check failed: {}{}{}\n", file, line, condition,
                         message.empty() ? "" : ": ", message)
                 .c_str(),
             stderr);
  std::abort();
}

}  // namespace heddle::internal
