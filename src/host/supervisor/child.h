// Starts a process, and reliably ends it together with everything it has started.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct ChildOptions {
  std::vector<std::string> command;  // the program is searched for in PATH
  std::vector<std::string> environment =
      {};  // NAME=VALUE, in addition to the variables of this process
  // Variables of this process that the child does not inherit.
  std::function<bool(std::string_view name)> leave_out = {};
  // Run in a separate network that has only the loopback interface: mpirun listens on every interface it sees.
  bool private_network = false;
  std::string remedy = {};  // appended to the error where the program does not exist
};

// The child runs in its own process group, without standard input, with standard error through a pipe. The kernel kills
// it when the thread that started it ends. Processes that outlive it become children of this process. They are told
// apart from other children by a variable in their environment, or because they were seen below the child before.
class Child {
 public:
  // InputError where there is no such program, RunError where it cannot be started.
  explicit Child(const ChildOptions& options);
  ~Child();  // kills all processes that are left
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int errors() const { return errors_; }  // the reading end of the pipe, non-blocking
  bool has_private_network() const { return private_network_; }

  // Whether the child has ended; does not block. Afterwards `status` is as waitpid gives it.
  bool HasEnded();
  int status() const { return status_; }

  // Kills the child and all its descendants, also stopped ones, and returns when they are gone. False where one is
  // still there after ten seconds: it hangs in the kernel.
  bool Kill();

 private:
  // Records all processes below `of`.
  void SeeDescendants(pid_t of);
  // The child's descendants that are children of this process now.
  std::vector<pid_t> Orphans();

  pid_t pid_ = -1;
  std::string mark_;  // NAME=VALUE in the environment of the child, which its descendants inherit
  // Recorded so far: the environment of a process that has ended cannot be read any more.
  std::vector<pid_t> descendants_;
  int errors_ = -1;
  bool private_network_ = false;
  bool ended_ = false;
  int status_ = 0;
};

// The state of a process as in /proc ('R', 'S', 'D', 'T', ...); 'X' where it does not exist.
char ProcessState(pid_t pid);
// The parent of a process; 0 where it does not exist.
pid_t ParentOf(pid_t pid);
std::vector<pid_t> ChildrenOf(pid_t pid);
// Whether a process was started with `variable` (NAME=VALUE) in its environment.
bool HasVariable(pid_t pid, const std::string& variable);

}  // namespace heddle
