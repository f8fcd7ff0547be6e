// random_plan_check.h for many plans.
#include "random_plan_check.h"

namespace heddle {
namespace {

TEST(RandomPlansSlow, FourHundredMatchOneDevice) { ExpectRandomPlansMatchOneDevice(0, 400); }

}  // namespace
}  // namespace heddle
