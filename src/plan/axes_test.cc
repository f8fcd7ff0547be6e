#include "plan/axes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/expert.h"
#include "plan/expert_strategies.h"

namespace heddle {
namespace {

std::string Names(std::span<const ParallelAxis* const> axes) {
  std::string text;
  for (const ParallelAxis* axis : axes) text += std::string(axis->name) + " ";
  return text;
}

std::string MeshText(const Degrees& degrees) {
  std::string text;
  for (const MeshAxis& axis : ExpertMesh(degrees).axes) text += ToString(axis) + ", ";
  return text;
}

TEST(Axes, NamesAndPlacesAreDistinct) {
  std::set<std::string_view> names;
  std::set<int> places;
  for (const ParallelAxis& axis : AllAxes()) {
    EXPECT_TRUE(names.insert(axis.name).second) << axis.name;
    EXPECT_TRUE(places.insert(axis.nesting).second) << axis.name;
  }
  for (const AxisModifier& modifier : AllAxisModifiers()) {
    EXPECT_TRUE(names.insert(modifier.name).second) << modifier.name;
  }
}

TEST(Axes, OfTheDevicesAndOfTheExpertsMesh) {
  EXPECT_EQ(Names(DeviceFactors()), "dp cp tp pp ");
  EXPECT_EQ(Names(ExpertMeshAxes()), "dp ep shard cp tp ");
}

TEST(Axes, AreFoundByTheirNamesInMeshes) {
  ASSERT_NE(FindAxis("xp"), nullptr);
  EXPECT_EQ(FindAxis("xp")->degree, &Degrees::tp);
  EXPECT_EQ(FindAxis("pp"), nullptr);  // stages are no axis of a mesh
  EXPECT_EQ(FindAxis("dup"), nullptr);
  Mesh mesh{0, {{"dup", 2}, {"cp", 2}, {"tp", 4}}};
  EXPECT_EQ(AxisWithRole(mesh, AxisRole::kContext), 1);
  EXPECT_EQ(AxisWithRole(mesh, AxisRole::kExpert), -1);
}

TEST(Axes, MeshesOfTheExpert) {
  EXPECT_EQ(MeshText({}), "");
  EXPECT_EQ(MeshText({.dp = 4, .tp = 2, .pp = 8}), "dp 4, tp 2, ");
  EXPECT_EQ(MeshText({.dp = 4, .ep = 4}), "dp 4, ");
  EXPECT_EQ(MeshText({.dp = 8, .tp = 2, .cp = 2, .ep = 4}), "dp 2, ep 4, cp 2, tp 2, ");
  EXPECT_EQ(MeshText({.dp = 8, .zero = 3, .zero_ranks = 2}), "dp 4, shard 2, ");
  EXPECT_EQ(MeshText({.dp = 2, .shares = {3, 1}}), "dp 2 (3:1), ");
}

}  // namespace
}  // namespace heddle
