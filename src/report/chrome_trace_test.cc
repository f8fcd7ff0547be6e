#include "report/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TraceEvent Event(int64_t device, Stream stream, std::string name, double start, double end) {
  return {device, stream, std::move(name), "forward", start, end};
}

Json Written(const Trace& trace, size_t max_bytes = kMaxTraceBytes) {
  std::ostringstream out;
  WriteChromeTrace(trace, out, max_bytes);
  EXPECT_LE(out.str().size(), max_bytes);
  return ParseJson(out.str(), "trace");
}

TEST(ChromeTraceTest, ReadsAsExpected) {
  Trace trace;
  trace.events = {Event(1, Stream::kCommunication, "all-reduce x mb0", 2e-6, 3.5e-6),
                  Event(0, Stream::kCompute, "F seg0 mb0", 0, 12.5e-6)};
  trace.counters = {{0, "memory", 1e-6, 4096}};
  std::ostringstream out;
  WriteChromeTrace(trace, out);
  EXPECT_EQ(out.str(), R"({"traceEvents":[
{"ph":"M","pid":0,"name":"process_name","args":{"name":"device 0"}},
{"ph":"M","pid":0,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":1,"name":"process_name","args":{"name":"device 1"}},
{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"compute"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"communication"}},
{"ph":"X","pid":0,"tid":1,"name":"F seg0 mb0","cat":"forward","ts":0.000,"dur":12.500},
{"ph":"X","pid":1,"tid":2,"name":"all-reduce x mb0","cat":"forward","ts":2.000,"dur":1.500},
{"ph":"C","pid":0,"name":"memory","ts":1.000,"args":{"memory":4096}}
],"displayTimeUnit":"ms"}
)");
}

TEST(ChromeTraceTest, LanesAreTracksAndDevicesStandForOthers) {
  Trace trace;
  trace.events = {Event(0, Stream::kCommunication, "send x mb0", 0, 2e-6),
                  Event(0, Stream::kCommunication, "send x mb1", 1e-6, 3e-6),
                  Event(0, Stream::kCopy, "load x mb1", 0, 1e-6)};
  trace.alike = {{0, 64}};
  AssignLanes(trace);
  std::ostringstream out;
  WriteChromeTrace(trace, out);
  EXPECT_EQ(out.str(), R"x({"traceEvents":[
{"ph":"M","pid":0,"name":"process_name","args":{"name":"device 0 (x64)"}},
{"ph":"M","pid":0,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":0,"tid":2,"name":"thread_name","args":{"name":"communication"}},
{"ph":"M","pid":0,"tid":2,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":0,"tid":6,"name":"thread_name","args":{"name":"communication 2"}},
{"ph":"M","pid":0,"tid":6,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":0,"tid":3,"name":"thread_name","args":{"name":"copy"}},
{"ph":"M","pid":0,"tid":3,"name":"thread_sort_index","args":{"sort_index":2}},
{"ph":"X","pid":0,"tid":2,"name":"send x mb0","cat":"forward","ts":0.000,"dur":2.000},
{"ph":"X","pid":0,"tid":6,"name":"send x mb1","cat":"forward","ts":1.000,"dur":2.000},
{"ph":"X","pid":0,"tid":3,"name":"load x mb1","cat":"forward","ts":0.000,"dur":1.000}
],"displayTimeUnit":"ms"}
)x");
}

TEST(ChromeTraceTest, AnEmptyTraceIsJson) { EXPECT_TRUE(Written({})["traceEvents"].empty()); }

TEST(ChromeTraceTest, NamesAreEscaped) {
  std::string name = "a\"b\\c\n\x01\xff";
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, name, 0, 1)};
  trace.counters = {{0, name, 0, 1}};
  Json json = Written(trace);
  EXPECT_EQ(json["traceEvents"][3]["name"].get<std::string>(), "a\"b\\c\n\x01\xEF\xBF\xBD");
}

TEST(ChromeTraceTest, OverlapsAreClipped) {
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, "late", 1e-6, 3e-6),
                  Event(0, Stream::kCompute, "early", 0, 2e-6)};
  Json json = Written(trace);
  EXPECT_EQ(json["traceEvents"][4]["name"], "late");
  EXPECT_EQ(json["traceEvents"][4]["ts"].get<double>(), 2);
  EXPECT_EQ(json["traceEvents"][4]["dur"].get<double>(), 1);
}

TEST(ChromeTraceTest, TheShortestAreLeftOutWhereThereIsNoRoom) {
  Trace trace;
  for (int i = 0; i < 1000; ++i) {
    trace.events.push_back(
        Event(0, Stream::kCompute, fmt::format("e{}", i), i, i + 0.001 * (i % 10 + 1) / 10));
    trace.counters.push_back({0, "memory", static_cast<double>(i), static_cast<double>(i)});
  }
  Json json = Written(trace, 20'000);
  ASSERT_TRUE(json.contains("heddle_left_out"));
  int64_t left_out = json["heddle_left_out"]["shortest_events"].get<int64_t>();
  int64_t events = 0, samples = 0;
  double shortest = 1e9;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "X") shortest = std::min(shortest, event["dur"].get<double>());
    events += event["ph"] == "X";
    samples += event["ph"] == "C";
  }
  EXPECT_EQ(events + left_out, 1000);
  EXPECT_GT(events, 100);
  EXPECT_GT(samples, 10);
  EXPECT_GE(shortest, 900);  // microseconds: the longest are 1000
  EXPECT_FALSE(Written(trace).contains("heddle_left_out"));
}

TEST(ChromeTraceTest, FilesAreWholeOrNotThere) {
  std::string folder = testing::TempDir();
  std::string path = folder + "/heddle_trace_test.json";
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, "x", 0, 1)};
  WriteChromeTrace(trace, path);
  EXPECT_EQ(ParseJson(ReadFile(path, 1 << 20), path)["traceEvents"].size(), 4u);
  std::filesystem::remove(path);
  EXPECT_THROW(WriteChromeTrace(trace, folder + "/no/such/folder/t.json"), InputError);
}

}  // namespace
}  // namespace heddle
