// Event files that TensorBoard reads, written without its libraries.
//
// A file is a sequence of TFRecords, little-endian:
//
//   u64 length | u32 masked CRC-32C of the length | the bytes | u32 masked CRC-32C of the bytes
//
// Each holds one protobuf message. These are the fields that we write:
//
//   Event    1 double wall_time    2 int64 step    3 string file_version    5 Summary summary
//   Summary  1 repeated Value      Value   1 string tag    2 float simple_value
//
// The first event has the file_version "brain.Event:2".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace heddle {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

std::string EncodeVersionEvent(double wall_time);
std::string EncodeScalarsEvent(double wall_time, int64_t step, std::span<const Scalar> scalars);
std::string FrameTfRecord(std::string_view bytes);

class TensorBoardWriter {
 public:
  // Makes the folder where it does not exist, and a new file events.out.tfevents.<time>.<host> in it. Throws InputError
  // where that fails.
  explicit TensorBoardWriter(const std::string& folder);

  // Writes one event with all scalars; it is in the file when this returns. Throws RunError when writing fails.
  void Write(int64_t step, std::span<const Scalar> scalars);

  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace heddle
