#include "cluster/quota.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace heddle {
namespace {

// Whether a list such as "cpu,cpuacct" contains the controller "cpu".
bool Controls(std::string_view controllers) {
  std::string list = "," + std::string(controllers) + ",";
  return list.find(",cpu,") != std::string::npos;
}

}  // namespace

std::vector<std::string> QuotaFiles(std::string_view cgroup) {
  std::vector<std::string> files;
  std::istringstream lines{std::string(cgroup)};
  for (std::string line; std::getline(lines, line);) {  // number:controllers:/path
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::vector<std::string> roots;
    if (controllers.empty()) roots = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    if (Controls(controllers)) roots = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    for (const std::string& root : roots) {
      std::string path = line.substr(second + 1);
      while (!path.empty() && path.back() == '/') path.pop_back();
      for (;; path.resize(path.rfind('/'))) {
        files.push_back(root + path + "/cpu.stat");
        if (path.find('/') == std::string::npos) break;
      }
    }
  }
  return files;
}

std::optional<int64_t> TimesThrottled() {
  std::ifstream own("/proc/self/cgroup", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(own)), {});
  std::optional<int64_t> times;
  for (const std::string& path : QuotaFiles(text)) {
    std::ifstream file(path);
    std::string key;
    for (int64_t value = 0; file >> key >> value;) {
      if (key == "nr_throttled") times = times.value_or(0) + value;
    }
  }
  return times;
}

}  // namespace heddle
