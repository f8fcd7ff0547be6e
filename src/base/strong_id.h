// An index with a type of its own, so that the id of a node cannot be used as the id of a device.
//
//   struct NodeTag { static constexpr std::string_view kPrefix = "n"; };   // the prefix is optional
//   using NodeId = StrongId<NodeTag>;
//   NodeId id{3};
//   fmt::format("{}", id) == "n3"
//   nodes[id.index()]
//   NodeId::FromIndex(nodes.size())
//   NodeId{}.valid() == false
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>

#include "base/check.h"

namespace heddle {

template <class Tag>
struct StrongId {
  std::int32_t value = -1;

  static constexpr StrongId FromIndex(std::size_t index) {
    HEDDLE_CHECK(index <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
                 "index {}", index);
    return StrongId{static_cast<std::int32_t>(index)};
  }

  constexpr bool valid() const { return value >= 0; }

  // The index for containers. The id must be valid.
  constexpr std::size_t index() const {
    HEDDLE_CHECK(value >= 0, "id {}", value);
    return static_cast<std::size_t>(value);
  }

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) {
    return out << fmt::format("{}", id);
  }
};

}  // namespace heddle

template <class Tag>
struct std::hash<heddle::StrongId<Tag>> {
  std::size_t operator()(const heddle::StrongId<Tag>& id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};

template <class Tag>
struct fmt::formatter<heddle::StrongId<Tag>> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const heddle::StrongId<Tag>& id, Context& context) const {
    if constexpr (requires { Tag::kPrefix; }) {
      return fmt::format_to(context.out(), "{}{}", Tag::kPrefix, id.value);
    } else {
      return fmt::format_to(context.out(), "{}", id.value);
    }
  }
};
