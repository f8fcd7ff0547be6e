// What random_plan_check.h says, for a few plans.
#include "random_plan_check.h"

namespace heddle {
namespace {

TEST(RandomPlans, EightyMatchOneDevice) { ExpectRandomPlansMatchOneDevice(0, 80); }

}  // namespace
}  // namespace heddle
