#include "cli/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace heddle {

bool OpenStandardFiles() {
  for (int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest free number, which is this one. Standard output is opened read-only, so that writes
    // fail.
    open("/dev/null", file == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  int flags = fcntl(STDOUT_FILENO, F_GETFL);
  return flags != -1 && (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace heddle
