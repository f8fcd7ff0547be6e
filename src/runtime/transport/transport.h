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
//   groups are independent. A message meets the receive that its peer posted with the same tag, in order; dtype
//   and size agree. Tensors are contiguous, all on one device, and neither touched nor resized until waited for.
//   `get` is as large as plan/collective.h says and does not overlap `give`, except that all-reduce, reduce and
//   broadcast take one tensor as both. Breaking what one rank can see is a bug (HEDDLE_CHECK); what only two ranks together
//   can see ends in a RunError where the transport notices, at the latest with the deadline.
//
// What an implementer does
//   Derives from Transport and from Transfer and defines the protected functions below; what the base class
//   does for all (checks, counts, groups of one, host memory for device tensors, deadlines, the error after a
//   failure) it need not repeat. Two ranks may start transfers in any order and wait in any other order: as long
//   as each transfer is started on all its ranks, all complete. Passes transport_conformance.h.
//
// Threads: an object is used by one thread at a time, which may change.
// Determinism: every member gets the same bits, and gets them again in the next run; the order of summation may
//   depend on the transport and the size, never on arrival. Sums of bf16 and f16 are taken in f32 and rounded once.
//   Integers wrap; the sum of bool is `or`; a maximum with a NaN is NaN.
// Cost: Start, Send and Recv return at once. `give` in device memory is copied to pinned host memory on a stream of its
//   own, behind what the current stream was given before, and Wait copies back without waiting for that. Work may be
//   done in Done and Wait only.
// Failure: a wait past the deadline, a rank that aborts, or an error of the library underneath makes the transport
//   dead: every later call throws a RunError with that first cause. Tensors of unfinished transfers then hold
//   anything, and are kept alive as long as someone may still write to them.
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

// Something started. Implementers add what they need to find it again.
struct Transfer {
  virtual ~Transfer() = default;

  TransferRole role = TransferRole::kBarrier;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  GroupHandle group;                   // of a collective
  int peer = -1;                       // of a message
  int tag = 0;                         // of a message
  at::Tensor give, get;                // what to work on; undefined where there is none
  at::Tensor device_get;               // where the base class copies `get` to at the end
  at::Tensor device_give;              // what it is copying to `give`
  std::unique_ptr<c10::Event> copied;  // passes when `give` is there; none: it is
  bool begun = false;
  bool done = false;
};

// A shared handle; a null one counts as done. Every ticket is waited for, or found done, before its transport goes.
using Ticket = std::shared_ptr<Transfer>;

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The ordered members, this rank among them; one is enough. May wait for the other members.
  GroupHandle AddGroup(std::span<const int> ranks);
  std::span<const int> members(GroupHandle group) const { return groups_.at(group.index()); }

  // `reduction` is ignored where nothing is reduced; so is `give` of a broadcast, and `get` of a reduce, except the first
  // member's.
  Ticket Start(CollectiveKind kind, Reduction reduction, GroupHandle group, const at::Tensor& give,
               at::Tensor get);
  // Tags are not negative. The wait for a Send may last until the peer has posted the Recv.
  Ticket Send(int peer, int tag, const at::Tensor& give);
  Ticket Recv(int peer, int tag, at::Tensor get);

  bool Done(Ticket& ticket);  // makes progress; does not block
  void Wait(Ticket& ticket);  // RunError after the deadline, with what it waited for
  void Barrier();             // all ranks

  // Makes all ranks fail soon, with this cause. Does not throw; with `mpi` it does not return.
  virtual void Abort(const std::string& why);

  const TrafficCount& traffic() const { return traffic_; }

 protected:
  using Clock = std::chrono::steady_clock;

  Transport(int rank, int size, const TransportOptions& options,
            std::shared_ptr<TransportFailure> failure);

  // The implementation. Tensors in a Transfer are contiguous, of matching sizes, and on the host unless
  // `device_tensors_`. Errors are thrown as RunError.
  virtual void OpenGroup(GroupHandle group) = 0;  // of two or more; members(group) is known
  virtual Ticket NewTransfer() const = 0;
  virtual void Begin(const Ticket& ticket) = 0;
  virtual bool Progress(Transfer& transfer) = 0;  // whether it is complete
  // Returns early with false when the transport has failed.
  virtual bool ProgressUntil(Transfer& transfer, Clock::time_point deadline) = 0;
  virtual void WakeOthers() {}  // the failure is set: let ranks that share it see so

  // More about a wait that was too long, such as ", not started by rank 3".
  virtual std::string Missing(const Transfer&) { return ""; }

  // "all-reduce of 12 Float among ranks 0,2".
  std::string Describe(const Transfer& transfer) const;
  // Marks the transport dead and throws the first cause there was.
  [[noreturn]] void Fail(const std::string& cause);
  const TransportFailure& failure() const { return *failure_; }
  double deadline_seconds() const { return options_.deadline_seconds; }
  void Beat() const;                   // in every turn of a loop that waits
  Clock::time_point Deadline() const;  // from now

  // Set by the constructor of an implementation:
  bool device_tensors_ = false;  // it takes them as they are
  bool lone_groups_ =
      false;  // it is given the collectives of groups of one, too; Start waits for them

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
  std::optional<c10::Stream> copies_;  // from a device to the host; made when first needed
  std::deque<Ticket> waiting_;         // to be begun, in this order
};

// What a transfer moves, as both sides must see it: the elements each member gives (the whole of a message).
int64_t TransferLength(const Transfer& transfer);
at::ScalarType TransferType(const Transfer& transfer);

}  // namespace heddle
