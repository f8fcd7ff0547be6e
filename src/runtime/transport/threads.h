// The transport `threads`: ranks are threads of one process. For tests, and for runs without a launcher.
//
// Ranks meet in host/transport/rendezvous.h, which describes how the work of a transfer is shared. When members
// disagree on kind, dtype or size, the rank that notices fails all ranks with an error that names both sides. A wait
// past its deadline also fails all ranks. Waiting sleeps on a condition variable.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/transport/transport.h"

namespace heddle {

// Transport r is rank r. Each may be destroyed at any time.
std::vector<std::unique_ptr<Transport>> MakeThreadTransports(int ranks,
                                                             const TransportOptions& options = {});

// Runs body(transport) for every rank on a separate thread and returns when all have ended. When one throws, the others
// are aborted and the first error is rethrown.
void RunRanks(int ranks, const std::function<void(Transport&)>& body,
              const TransportOptions& options = {});

}  // namespace heddle
