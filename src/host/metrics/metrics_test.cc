// The event files are read back by a small reader that shares nothing with the writer: its checksum goes bit by
// bit, and it walks the protobuf by tag.
#include "host/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "host/metrics/crc32c.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Polynomial division, most significant bit first, with bits reflected in and out.
uint32_t SlowCrc32c(std::string_view bytes) {
  auto reflect = [](uint32_t value, int bits) {
    uint32_t out = 0;
    for (int i = 0; i < bits; ++i) out |= (value >> i & 1) << (bits - 1 - i);
    return out;
  };
  uint32_t crc = 0xFFFFFFFF;
  for (char c : bytes) {
    crc ^= reflect(static_cast<unsigned char>(c), 8) << 24;
    for (int i = 0; i < 8; ++i) crc = crc & 0x80000000 ? crc << 1 ^ 0x1EDC6F41 : crc << 1;
  }
  return ~reflect(crc, 32);
}

TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);    // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);  // likewise
  EXPECT_EQ(Crc32c("a"), 0xC1D04330u);
  EXPECT_EQ(MaskedCrc32c("123456789"), (0xE3069283u >> 15 | 0xE3069283u << 17) + 0xA282EAD8u);
  std::string all;
  for (int i = 0; i < 1000; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(Crc32c(all), SlowCrc32c(all));
}

template <class T>
T Take(std::string_view& bytes) {
  T value{};
  EXPECT_GE(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), std::min(sizeof(T), bytes.size()));
  bytes.remove_prefix(std::min(sizeof(T), bytes.size()));
  return value;
}

uint64_t TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    auto byte = Take<uint8_t>(bytes);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::string_view TakeBytes(std::string_view& bytes) {
  uint64_t size = TakeVarint(bytes);
  EXPECT_LE(size, bytes.size());
  std::string_view out = bytes.substr(0, size);
  bytes.remove_prefix(out.size());
  return out;
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

void ReadValue(std::string_view bytes, Event& event) {
  std::string tag;
  float value = std::nanf("");
  while (!bytes.empty()) {
    switch (TakeVarint(bytes)) {
      case 1 << 3 | 2:
        tag = TakeBytes(bytes);
        break;
      case 2 << 3 | 5:
        value = Take<float>(bytes);
        break;
      default:
        FAIL() << "unknown field of a value";
    }
  }
  EXPECT_TRUE(event.scalars.emplace(tag, value).second) << tag;
}

Event ReadEvent(std::string_view bytes) {
  Event event;
  while (!bytes.empty()) {
    uint64_t key = TakeVarint(bytes);
    if (key == (1 << 3 | 1)) {
      event.wall_time = Take<double>(bytes);
    } else if (key == 2 << 3) {
      event.step = static_cast<int64_t>(TakeVarint(bytes));
    } else if (key == (3 << 3 | 2)) {
      event.version = TakeBytes(bytes);
    } else if (key == (5 << 3 | 2)) {
      std::string_view summary = TakeBytes(bytes);
      while (!summary.empty()) {
        EXPECT_EQ(TakeVarint(summary), uint64_t{1 << 3 | 2});
        ReadValue(TakeBytes(summary), event);
      }
    } else {
      ADD_FAILURE() << "unknown field " << key;
      break;
    }
  }
  return event;
}

std::vector<Event> ReadEvents(const std::string& path) {
  std::string contents = ReadFile(path, 1 << 20);
  std::string_view bytes = contents;
  auto mask = [](uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; };
  std::vector<Event> events;
  while (!bytes.empty()) {
    std::string_view start = bytes;
    auto length = Take<uint64_t>(bytes);
    EXPECT_EQ(Take<uint32_t>(bytes), mask(SlowCrc32c(start.substr(0, 8))));
    std::string_view record = bytes.substr(0, length);
    EXPECT_EQ(record.size(), length);
    bytes.remove_prefix(record.size());
    EXPECT_EQ(Take<uint32_t>(bytes), mask(SlowCrc32c(record)));
    events.push_back(ReadEvent(record));
  }
  return events;
}

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    std::string pattern = (fs::temp_directory_path() / "heddle_metrics_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~MetricsTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::vector<std::string> FilesIn(const std::string& folder) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
    return files;
  }

  std::string folder_;
};

StepMetrics Sample(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 4.25;
  metrics.lr = 0.001;
  metrics.step_seconds = 0.5;
  metrics.grad_norm = 1.5;
  metrics.tokens_per_second = 256;
  metrics.tflops = 0.125;
  metrics.mfu = 0.4;
  metrics.memory_bytes = (int64_t{1} << 53) + 1;
  return metrics;
}

