#include "cli/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace heddle {

bool OpenStandardFiles() {
  for (int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free is this one. Output that is lost must fail, so it is opened for reading alone.
    open("/dev/null", file == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  int flags = fcntl(STDOUT_FILENO, F_GETFL);
  return flags != -1 && (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace heddle
