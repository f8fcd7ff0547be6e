// Any bytes either are refused with an InputError or give tensors that tile the data exactly.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "graph/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle;
  SafetensorsHeader header;
  try {
    header = ParseSafetensors(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const InputError&) {
    return 0;
  }
  int64_t covered = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const SafetensorsEntry& entry = header.tensors[i];
    HEDDLE_CHECK(i == 0 || header.tensors[i - 1].name < entry.name);
    HEDDLE_CHECK(entry.begin >= 0 && entry.begin <= entry.end);
    HEDDLE_CHECK_EQ(entry.end - entry.begin, ByteCount(entry.type));
    covered += entry.end - entry.begin;
  }
  HEDDLE_CHECK_EQ(header.data_begin + covered, static_cast<int64_t>(size));
  return 0;
}
