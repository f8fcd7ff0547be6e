#include "runtime/executor/started_transfer.h"

namespace heddle {

StartedTransfer StartCollective(const DeviceState& state, const Instruction& i, Reduction reduction,
                                const at::Tensor& give, const at::Tensor& get,
                                std::function<void()> finish) {
  StartedTransfer started;
  started.tickets.push_back(
      state.communicators->Start(state.program, i, state.device, reduction, give, get));
  started.keep = {give, get};
  started.finish = std::move(finish);
  return started;
}

}  // namespace heddle
