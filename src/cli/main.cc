#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/standard_files.h"
#ifdef HEDDLE_WITH_TORCH
#include "host/supervisor/private_folder.h"
#endif

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

// A search lowers one plan after another to programs of tens of megabytes. The allocator keeps freed memory for the
// next program: returning it to the system and requesting it again took a tenth of the search.
void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kLarge = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kLarge);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  heddle::OpenStandardFiles();  // before any file is opened
  std::vector<heddle::AddCommand> commands = heddle::CoreCommands();
#ifdef HEDDLE_WITH_TORCH
  heddle::RemoveLeftFolders();
  commands.push_back(heddle::AddTrain);
  commands.push_back(heddle::AddCalibrate);
  commands.push_back(heddle::AddLearn);
  commands.push_back(heddle::AddPrune);
  heddle::UseNetworkPrior();
  heddle::UseRealFleet(heddle::RunRealFleet);
#else
  heddle::ForwardToTorch(argc, argv);
  commands.push_back(heddle::AddForwarded);
#endif
  int status = heddle::RunMain(argc, argv, HEDDLE_VERSION, commands);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers report at exit
  // Destructors of libraries do not run: that of OpenBLAS waits forever if its threads could not be started for lack of
  // memory.
  std::fflush(nullptr);
  std::_Exit(status);
#endif
  return status;
}
