#include "host/metrics/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "host/metrics/crc32c.h"

namespace heddle {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored little-endian");

template <class T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// A field of a message is a key (its number and wire type), then the value.
enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
std::string Key(uint64_t field, WireType type) { return Varint(field << 3 | type); }
std::string DoubleField(uint64_t field, double value) { return Key(field, kFixed64) + Raw(value); }
std::string FloatField(uint64_t field, float value) { return Key(field, kFixed32) + Raw(value); }
std::string IntField(uint64_t field, int64_t value) {
  return Key(field, kVarint) + Varint(static_cast<uint64_t>(value));
}
std::string BytesField(uint64_t field, std::string_view bytes) {
  return Key(field, kBytes) + Varint(bytes.size()) + std::string(bytes);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = name.data();
  for (char& c : host) {
    if (c == '/') c = '_';
  }
  return host;
}

// Opens a file that did not exist: two runs may begin in the same second, then names get a number.
AppendFile OpenNew(const std::string& folder) {
  if (folder.empty()) ThrowInput("the name of a folder for TensorBoard is empty; give a path");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    ThrowInput("{}: cannot be made a folder for TensorBoard: {}", folder, error.message());
  }
  auto seconds = static_cast<int64_t>(Now());
  std::string base = fmt::format("{}/events.out.tfevents.{}.{}", folder, seconds, HostName());
  for (int number = 0; number < 10'000; ++number) {
    AppendFile file(number == 0 ? base : fmt::format("{}.{}", base, number),
                    AppendFile::Existing::kRefuse);
    if (file.is_open()) return file;
  }
  ThrowInput("{}: is there already, and 9999 more; choose another folder", base);
}

}  // namespace

std::string EncodeVersionEvent(double wall_time) {
  return DoubleField(1, wall_time) + BytesField(3, "brain.Event:2");
}

std::string EncodeScalarsEvent(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    summary +=
        BytesField(1, BytesField(1, scalar.tag) + FloatField(2, static_cast<float>(scalar.value)));
  }
  return DoubleField(1, wall_time) + IntField(2, step) + BytesField(5, summary);
}

std::string FrameTfRecord(std::string_view bytes) {
  std::string length = Raw<uint64_t>(bytes.size());
  return length + Raw(MaskedCrc32c(length)) + std::string(bytes) + Raw(MaskedCrc32c(bytes));
}

TensorBoardWriter::TensorBoardWriter(const std::string& folder) : file_(OpenNew(folder)) {
  file_.Write(FrameTfRecord(EncodeVersionEvent(Now())));
}

void TensorBoardWriter::Write(int64_t step, std::span<const Scalar> scalars) {
  file_.Write(FrameTfRecord(EncodeScalarsEvent(Now(), step, scalars)));
}

}  // namespace heddle
