#include "runtime/cpu_features.h"

#include <dlfcn.h>

#include <cstdlib>

namespace heddle {

void AvoidTileRegisters() {
  struct Version {
    int major = 0;  // more follows
  };
  using GetVersion = const Version* (*)();
  auto version = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  if (version != nullptr && version()->major < 3)
    setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
}

}  // namespace heddle
