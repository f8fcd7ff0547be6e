#include "cli/commands.h"
#include "cli/plan_search.h"
#include "learn/file.h"
#include "runtime/kernel_threads.h"

namespace heddle {

void UseNetworkPrior() {
  SetPriorLoader([](const std::string& name) -> std::shared_ptr<Prior> {
    SetKernelThreads(1);  // results of more threads are not deterministic
    return name == "network" ? BundledPrior() : LoadPrior(name);
  });
}

}  // namespace heddle
