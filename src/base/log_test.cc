#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace heddle {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() : old_(GetLogLevel()) {}
  ~LogTest() override { SetLogLevel(old_); }

  static std::string Messages(LogLevel level) {
    SetLogLevel(level);
    testing::internal::CaptureStderr();
    LogDebug("one {}", 1);
    LogInfo("two {}", 2);
    LogWarn("three\n{}", 3);
    return testing::internal::GetCapturedStderr();
  }

 private:
  LogLevel old_;
};

TEST_F(LogTest, LevelsSelect) {
  EXPECT_EQ(Messages(LogLevel::kQuiet), "");
  EXPECT_EQ(Messages(LogLevel::kInfo), "heddle: two 2\nheddle: warning: three 3\n");
  EXPECT_EQ(Messages(LogLevel::kDebug),
            "heddle: debug: one 1\nheddle: two 2\nheddle: warning: three 3\n");
}

TEST_F(LogTest, StatusLineStaysBelow) {
  SetLogLevel(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  internal::SetStatusLine("50 %", false);
  LogInfo("hello");
  internal::SetStatusLine("", false);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "50 %\r    \rheddle: hello\n50 %\r    \r");
}

TEST_F(LogTest, LinesOfThreadsAreWhole) {
  SetLogLevel(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) LogInfo("same line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < 400; ++i) expected += "heddle: same line\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
}

}  // namespace
}  // namespace heddle
