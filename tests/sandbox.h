// Runs shell commands in a separate folder and finds everything that they leave behind: files, temporary files, shared
// memory and processes.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "run_binary.h"

namespace heddle {

struct SandboxResult {
  int status = -1;  // exit code; 128 + signal if the shell was killed
  bool timed_out = false;
  std::string out, err;
  std::vector<std::string> left;  // files and processes that were not there before
};

// One sandbox per process. If the system allows it, the process enters its own mount namespace with an empty /dev/shm
// and a small file system that is easily filled. Otherwise /dev/shm is not checked, because other programs use it, too.
// The process also becomes the reaper of every orphan that a command leaves.
class Sandbox {
 public:
  using Environment = std::vector<std::string>;  // NAME=VALUE

  Sandbox() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (const char* name : {"work", "tmp", "small"})
      std::filesystem::create_directory(folder_ / name);
    private_mounts_ = unshare(CLONE_NEWNS) == 0 &&
                      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      mount("none", "/dev/shm", "tmpfs", 0, "mode=1777") == 0 &&
                      mount("none", small().c_str(), "tmpfs", 0, "size=256k") == 0;
  }
  ~Sandbox() {
    if (private_mounts_) umount2(small().c_str(), MNT_DETACH);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  bool has_private_mounts() const { return private_mounts_; }
  std::string small() const { return folder_ / "small"; }  // 256 KiB, with private mounts
  std::string operator/(const std::string& name) const { return folder_ / name; }

  // Runs `preparation`, then `command`, each by bash in the same empty folder, with an empty folder as TMPDIR. `left`
  // has everything that `command` added or changed there.
  SandboxResult Run(const std::string& preparation, const std::string& command,
                    Environment environment, double timeout_seconds) {
    for (const std::string& folder : Watched()) Empty(folder);
    environment.push_back("TMPDIR=" + folder_ / "tmp");
    environment.push_back("SMALL=" + small());
    if (!preparation.empty()) {
      SandboxResult prepared = Shell(preparation, environment, timeout_seconds);
      if (prepared.status != 0) {
        prepared.left.push_back("the preparation failed: " + prepared.err);
        return prepared;
      }
    }
    std::set<std::string> before = Listing();
    SandboxResult result = Shell(command, environment, timeout_seconds);
    for (const std::string& entry : Listing()) {
      if (!before.contains(entry)) result.left.push_back(entry);
    }
    return result;
  }

 private:
  std::vector<std::string> Watched() const {
    std::vector<std::string> folders = {folder_ / "work", folder_ / "tmp"};
    if (private_mounts_) folders.insert(folders.end(), {"/dev/shm", small()});
    return folders;
  }

  static void Empty(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }

  // Lists every entry with its size, so that changed files count as left, too. Link loops are not followed.
  std::set<std::string> Listing() const {
    std::set<std::string> entries;
    for (const std::string& folder : Watched()) {
      std::error_code error;
      std::filesystem::recursive_directory_iterator at(folder, error), end;
      for (; !error && at != end; at.increment(error)) {
        struct stat status {};
        lstat(at->path().c_str(), &status);
        std::string size =
            S_ISREG(status.st_mode) ? ", " + std::to_string(status.st_size) + " B" : "";
        entries.insert(at->path().lexically_relative(folder_ / ".").string() + size);
      }
    }
    return entries;
  }

  static std::set<pid_t> Children() {
    std::set<pid_t> children;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream list(thread.path() / "children");
      for (pid_t child; list >> child;) children.insert(child);
    }
    return children;
  }

  // Collects children that have ended. Kills those that are still alive after `patience_seconds` and returns their
  // names.
  static std::vector<std::string> Reap(double patience_seconds) {
    std::vector<std::string> names;
    auto begin = std::chrono::steady_clock::now();
    while (true) {
      pid_t ended = waitpid(-1, nullptr, WNOHANG);
      if (ended < 0) return names;  // no children
      if (ended > 0) continue;
      std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (waited.count() > patience_seconds) {
        for (pid_t child : Children()) {
          names.push_back("process " + Slurp("/proc/" + std::to_string(child) + "/comm"));
          kill(child, SIGKILL);
        }
        patience_seconds += 1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  SandboxResult Shell(const std::string& command, const Environment& environment,
                      double timeout_seconds) {
    std::string work = folder_ / "work", out = folder_ / "out", err = folder_ / "err";
    std::vector<const char*> variables;
    for (const std::string& variable : environment) variables.push_back(variable.c_str());
    variables.push_back(nullptr);
    pid_t shell = fork();
    if (shell == 0) {
      setpgid(0, 0);
      bool ready = chdir(work.c_str()) == 0;
      for (int descriptor = 0; descriptor < 3; ++descriptor) {
        int flags = descriptor == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
        int file = open(descriptor == 0 ? "/dev/null" : (descriptor == 1 ? out : err).c_str(),
                        flags, 0600);
        ready = ready && dup2(file, descriptor) == descriptor;
        if (file > 2) close(file);
      }
      if (ready) {
        execle("/bin/bash", "bash", "-c", command.c_str(), nullptr,
               const_cast<char* const*>(variables.data()));
      }
      _exit(126);
    }
    SandboxResult result;
    auto begin = std::chrono::steady_clock::now();
    int status = 0;
    for (int turn = 0; waitpid(shell, &status, WNOHANG) == 0; ++turn) {
      std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (waited.count() > timeout_seconds && !result.timed_out) {
        result.timed_out = true;
        kill(-shell, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(turn < 50 ? 1 : 10));
    }
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.left = Reap(result.timed_out ? 0 : 1);
    result.out = Slurp(out);
    result.err = Slurp(err);
    return result;
  }

  TempFolder folder_;
  bool private_mounts_ = false;
};

}  // namespace heddle
