#include "program/arrival.h"

#include <gtest/gtest.h>

#include "cluster/load.h"

namespace heddle {
namespace {

const Mesh kMesh{8, {{"dp", 2}, {"tp", 8}}};

TEST(ArrivalTest, SlicesOverTheAxisInsideANode) {
  Sharding wanted = Replicated({4, 2048, 512});
  wanted.dims[0].terms[0] = {{4, AxisSet(0)}};
  Sharding arriving = Arriving(LoadCluster("dgx-a100:4"), kMesh, wanted);
  EXPECT_EQ(ToString(kMesh, arriving), "[4/dp,2048/tp,512]");
}

TEST(ArrivalTest, WholeWhereLinksAreAlike) {
  Sharding wanted = Replicated({4, 2048, 512});
  EXPECT_EQ(Arriving(LoadCluster("local:64"), kMesh, wanted), Normalised(kMesh, wanted));
}

TEST(ArrivalTest, WholeWhereNothingDivides) {
  Sharding wanted = Replicated({3, 5, 7});
  EXPECT_EQ(Arriving(LoadCluster("dgx-a100:4"), kMesh, wanted), Normalised(kMesh, wanted));
}

TEST(ArrivalTest, WhatIsSplitAlreadyStays) {
  Sharding wanted = Replicated({4, 2048, 512});
  wanted.dims[1].terms[0] = {{2048, AxisSet(1)}};
  EXPECT_EQ(Arriving(LoadCluster("dgx-a100:4"), kMesh, wanted), Normalised(kMesh, wanted));
}

}  // namespace
}  // namespace heddle
