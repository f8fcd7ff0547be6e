// An id of one of several kinds (strong_id.h), or none.
//
//   AnyId<SegmentId, LocalId> target = SegmentId{3};
//   IdIn<SegmentId>(target) == SegmentId{3}        IdIn<LocalId>(target) fails a HEDDLE_CHECK
#pragma once

#include <variant>

#include "base/check.h"

namespace heddle {

template <class... Ids>
using AnyId = std::variant<std::monostate, Ids...>;

// The number of the id among ids of its kind; -1 where there is no id.
template <class... Ids>
int NumberOf(const AnyId<Ids...>& target) {
  int number = -1;
  ((std::holds_alternative<Ids>(target) ? void(number = std::get_if<Ids>(&target)->value) : void()),
   ...);
  return number;
}
template <class Id, class... Ids>
Id IdIn(const AnyId<Ids...>& target) {
  const Id* id = std::get_if<Id>(&target);
  HEDDLE_CHECK(id != nullptr, "id {} is of kind {}", NumberOf(target), target.index());
  return *id;
}

}  // namespace heddle
