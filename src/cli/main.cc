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

// Programs of plans that are judged are some tens of megabytes each and follow one another. Memory that one has freed is
// kept for the next: to give it back to the system and ask for it again took a tenth of a search.
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
  heddle::OpenStandardFiles();  // before anything opens a file
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
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which report at the end
  // Libraries' own ends are left out: where memory was too little for its threads, that of OpenBLAS waits for ever.
  std::fflush(nullptr);
  std::_Exit(status);
#endif
  return status;
}
