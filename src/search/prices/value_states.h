// The states of a value's copy, and the tables between it and those who give or read the value.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "search/prices/costs.h"
#include "search/solver/problem.h"

namespace heddle {

// An operand by its node's choice: as it is wanted, and its gradient as it is given (-1: none).
struct ReaderStates {
  std::vector<ShardingId> wanted, gradients;
};

// Per state of a copy or a stored parameter: its sharding, and the axes along which its gradient may be a partial sum.
struct ValueStates {
  std::vector<ShardingId> given;
  std::vector<AxisMask> sums;
};

// What somebody gives or wants, the latter complete.
ValueStates CopyStates(StageCosts& costs, const std::vector<ShardingId>& given,
                       const std::vector<ReaderStates>& readers);
// What the first reader wants, complete.
ValueStates StorageStates(StageCosts& costs, const ReaderStates& first,
                          const std::vector<ReaderStates>& readers);

// Of a value's elements: how often a micro-batch moves them, forward and back, and whether computation can only wait.
struct Scale {
  int64_t element_bytes = 4;
  double forward = 1, backward = 1;
  bool waited = false;
  bool regathered = false;  // what was gathered is gathered again for backward
  bool recomputed = false;  // all of forward is done again
};

struct Tables {
  TableRef seconds, queued;
};

// Makes tables; those made before of the same numbers are the same objects.
class TableMaker {
 public:
  // [giver][reader]: to the one reader, and the gradient back.
  Tables Direct(StageCosts& costs, const std::vector<ShardingId>& given, const ReaderStates& reader,
                Scale scale);
  // [giver][copy]: to the copy, and (where `back`) the sum of the gradients back.
  Tables ToCopy(StageCosts& costs, const std::vector<ShardingId>& given, const ValueStates& copy,
                Scale scale, bool back);
  // [copy][reader]: on to the reader, and its gradient to the copy. `first`: a parameter is stored as this one wants it.
  Tables FromCopy(StageCosts& costs, const ValueStates& copy, const ReaderStates& reader,
                  Scale scale, bool first);

 private:
  Tables& Find(int kind, const std::vector<ShardingId>& given, const std::vector<AxisMask>& sums,
               const ReaderStates& reader, Scale scale);

  std::map<std::vector<int64_t>, Tables> made_;
};

}  // namespace heddle
