// Every complete run, up to 3072 devices and 1.6 million instructions, lowers to a sound program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/lower.h"
#include "program/verify.h"
#include "validate/configure.h"

namespace heddle {
namespace {

TEST(ConfigureSlowTest, EveryCompleteRunLowersToASoundProgram) {
  for (const PublishedRun& run : BundledRuns()) {
    if (!IsComplete(run)) continue;
    SCOPED_TRACE(run.id);
    RunSetup setup = Configure(run);
    ASSERT_EQ(setup.reason, "");
    Program program = Lower(setup.model, setup.plan);
    EXPECT_THAT(Verify(program), testing::IsEmpty());
    EXPECT_EQ(program.device_count(), run.hardware.gpus);
    EXPECT_EQ(program.microbatches, setup.plan.microbatches);
  }
}

}  // namespace
}  // namespace heddle
