#include "host/supervisor/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string program = folder + "/" + name;
    if (access(program.c_str(), X_OK) == 0 && !std::filesystem::is_directory(program))
      return program;
  }
  return "";
}

// --- These run between fork and exec, where only system calls are safe.

bool WriteTo(const char* path, const char* text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  auto length = static_cast<ssize_t>(strlen(text));
  bool written = write(file, text, static_cast<size_t>(length)) == length;
  close(file);
  return written;
}

// The map of a user namespace in which an id stays the same: "1000 1000 1".
struct IdentityMap {
  explicit IdentityMap(unsigned id) {
    char digits[12];
    int count = 0;
    do digits[count++] = static_cast<char>('0' + id % 10);
    while ((id /= 10) != 0);
    char* at = text;
    for (int twice = 0; twice < 2; ++twice) {
      for (int d = count - 1; d >= 0; --d) *at++ = digits[d];
      *at++ = ' ';
    }
    *at++ = '1';
    *at = '\0';
  }
  char text[32];
};

bool RaiseLoopback() {
  int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return false;
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  bool raised = ioctl(any, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  raised = raised && ioctl(any, SIOCSIFFLAGS, &request) == 0;
  close(any);
  return raised;
}

// Where the system allows it, an ordinary user can create a network inside a new user namespace.
bool EnterPrivateNetwork(const IdentityMap& user, const IdentityMap& group) {
  if (unshare(CLONE_NEWNET) == 0) return RaiseLoopback();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  return WriteTo("/proc/self/setgroups", "deny") && WriteTo("/proc/self/uid_map", user.text) &&
         WriteTo("/proc/self/gid_map", group.text) && RaiseLoopback();
}

// Tries it in another process first: a process that has entered half of a private network cannot leave it.
bool CanHavePrivateNetwork(const IdentityMap& user, const IdentityMap& group) {
  pid_t trial = fork();
  if (trial == 0) _exit(EnterPrivateNetwork(user, group) ? 0 : 1);
  int status = 1;
  return trial > 0 && waitpid(trial, &status, 0) == trial && status == 0;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const ChildOptions& options) {
  const std::vector<std::string>& more = options.environment;
  std::vector<std::string> all = more;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view old = *at, name = old.substr(0, old.find('='));
    bool replaced = options.leave_out && options.leave_out(name);
    for (const std::string& word : more)
      replaced = replaced || std::string_view(word).substr(0, word.find('=')) == name;
    if (!replaced) all.emplace_back(old);
  }
  return all;
}

// The fields of /proc/PID/stat from the state on. They follow the name, which may contain any character.
std::string StatOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 > text.size() ? ""
                                                                     : text.substr(name_end + 2);
}

}  // namespace

Child::Child(const ChildOptions& options) {
  std::vector<std::string> command = options.command;
  HEDDLE_CHECK(!command.empty());
  std::string program = FindProgram(command[0]);
  if (program.empty()) ThrowInput("{} is not installed{}", command[0], options.remedy);
  std::vector<std::string> environment = Environment(options);
  static std::atomic<int> count = 0;
  mark_ = "HEDDLE_CHILD_" + std::to_string(getpid()) + "_" + std::to_string(count++) + "=1";
  environment.push_back(mark_);
  std::vector<char*> argv = Pointers(command), envp = Pointers(environment);
  IdentityMap user(getuid()), group(getgid());
  private_network_ = options.private_network && CanHavePrivateNetwork(user, group);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int errors[2], news[2];
  if (pipe2(errors, O_CLOEXEC) != 0) ThrowRun("pipe: {}", std::strerror(errno));
  if (pipe2(news, O_CLOEXEC) != 0) {
    close(errors[0]);
    close(errors[1]);
    ThrowRun("pipe: {}", std::strerror(errno));
  }
  pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(errors[1], STDERR_FILENO);
    if (!private_network_ || EnterPrivateNetwork(user, group)) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) execve(program.c_str(), argv.data(), envp.data());
    }
    int error = errno;  // why exec failed, sent to the parent through `news`
    _exit(write(news[1], &error, sizeof(error)) > 0 ? 127 : 126);
  }
  int error = pid_ < 0 ? errno : 0;
  close(errors[1]);
  close(news[1]);
  errors_ = errors[0];
  ssize_t told = 0;
  while (pid_ > 0 && (told = read(news[0], &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (told > 0) waitpid(pid_, nullptr, 0);
  close(news[0]);
  if (error != 0) {
    close(errors_);
    ThrowRun("{} cannot be started: {}", program, std::strerror(error));
  }
  fcntl(errors_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  Kill();
  close(errors_);
}

bool Child::HasEnded() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

void Child::SeeDescendants(pid_t of) {
  for (pid_t child : ChildrenOf(of)) {
    if (std::find(descendants_.begin(), descendants_.end(), child) != descendants_.end()) continue;
    descendants_.push_back(child);
    SeeDescendants(child);
  }
}

std::vector<pid_t> Child::Orphans() {
  std::vector<pid_t> orphans;
  for (pid_t child : ChildrenOf(getpid())) {
    if (child == pid_) continue;
    bool seen = std::find(descendants_.begin(), descendants_.end(), child) != descendants_.end();
    if (!seen && getpgid(child) != pid_ && !HasVariable(child, mark_)) continue;
    if (!seen) descendants_.push_back(child);
    orphans.push_back(child);
  }
  return orphans;
}

bool Child::Kill() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point until = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < until) {
    if (!HasEnded()) {
      SeeDescendants(pid_);
      kill(pid_, SIGKILL);
    }
    std::vector<pid_t> orphans = Orphans();  // when a process ends, its children become ours
    if (ended_ && orphans.empty()) return true;
    for (pid_t orphan : orphans) {
      SeeDescendants(orphan);
      kill(orphan, SIGKILL);
      if (waitpid(orphan, nullptr, WNOHANG) == orphan) std::erase(descendants_, orphan);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code error;
  std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) all.push_back(child);
  }
  return all;
}

bool HasVariable(pid_t pid, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) {
    if (word == variable) return true;
  }
  return false;
}

char ProcessState(pid_t pid) {
  std::string stat = StatOf(pid);
  return stat.empty() ? 'X' : stat[0];
}

pid_t ParentOf(pid_t pid) {
  std::istringstream stat(StatOf(pid));
  char state = 0;
  pid_t parent = 0;
  stat >> state >> parent;
  return stat ? parent : 0;
}

}  // namespace heddle
