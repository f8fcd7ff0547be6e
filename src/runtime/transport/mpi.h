// The transport `mpi`: ranks are processes that mpirun or srun started; non-blocking collectives of the MPI library.
//
//   int main() { return RunMpi([](Transport& transport) { ... }); }
//
// Every group is a communicator. MPI makes progress inside its calls only: a rank that computes for long holds up
// collectives it has started, unless it calls Done now and then. A wait polls, first yielding the core and then
// sleeping, so that more ranks than cores do not starve each other.
// Limits: at most 2^31 - 1 elements in one transfer, for what one member gives (reduce-scatter and all-to-all: for
// each other), else RunError. bf16 and f16 travel as f32 when they are reduced. Members that disagree on sizes are
// noticed in messages, not in collectives.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/transport/transport.h"

namespace heddle {

// From MPI_Init to MPI_Finalize; one per process, ever. When an exception passes through its scope it ends all
// ranks instead (exit code 1): a rank that left quietly would leave the others waiting.
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

// Of the library, as it says itself: "Open MPI v4.1.4".
std::string MpiVersion();

// All ranks call it, in one order. To be destroyed before the session.
std::unique_ptr<Transport> MakeMpiTransport(const MpiSession& session,
                                            const TransportOptions& options = {});

// Session and transport around `body`; returns 0. An exception ends all ranks with one line from this one, and
// with exit code 2 for an InputError, 1 otherwise.
int RunMpi(const std::function<void(Transport&)>& body, const TransportOptions& options = {});

}  // namespace heddle
