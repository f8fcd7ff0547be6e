// random_plan_check.h for a few plans.
#include "random_plan_check.h"

namespace heddle {
namespace {

TEST(RandomPlans, FortyMatchOneDevice) { ExpectRandomPlansMatchOneDevice(0, 40); }

}  // namespace
}  // namespace heddle
