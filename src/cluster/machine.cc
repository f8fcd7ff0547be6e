#include "cluster/machine.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace heddle {

std::string ProcessorName(std::string_view cpuinfo) {
  constexpr std::string_view kKey = "model name";
  size_t at = cpuinfo.find(kKey);
  if (at == std::string_view::npos) return "unknown";
  std::string_view line = cpuinfo.substr(at, cpuinfo.find('\n', at) - at);
  size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "unknown";
  std::string name;
  for (char c : line.substr(colon + 1)) {
    bool printable = c > ' ' && c < 0x7f;
    if (printable) name += c;
    if (!printable && !name.empty() && name.back() != ' ') name += ' ';
    if (name.size() == 80) break;
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name.empty() ? "unknown" : name;
}

const Processor& ThisProcessor() {
  static const Processor processor = [] {
    std::ifstream file("/proc/cpuinfo", std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    Processor made;
    made.name = ProcessorName(text);
    made.cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
    int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0) made.memory_bytes = pages * size;
    return made;
  }();
  return processor;
}

MachineFacts ThisMachine() {
  const Processor& processor = ThisProcessor();
  return {{"processor", processor.name}, {"cores", std::to_string(processor.cores)}};
}

}  // namespace heddle