TEST_F(MetricsTest, JsonLines) {
  EXPECT_EQ(
      ToJsonLine(Sample(3)),
      R"({"step":3,"loss":4.25,"lr":0.001,"grad_norm":1.5,"step_seconds":0.5,)"
      R"("tokens_per_second":256.0,"tflops":0.125,"mfu":0.4,"memory_bytes":9007199254740993})");
  StepMetrics little;
  little.loss = std::nan("");
  EXPECT_EQ(ToJsonLine(little), R"({"step":0,"loss":null,"lr":0.0,"step_seconds":0.0})");
}

TEST_F(MetricsTest, LinesAreThereAtOnceAndAppended) {
  {
    MetricsWriter writer({.jsonl = Path("m.jsonl")});
    writer.Write(Sample(0));
    EXPECT_EQ(ReadFile(Path("m.jsonl"), 1000), ToJsonLine(Sample(0)) + "\n");
    writer.Write(Sample(1));
  }
  MetricsWriter({.jsonl = Path("m.jsonl")}).Write(Sample(2));
  std::string text = ReadFile(Path("m.jsonl"), 1000);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("\n{\"step\":2,"));
}

TEST_F(MetricsTest, TensorBoardReadsBack) {
  MetricsWriter writer({.tensorboard = Path("runs/one")});
  writer.Write(Sample(0));
  writer.Write(Sample(1'000'000));
  std::vector<std::string> files = FilesIn(Path("runs/one"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0], testing::ContainsRegex("/events\\.out\\.tfevents\\.[0-9]{10}\\..+$"));
  std::vector<Event> events = ReadEvents(files[0]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[2].step, 1'000'000);
  auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(events[2].wall_time, std::chrono::duration<double>(now).count(), 60);
  EXPECT_EQ(events[1].scalars.size(), 8u);
  EXPECT_EQ(events[1].scalars["train/loss"], 4.25f);
  EXPECT_EQ(events[1].scalars["train/grad_norm"], 1.5f);
  EXPECT_EQ(events[1].scalars["speed/mfu"], 0.4f);
}

TEST_F(MetricsTest, HeldOutLossesHaveLinesOfTheirOwn) {
  MetricsWriter writer({.jsonl = Path("m.jsonl"), .tensorboard = Path("runs")});
  writer.WriteEvaluation(4, 5.25);
  writer.WriteEvaluation(8, std::nan(""));
  EXPECT_EQ(ReadFile(Path("m.jsonl"), 1000),
            "{\"step\":4,\"eval_loss\":5.25}\n{\"step\":8,\"eval_loss\":null}\n");
  Event event = ReadEvents(FilesIn(Path("runs"))[0]).at(1);
  EXPECT_EQ(event.step, 4);
  EXPECT_EQ(event.scalars, (std::map<std::string, float>{{"eval/loss", 5.25f}}));
}

TEST_F(MetricsTest, UnknownNumbersAreLeftOut) {
  MetricsWriter writer({.tensorboard = Path("runs")});
  writer.Write({.step = 1, .loss = 2});
  Event event = ReadEvents(FilesIn(Path("runs"))[0]).at(1);
  EXPECT_EQ(event.scalars.size(), 3u);
  EXPECT_EQ(event.scalars.count("train/grad_norm"), 0u);
}

TEST_F(MetricsTest, TwoRunsInOneSecondHaveTheirOwnFiles) {
  TensorBoardWriter first(Path("runs")), second(Path("runs"));
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(FilesIn(Path("runs")).size(), 2u);
}

// The bytes of an event, worked out by hand.
TEST(TensorBoard, Bytes) {
  Scalar loss{"a", 1.0};
  EXPECT_EQ(EncodeScalarsEvent(0, 300, {&loss, 1}),
            std::string("\x09\0\0\0\0\0\0\0\0\x10\xac\x02\x2a\x0a\x0a\x08\x0a\x01"
                        "a\x15\0\0\x80\x3f",
                        24));
  std::string_view version(
      "\x09\0\0\0\0\0\0\0\0\x1a\x0d"
      "brain.Event:2",
      24);
  EXPECT_EQ(EncodeVersionEvent(0), version);
}

TEST_F(MetricsTest, PathsThatCannotBeWritten) {
  auto error = [](const MetricsOptions& options) -> std::string {
    try {
      MetricsWriter writer(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(no error)";
  };
  WriteFileAtomically(Path("file"), "");
  EXPECT_EQ(error({}), "(no error)");
  EXPECT_THAT(error({.jsonl = folder_}), HasSubstr("is a directory"));
  EXPECT_THAT(error({.jsonl = Path("none/m.jsonl")}), HasSubstr("no such folder"));
  EXPECT_THAT(error({.tensorboard = Path("file")}), HasSubstr(Path("file")));
  EXPECT_THAT(error({.tensorboard = Path("file/runs")}),
              HasSubstr("file/runs: cannot be made a folder"));
  EXPECT_THAT(error({.tensorboard = "/proc/none"}), HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace heddle
