// The states of a value's copy, and the tables between it and the value's producer and readers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "search/prices/costs.h"
#include "search/solver/problem.h"

namespace heddle {

// For an operand, per choice of its node: the sharding that it wants, and that of the gradient it
// returns (-1: none).
struct ReaderStates {
  std::vector<ShardingId> wanted, gradients;
};

// Per state of a copy or a stored parameter: its sharding, and the axes along which its gradient
// may be a partial sum.
struct ValueStates {
  std::vector<ShardingId> given;
  std::vector<AxisMask> sums;
};

// States of a copy: shardings that the producer gives or a reader wants, the latter completed.
ValueStates CopyStates(StageCosts& costs, const std::vector<ShardingId>& given,
                       const std::vector<ReaderStates>& readers);
// States of a storage: shardings that the first reader wants, completed.
ValueStates StorageStates(StageCosts& costs, const ReaderStates& first,
                          const std::vector<ReaderStates>& readers);

// How the traffic of a value counts: how often a micro-batch moves it forward and back, and whether
// computation must wait.
struct Scale {
  int64_t element_bytes = 4;
  double forward = 1, backward = 1;
  bool waited = false;
  bool regathered = false;  // an all-gather in forward is repeated for backward
  bool recomputed = false;  // the whole forward is repeated
};

struct Tables {
  TableRef seconds, queued;
};

// Makes tables. Tables with equal inputs are the same objects.
class TableMaker {
 public:
  // [producer][reader]: from the producer to the only reader, and the gradient back.
  Tables Direct(StageCosts& costs, const std::vector<ShardingId>& given, const ReaderStates& reader,
                Scale scale);
  // [producer][copy]: from the producer to the copy and, if `back`, the sum of the gradients back.
  Tables ToCopy(StageCosts& costs, const std::vector<ShardingId>& given, const ValueStates& copy,
                Scale scale, bool back);
  // [copy][reader]: from the copy to the reader, and its gradient to the copy. `first`: a parameter
  // is stored as this reader wants it.
  Tables FromCopy(StageCosts& costs, const ValueStates& copy, const ReaderStates& reader,
                  Scale scale, bool first);

 private:
  Tables& Find(int kind, const std::vector<ShardingId>& given, const std::vector<AxisMask>& sums,
               const ReaderStates& reader, Scale scale);

  std::map<std::vector<int64_t>, Tables> made_;
};

}  // namespace heddle
