// The conformance suite with ranks as processes, and how that transport fails.
//
//   mpirun -np 4 transport_mpi_test                 exits 0 if all checks of all ranks pass
//   mpirun -np 2 transport_mpi_test deadline        rank 0 fails in this way (see Misuse), which ends all ranks
//                                                   with one line that says why
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/transport_conformance.h"

namespace heddle {
namespace {

void Conform(Transport& transport) {
  for (const conformance::Body& body : conformance::kBodies) {
    try {
      body.run(transport);
    } catch (const std::exception& error) {
      throw RunError(fmt::format("{}: {}", body.name, error.what()));
    }
    transport.Barrier();
    if (transport.rank() == 0) fmt::print("{} with {} ranks: fine\n", body.name, transport.size());
  }
}

// Rank 0 causes the failure; rank 1 would wait for a long time.
void Misuse(Transport& transport, std::string_view how) {
  const std::vector<int> both = {0, 1};
  if (how == "group") {
    if (transport.rank() == 0) transport.AddGroup(both);
  } else if (how == "deadline") {
    GroupHandle group = transport.AddGroup(both);
    at::Tensor x = at::ones({7});
    if (transport.rank() == 0) {
      Ticket ticket = transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, group, x, x);
      transport.Wait(ticket);
    }
  } else if (how == "message") {
    at::Tensor x = at::ones({transport.rank() == 0 ? 4 : 3});
    Ticket ticket = transport.rank() == 0 ? transport.Recv(1, 0, x) : transport.Send(0, 0, x);
    transport.Wait(ticket);
  } else if (how == "large") {
    if (transport.rank() == 0) transport.Send(1, 0, at::empty({int64_t{1} << 31}, at::kByte));
  } else if (how == "abort") {
    if (transport.rank() == 0) transport.Abort("out of disk");
  } else if (transport.rank() == 0) {
    ThrowInput("no such file");
  }
  if (transport.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(20));
  transport.Barrier();
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  at::set_num_threads(1);
  if (argc == 1) return heddle::RunMpi(heddle::Conform);
  return heddle::RunMpi([&](heddle::Transport& transport) { heddle::Misuse(transport, argv[1]); },
                        {.deadline_seconds = 0.5});
}
