#include "program/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "program/testing.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TraceEvent Event(int64_t device, Stream stream, double start, double end) {
  return {device, stream, "e", "forward", start, end};
}

TEST(TraceTest, TracksMayTouchAndStreamsMayOverlap) {
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, 1, 2), Event(0, Stream::kCompute, 0, 1),
                  Event(0, Stream::kCommunication, 0.5, 3), Event(1, Stream::kCompute, 0.5, 3)};
  trace.counters = {{0, "memory", 0, 1024}};
  EXPECT_THAT(Verify(trace), IsEmpty());
}

TEST(TraceTest, FindsWhatIsWrong) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, 0, kNever), Event(0, Stream::kCompute, 3, 2),
                  Event(1, Stream::kCompute, 0, 5),      Event(1, Stream::kCompute, 1, 2),
                  Event(1, Stream::kCompute, 4, 6),      Event(1, Stream::kCopy, -1, 6)};
  trace.counters = {{2, "memory", 0, kNever}};
  EXPECT_THAT(Verify(trace),
              ElementsAre("device 0, compute, 'e': from 0 s to inf s is not a valid time",
                          "device 0, compute, 'e': ends at 2 s, before its start at 3 s",
                          "device 1, copy, 'e': from -1 s to 6 s is not a valid time",
                          "device 2, counter 'memory': inf at 0 s is not a valid sample",
                          "device 1, compute, 'e': starts at 1 s, while 'e' lasts to 5 s",
                          "device 1, compute, 'e': starts at 4 s, while 'e' lasts to 5 s"));
}

TEST(TraceTest, ClippingLeavesNoOverlap) {
  Trace trace;
  trace.events = {Event(0, Stream::kCompute, 4, 6), Event(0, Stream::kCompute, 0, 5),
                  Event(0, Stream::kCompute, 1, 2)};
  ClipOverlaps(trace);
  EXPECT_THAT(Verify(trace), IsEmpty());
  EXPECT_THAT(trace.events,
              ElementsAre(Event(0, Stream::kCompute, 0, 5), Event(0, Stream::kCompute, 5, 5),
                          Event(0, Stream::kCompute, 5, 6)));
}

TEST(TraceTest, LanesTakeWhatOverlaps) {
  Trace trace;
  trace.events = {Event(0, Stream::kCommunication, 0, 4), Event(0, Stream::kCommunication, 1, 3),
                  Event(0, Stream::kCommunication, 3, 5), Event(0, Stream::kCommunication, 2, 6),
                  Event(0, Stream::kCommunication, 4, 5), Event(0, Stream::kCommunication, 4, 4),
                  Event(0, Stream::kCompute, 2, 6),       Event(1, Stream::kCommunication, 2, 6)};
  EXPECT_THAT(Verify(trace), Not(IsEmpty()));
  AssignLanes(trace);
  EXPECT_THAT(Verify(trace), IsEmpty());
  std::vector<int> lanes;
  for (const TraceEvent& event : trace.events) lanes.push_back(event.lane);
  EXPECT_THAT(lanes, ElementsAre(0, 1, 1, 2, 0, 0, 0, 0));
  ClipOverlaps(trace);  // nothing is cut: only the order changes
  double length = 0;
  for (const TraceEvent& event : trace.events) length += event.end - event.start;
  EXPECT_EQ(length, 21);
  trace.events = {Event(0, Stream::kCommunication, 0, 4), Event(0, Stream::kCommunication, 1, 3)};
  trace.events[0].lane = trace.events[1].lane = 1;
  EXPECT_THAT(Verify(trace), ElementsAre("device 0, communication 2, 'e': starts at 1 s, while 'e' "
                                         "lasts to 4 s"));
}

TEST(TraceTest, EveryInstructionHasACategory) {
  Program program = SmallProgram({.stages = 2, .microbatches = 2});
  std::map<std::string, int> counts;
  for (const DeviceProgram& run : program.runs) {
    for (const Instruction& instruction : run.instructions) {
      ++counts[Category(program, instruction)];
    }
  }
  for (const char* category :
       {"forward", "backward", "collective", "transfer", "local", "optimizer"}) {
    EXPECT_GT(counts[category], 0) << category;
  }
}

}  // namespace
}  // namespace heddle
