// Values of a stage in one sharding, and where each comes from.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "base/check.h"
#include "plan/expand.h"
#include "program/ids.h"

namespace heddle {

// Where a Local comes from.
struct FromConstant {  // there from the start
  bool operator==(const FromConstant&) const = default;
};
struct FromParameter {
  ParameterGroupId group;
  size_t slot = 0;
  bool operator==(const FromParameter&) const = default;
};
struct FromLoad {  // a part of an input
  bool operator==(const FromLoad&) const = default;
};
struct FromSegment {  // an output of it
  SegmentId segment;
  bool operator==(const FromSegment&) const = default;
};
struct FromReshard {  // one step applied to a Local
  LocalId local;
  ReshardStepId step;
  bool operator==(const FromReshard&) const = default;
};
struct FromTransfer {
  TransferId transfer;
  bool operator==(const FromTransfer&) const = default;
};
struct FromSum {
  std::vector<LocalId> terms;
  bool operator==(const FromSum&) const = default;
};
struct FromMicrobatchSum {  // of a Local over the micro-batches
  LocalId local;
  bool operator==(const FromMicrobatchSum&) const = default;
};
struct FromInputGradient {  // a gradient that a segment gives
  SegmentId segment;
  bool operator==(const FromInputGradient&) const = default;
};
struct FromAccumulation {  // gradients of a once value, added up by the segments that read it
  SegmentId first;
  bool operator==(const FromAccumulation&) const = default;
};
struct FromSeed {  // the gradient of the loss: 1
  bool operator==(const FromSeed&) const = default;
};
using Source =
    std::variant<FromConstant, FromParameter, FromLoad, FromSegment, FromReshard, FromTransfer,
                 FromSum, FromMicrobatchSum, FromInputGradient, FromAccumulation, FromSeed>;

// A value, or its gradient, in one sharding on a stage.
struct Local {
  ValueId value;
  Sharding sharding;
  DType dtype = DType::kF32;
  bool gradient = false;
  bool once = false;  // does not depend on the micro-batch
  Source source;
  bool operator==(const Local&) const = default;

  template <class From>
  bool Is() const {
    return std::holds_alternative<From>(source);
  }
  // Its source, which must be of that kind.
  template <class From>
  const From& As() const {
    const From* from = std::get_if<From>(&source);
    HEDDLE_CHECK(from != nullptr, "Local of value {}: source {}", value, source.index());
    return *from;
  }
};

using Locals = IdVector<LocalId, Local>;

}  // namespace heddle
