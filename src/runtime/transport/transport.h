// How ranks exchange tensors: collectives among ordered groups, and messages between two ranks. One Transport
// object is one rank.
//
//   GroupHandle tensor_parallel = transport.AddGroup(std::vector<int>{0, 2});
//   Ticket sum = transport.Start(CollectiveKind::kAllReduce, Reduction::kSum, tensor_parallel, x, x);
//   ...                                              // other work; x is neither read nor written
//   transport.Wait(sum);                             // now x holds the sum
//
// What the caller guarantees
//   Groups: every member adds a group with the same list, and all ranks add theirs in one common order. Members
//   start the collectives of a group in one order, with the same kind, reduction, dtype and sizes; different
//   groups are independent. A message is received by the Recv that its peer posted with the same tag, in order; dtype
//   and size agree. Tensors are contiguous and all on one device. Nobody touches or resizes them before the wait ends.
//   `get` has the size that plan/collective.h states and does not overlap `give`, except that all-reduce, reduce and
//   broadcast accept one tensor for both. A violation that one rank can detect is a bug (HEDDLE_CHECK). One that only
//   two ranks together can detect is a RunError, at the latest when the deadline passes.
//
// What an implementer does
//   Derives from Transport and from Transfer and defines the protected functions below. The base class does what is the
//   same for all: checks, counts, groups of one, host memory for device tensors, deadlines, the error after a failure.
//   Ranks may start transfers in different orders and wait in different orders: all transfers that are started on all
//   their ranks complete. The implementation passes transport_conformance.h.
//
// Threads: an object is used by one thread at a time, which may change.
// Determinism: all members get the same bits, in every run. The order of summation may depend on the transport and the
//   size, never on which rank arrives first. Sums of bf16 and f16 are taken in f32 and rounded once.
//   Integers wrap; the sum of bool is `or`; a maximum with a NaN is NaN.
// Cost: Start, Send and Recv return at once. `give` in device memory is copied to pinned host memory on a separate
//   stream, after the work that the current stream already has. Wait copies back to the device and does not wait for
//   that copy. Implementations work inside Done and Wait only.
// Failure: a wait past the deadline, a rank that aborts, or an error of the library underneath makes the transport
//   dead: every later call throws a RunError with the first cause. The contents of tensors in unfinished transfers are
//   then undefined, and they stay allocated as long as a rank may still write to them.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/transport/exchange.h"
#include "plan/collective.h"

namespace heddle {

// A transfer that was started. Implementers derive from it to add their own state.
struct Transfer {
  virtual ~Transfer() = default;

  TransferRole role = TransferRole::kBarrier;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  GroupHandle group;       // of a collective
  int peer = -1;           // of a message
  int tag = 0;             // of a message
  at::Tensor give, get;    // the tensors to work on; undefined where there is none
  at::Tensor device_get;   // on a device: the base class copies `get` to it at the end
  at::Tensor device_give;  // on a device: being copied to `give`
  std::unique_ptr<c10::Event>
      copied;          // passes when `give` has been copied; null: no copy is under way
  bool begun = false;  // Begin was called
  bool done = false;
};

// A shared handle; null counts as done. Every ticket is waited for, or found done, before its transport is destroyed.
using Ticket = std::shared_ptr<Transfer>;

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // `ranks` are the ordered members, one or more, with this rank among them. May wait for the other members.
  GroupHandle AddGroup(std::span<const int> ranks);
  std::span<const int> members(GroupHandle group) const { return groups_.at(group.index()); }

  // `reduction` is ignored where nothing is reduced. Only the first member's `give` counts in a broadcast, and only the
  // first member's `get` in a reduce.
  Ticket Start(CollectiveKind kind, Reduction reduction, GroupHandle group, const at::Tensor& give,
               at::Tensor get);
  // Tags are not negative. The wait for a Send may last until the peer has posted the Recv.
  Ticket Send(int peer, int tag, const at::Tensor& give);
  Ticket Recv(int peer, int tag, at::Tensor get);

  bool Done(Ticket& ticket);  // makes progress; does not block
  void Wait(Ticket& ticket);  // throws RunError after the deadline; the message names the transfer
  void Barrier();             // of all ranks

  // Makes all ranks fail with this cause. Does not throw. The transport `mpi` does not return from it.
  virtual void Abort(const std::string& why);

  const TrafficCount& traffic() const { return traffic_; }

 protected:
  using Clock = std::chrono::steady_clock;

  Transport(int rank, int size, const TransportOptions& options,
            std::shared_ptr<TransportFailure> failure);

  // For implementers. Tensors in a Transfer are contiguous, of matching sizes, and on the host unless
  // `device_tensors_`. Errors are thrown as RunError.
  virtual void OpenGroup(GroupHandle group) = 0;  // of two or more ranks; members(group) is known
  virtual Ticket NewTransfer() const = 0;
  virtual void Begin(const Ticket& ticket) = 0;
  virtual bool Progress(
      Transfer& transfer) = 0;  // returns whether the transfer is complete; does not block
  // Waits until the transfer is complete. False when the deadline has passed or the transport has failed.
  virtual bool ProgressUntil(Transfer& transfer, Clock::time_point deadline) = 0;
  virtual void WakeOthers() {}  // called when the failure is set: wakes ranks that share it

  // A detail for the error of a wait that was too long, such as ", not started by rank 3".
  virtual std::string Missing(const Transfer&) { return ""; }

  // "all-reduce of 12 Float among ranks 0,2".
  std::string Describe(const Transfer& transfer) const;
  // Marks the transport dead and throws the first cause.
  [[noreturn]] void Fail(const std::string& cause);
  const TransportFailure& failure() const { return *failure_; }
  double deadline_seconds() const { return options_.deadline_seconds; }
  void Beat() const;  // a sign of life; to be called in every turn of a loop that waits
  Clock::time_point Deadline() const;  // of a wait that begins now

  // Set by the constructor of an implementation:
  // It works on tensors in device memory without a copy to the host.
  bool device_tensors_ = false;
  // It gets the collectives of groups of one rank, too; Start waits for them.
  bool lone_groups_ = false;

 private:
  Ticket StartMessage(TransferRole role, int peer, int tag, const at::Tensor& tensor);
  Ticket Launch(Ticket ticket, const at::Tensor& give, const at::Tensor& get);
  void CopyToHost(Transfer& transfer, const at::Tensor& give);
  void BeginCopied();
  void BeginAll();
  void Finish(Transfer& transfer);

  int rank_;
  int size_;
  TransportOptions options_;
  std::shared_ptr<TransportFailure> failure_;
  std::vector<std::vector<int>> groups_;
  TrafficCount traffic_;
  std::optional<c10::Stream>
      copies_;                  // for copies from the device to the host; made when first needed
  std::deque<Ticket> waiting_;  // started but not begun, in order
};

// Number and type of the elements that each member gives (of a message: all of it). All members must agree on both.
int64_t TransferLength(const Transfer& transfer);
at::ScalarType TransferType(const Transfer& transfer);

}  // namespace heddle
