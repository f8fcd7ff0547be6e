#include "runtime/transport/nccl.h"

#include "base/error.h"

namespace heddle {

bool HasNccl() { return false; }

std::unique_ptr<Transport> MakeNcclTransport(Transport&, at::Device, const NcclOptions&) {
  ThrowRun("this heddle was built without NCCL");
}

}  // namespace heddle
