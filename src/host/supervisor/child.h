// A process and everything it starts: begun, and ended for certain.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct ChildOptions {
  std::vector<std::string> command;           // looked for in PATH
  std::vector<std::string> environment = {};  // NAME=VALUE, beside what this process has
  std::function<bool(std::string_view name)> leave_out =
      {};  // variables of this process it does not get
  // A network of its own, with nothing but the loopback interface: mpirun listens on every interface it sees.
  bool private_network = false;
  std::string remedy = {};  // said where there is no such program
};

// Runs in a process group of its own, without standard input; standard error comes through a pipe. It is killed when
// the thread that started it ends. What it leaves behind when it ends becomes a child of this process, and is known among the
// others by a variable of its environment, or was seen below it.
class Child {
 public:
  // InputError where there is no such program, RunError where it cannot be started.
  explicit Child(const ChildOptions& options);
  ~Child();  // kills all that is left
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int errors() const { return errors_; }  // the pipe: does not block
  bool has_private_network() const { return private_network_; }

  // Whether it has ended, and then with which status, as waitpid gives it. Does not block.
  bool HasEnded();
  int status() const { return status_; }

  // It and all its descendants, stopped ones too; returns when they are gone. False where one could not be ended in
  // ten seconds: it hangs in the kernel.
  bool Kill();

 private:
  void SeeDescendants(pid_t of);
  // Those of its descendants that are children of this process now.
  std::vector<pid_t> Orphans();

  pid_t pid_ = -1;
  std::string mark_;  // NAME=VALUE that it and all its descendants have
  std::vector<pid_t>
      descendants_;  // seen so far: the environment of one that has ended cannot be read
  int errors_ = -1;
  bool private_network_ = false;
  bool ended_ = false;
  int status_ = 0;
};

// The state of a process as /proc has it ('R', 'S', 'D', 'T', ...); 'X' where there is none.
char ProcessState(pid_t pid);
// 0 where there is none.
pid_t ParentOf(pid_t pid);
std::vector<pid_t> ChildrenOf(pid_t pid);
// Whether it was started with NAME=VALUE in its environment.
bool HasVariable(pid_t pid, const std::string& variable);

}  // namespace heddle
