// The transport `threads`: ranks are threads of one process. For tests, and for runs without a launcher.
//
// Nothing is buffered: when the last member has started a transfer, the members who wait for it share its work in
// pieces, reading from and writing to each other's tensors. One waiting member suffices, so that a member that is
// busy elsewhere holds up nobody. Reductions go in the order of members. Whoever finds that members disagree on
// kind, dtype or size fails all ranks, with both sides named; so does a wait past its deadline.
// Waiting sleeps on a condition variable.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace heddle {

// Transport r is rank r. They share what they need; each may be destroyed at any time.
std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks,
                                                             const TransportOptions& options = {});

// Runs body(transport) for every rank, each on a thread of its own, and returns when all have ended. When one
// throws, the others are aborted and the first error, no other, is rethrown.
void RunRanks(int ranks, const std::function<void(Transport&)>& body,
              const TransportOptions& options = {});

}  // namespace heddle
