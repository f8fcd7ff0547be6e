#include "base/progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heddle {
namespace {

class ProgressTest : public testing::Test {
 protected:
  ProgressTerminal Terminal(bool visible = true) {
    ProgressTerminal terminal;
    terminal.visible = visible;
    terminal.now = [this] { return now_; };
    terminal.draw = [this](std::string_view line, bool) { lines_.emplace_back(line); };
    return terminal;
  }

  double now_ = 100;
  std::vector<std::string> lines_;
};

TEST_F(ProgressTest, ShowsAfterTwoSecondsAndGoesAway) {
  {
    Progress progress("searching", 10, Terminal());
    now_ += 1.9;
    progress.Update(1);
    EXPECT_TRUE(lines_.empty());
    now_ += 0.2;
    progress.Update(2);
    progress.Update(3);  // less than a tenth of a second after the last drawing
    now_ += 0.2;
    progress.Update(5, "best 1 s");
  }
  EXPECT_EQ(lines_, (std::vector<std::string>{"searching 20 % (2/10)",
                                              "searching 50 % (5/10), best 1 s", ""}));
}

TEST_F(ProgressTest, QuickWorkShowsNothing) {
  {
    Progress progress("searching", 10, Terminal());
    progress.Update(10);
  }
  EXPECT_TRUE(lines_.empty());
}

TEST_F(ProgressTest, SilentWithoutATerminal) {
  {
    Progress progress("searching", 10, Terminal(false));
    now_ += 10;
    progress.Update(1);
  }
  EXPECT_TRUE(lines_.empty());
}

TEST_F(ProgressTest, UnknownTotalAndNarrowTerminal) {
  ProgressTerminal terminal = Terminal();
  terminal.columns = 13;
  Progress progress("simulating", 0, terminal);
  now_ += 3;
  progress.Update(7, "a long note");
  EXPECT_EQ(lines_, std::vector<std::string>{"simulating 7"});
}

TEST_F(ProgressTest, StandardErrorOfATestIsNoTerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("x");
    progress.Update(1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace heddle
