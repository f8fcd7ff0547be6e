// The transport `mpi`: ranks are processes that mpirun or srun started; non-blocking collectives of the MPI library.
//
//   int main() { return RunMpi([](Transport& transport) { ... }); }
//
// Every group is a communicator. MPI makes progress only inside its calls: a rank that computes for a long time delays
// the collectives it has started, unless it calls Done from time to time. A wait polls; it first yields the core and
// then sleeps, so that more ranks than cores do not starve each other. Limits: a member gives at most 2^31 - 1 elements
// in one transfer (in reduce-scatter and all-to-all: to each member), else RunError. bf16 and f16 are sent as f32 when
// they are reduced. Different sizes are detected in messages, not in collectives.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/transport/transport.h"

namespace heddle {

// The time from MPI_Init to MPI_Finalize; at most one per process. When an exception leaves its scope, it ends all
// ranks with exit code 1, because the others would wait forever for a rank that is gone.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Prints one line and ends all ranks; the launcher exits with `code`.
  [[noreturn]] void Abort(const std::string& why, int code = 1) const;

 private:
  int rank_ = 0;
  int size_ = 1;
  int exceptions_;
};

// Name and version as the library states them: "Open MPI v4.1.4".
std::string MpiVersion();

// All ranks call it, in the same order. The transport is destroyed before the session.
std::unique_ptr<Transport> MakeMpiTransport(const MpiSession& session,
                                            const TransportOptions& options = {});

// Runs `body` with a session and a transport, and returns 0. On an exception this rank prints one line and all ranks
// end, with exit code 2 for an InputError and 1 otherwise.
int RunMpi(const std::function<void(Transport&)>& body, const TransportOptions& options = {});

}  // namespace heddle
