// On clusters of unlike devices: each kind of machine's part of the model and of the batch, and how busy it is.
#pragma once

#include <string>

#include "base/json.h"
#include "search/searcher.h"

namespace heddle {

struct GroupRow {
  std::string name;  // of the machines
  std::string device;
  int64_t devices = 0, used = 0;
  std::string work;                        // "blocks 0..12: 24 of 120 samples"
  double busy = 0, waiting = 0, idle = 0;  // fractions of the step, mean over the devices
  double memory = 0;  // the largest fraction of its memory that a device reserves
};

std::vector<GroupRow> GroupRows(const JudgedPlan& judged);

// Empty if all devices are alike.
std::string GroupTable(const SearchResult& result);
Json GroupsJson(const SearchResult& result);

}  // namespace heddle
