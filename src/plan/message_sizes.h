// The sizes of all messages that bring a value from one mesh to another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/exchange.h"

namespace heddle {

struct MessageSize {
  int64_t from = 0, to = 0;  // counted from 0 within their mesh
  int64_t elements = 0;      // at least 1
  bool operator==(const MessageSize&) const = default;
};

// The messages of MessagesFrom (exchange.h) for every sender in turn, those with nothing in them left out. A dimension
// is looked at by itself, each part of it once: O(messages log messages + the square of the parts of a dimension).
// `poll` is called for every device and may throw, to end what takes long for very many devices.
std::vector<MessageSize> MessageSizes(const MeshTransfer& transfer,
                                      const std::function<void()>& poll = nullptr);

}  // namespace heddle
