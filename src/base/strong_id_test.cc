#include "base/strong_id.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string_view>
#include <type_traits>
#include <unordered_set>

namespace heddle {
namespace {

struct PlainTag {};
struct NodeTag {
  static constexpr std::string_view kPrefix = "n";
};
using PlainId = StrongId<PlainTag>;
using NodeId = StrongId<NodeTag>;

static_assert(!std::is_convertible_v<PlainId, NodeId>);
static_assert(!std::is_convertible_v<int, NodeId>);
static_assert(sizeof(NodeId) == 4 && std::is_trivially_copyable_v<NodeId>);
static_assert(NodeId::FromIndex(5) == NodeId{5});

TEST(StrongIdTest, ComparesAndHashes) {
  EXPECT_LT(NodeId{1}, NodeId{2});
  EXPECT_EQ(NodeId{1}, NodeId{1});
  EXPECT_EQ((std::unordered_set<NodeId>{NodeId{1}, NodeId{2}, NodeId{1}}).size(), 2u);
}

TEST(StrongIdTest, DefaultIsInvalid) {
  EXPECT_FALSE(NodeId{}.valid());
  EXPECT_TRUE(NodeId{0}.valid());
  EXPECT_EQ(NodeId{7}.index(), 7u);
}

TEST(StrongIdTest, Prints) {
  EXPECT_EQ(fmt::format("{} {}", NodeId{3}, PlainId{4}), "n3 4");
  std::ostringstream out;
  out << NodeId{3};
  EXPECT_EQ(out.str(), "n3");
}

TEST(StrongIdDeathTest, RefusesWhatDoesNotFit) {
  EXPECT_DEATH(static_cast<void>(NodeId{}.index()), "id -1");
  EXPECT_DEATH(NodeId::FromIndex(std::size_t{1} << 31), "index 2147483648");
}

}  // namespace
}  // namespace heddle
