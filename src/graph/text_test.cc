#include "graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/hash.h"

namespace heddle {
namespace {

using testing::HasSubstr;

std::string Again(std::string_view text) { return ToText(FromText(text, "m.heddle")); }

constexpr std::string_view kEverything = R"(heddle 1
model "every \"thing\"\n"
input %input_ids: i64[4,32]
param %m.lm_head.weight: f32[256,64]
const %c0: f32[] = 0.25
const %minus: f32[] = -0
const %tiny: f64[2] = [1e-05, 5e-324]
const %odd: f16[4] = [inf, -inf, nan, 65504]
const %t: i64[3] = [1, 2, 3]
const %one: i8[1] = [-128]
const %none: u8[0,4] = []
const %flags: bool[2] = [0, 1]
const %z: f32[8,8] = splat 0
const %mask: bool[1,1,32,32] = data xxh64:0123456789abcdef
const %unknown: bf16[2] = data none
%e: f32[4,32,64] = Gather(%m.lm_head.weight, %input_ids) {axis=0}
%a/b:0: f32[2,2], %"b c": i64[2,2] = TopK(%e) {axis=1, k=2, largest=1}
%none.args: f32[] = Custom.Op()
%loss: f32[] = "odd op"(%a/b:0, %a/b:0) {"a b"=1, big=1e+16, eps=1e-05, f=[1.0, 2.5], ff=[]f, i=[1, -2], ii=[]i, inf=inf, mode="x\x00\\", n=nan, one=1.0, z=-0.0}
output %loss, %"b c"
)";

TEST(TextTest, EverythingPrintsAsItWasRead) { EXPECT_EQ(Again(kEverything), kEverything); }

TEST(TextTest, ReadsWhatItSays) {
  Graph graph = FromText(kEverything, "m.heddle");
  EXPECT_EQ(graph.name, "every \"thing\"\n");
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(graph.nodes[1].results.size(), 2u);
  const Attributes& attributes = graph.nodes[3].attributes;
  EXPECT_EQ(FloatAttr(attributes, "one"), 1.0);
  EXPECT_EQ(std::get<double>(attributes.at("big")), 1e16);
  EXPECT_EQ(StringAttr(attributes, "mode"), std::string("x\0\\", 3));
  EXPECT_TRUE(std::get<std::vector<double>>(attributes.at("ff")).empty());
  const Value& odd = graph.values[5];
  EXPECT_EQ(odd.data->type(), (TensorType{DType::kF16, {4}}));
  EXPECT_EQ(AsDouble(*odd.data, 3), 65504);
  EXPECT_EQ(graph.values[10].data->size(), 64);
  EXPECT_EQ(graph.values[11].data, nullptr);
  EXPECT_EQ(graph.values[11].data_hash, 0x0123456789abcdefu);
}

TEST(TextTest, LayoutIsFree) {
  EXPECT_EQ(Again("# a comment\r\n\nheddle   1 # version\r\nmodel \"m # not a comment\"\n"
                  "\tinput %x :f32[ 2 , 3 ]\n"
                  "%y: f32[2]=Sum( %x ){ axis = 1 ,keep=0}# sum\n"
                  "const %c: f32[2] = [ 0.50 , 5e-1 ]\n"
                  "const %d: f32[] = splat 1.0\n"
                  "output %y"),
            "heddle 1\nmodel \"m # not a comment\"\ninput %x: f32[2,3]\n"
            "const %c: f32[2] = splat 0.5\nconst %d: f32[] = 1\n"
            "%y: f32[2] = Sum(%x) {axis=1, keep=0}\noutput %y\n");
}

TEST(TextTest, NamesAreQuotedWhenTheyMust) {
  EXPECT_EQ(ValueReference("m.w-1/x:0_"), "%m.w-1/x:0_");
  EXPECT_EQ(ValueReference("a:"), "%\"a:\"");
  EXPECT_EQ(ValueReference("a b"), "%\"a b\"");
  EXPECT_EQ(ValueReference("\xc3\xa9"), "%\"\\xc3\\xa9\"");
  EXPECT_TRUE(IsPlainIdentifier("com.microsoft::Gelu"));
  EXPECT_FALSE(IsPlainIdentifier("1x"));
  EXPECT_FALSE(IsPlainIdentifier("-x"));
  EXPECT_FALSE(IsPlainIdentifier(""));
}

TEST(TextTest, LargeConstantsPrintTheirHash) {
  Graph graph = FromText("heddle 1\nmodel \"m\"\ninput %x: f32[]\noutput %x\n", "m.heddle");
  std::vector<double> numbers(65);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  auto tensor = std::make_shared<HostTensor>(MakeTensor(DType::kF32, {65}, numbers));
  graph.AddValue("c", tensor->type(), ValueKind::kConstant, tensor);
  std::string hash = HashToHex(HashBytes(tensor->data.data(), tensor->data.size()));
  std::string text = ToText(graph);
  EXPECT_THAT(text, HasSubstr("const %c: f32[65] = data xxh64:" + hash + "\n"));
  EXPECT_EQ(Again(text), text);
}

TEST(TextTest, ConstantsWhoseElementsPrintAlikeAreSplats) {
  Graph graph = FromText("heddle 1\nmodel \"m\"\ninput %x: f32[]\noutput %x\n", "m.heddle");
  auto nans = std::make_shared<HostTensor>(DType::kF32, Shape{3});
  nans->as<uint32_t>()[0] = 0x7fc00000;
  nans->as<uint32_t>()[1] = 0xffc00000;
  nans->as<uint32_t>()[2] = 0x7fc00123;
  auto bools = std::make_shared<HostTensor>(DType::kBool, Shape{3});
  bools->as<uint8_t>()[0] = 1;
  bools->as<uint8_t>()[1] = 2;
  bools->as<uint8_t>()[2] = 255;
  auto zeros = std::make_shared<HostTensor>(DType::kF32, Shape{2});
  zeros->as<float>()[1] = -0.0f;
  graph.AddValue("nans", nans->type(), ValueKind::kConstant, nans);
  graph.AddValue("bools", bools->type(), ValueKind::kConstant, bools);
  graph.AddValue("zeros", zeros->type(), ValueKind::kConstant, zeros);
  std::string text = ToText(graph);
  EXPECT_THAT(text, HasSubstr("%nans: f32[3] = splat nan\n"));
  EXPECT_THAT(text, HasSubstr("%bools: bool[3] = splat 1\n"));
  EXPECT_THAT(text, HasSubstr("%zeros: f32[2] = [0, -0]\n"));
  EXPECT_EQ(Again(text), text);
}

TEST(TextTest, EqualSplatsAreShared) {
  Graph graph = FromText(
      "heddle 1\nmodel \"m\"\nconst %a: f32[8] = splat 1\nconst %b: f32[8] = splat 1.0\n"
      "const %c: f32[2,4] = splat 1\noutput %a\n",
      "m.heddle");
  EXPECT_EQ(graph.values[0].data, graph.values[1].data);
  EXPECT_NE(graph.values[0].data, graph.values[2].data);
}

// Every 16-bit float and many bit patterns of the wider types read back bit for bit; NaN reads back as NaN.
TEST(TextTest, FloatsRoundTripExactly) {
  std::mt19937_64 random(7);
  Graph graph;
  auto add = [&](DType dtype, uint64_t bits) {
    auto tensor = std::make_shared<HostTensor>(dtype, Shape{});
    std::memcpy(tensor->data.data(), &bits, tensor->data.size());
    if (std::isnan(AsDouble(*tensor, 0))) return;
    graph.AddValue(fmt::format("c{}", graph.values.size()), tensor->type(), ValueKind::kConstant,
                   tensor);
  };
  for (uint64_t bits = 0; bits < 65536; ++bits) {
    add(DType::kF16, bits);
    add(DType::kBF16, bits);
    add(DType::kF32, random());
    add(DType::kF64, random());
  }
  graph.outputs = {ValueId{0}};
  Graph again = FromText(ToText(graph), "m.heddle");
  ASSERT_EQ(again.values.size(), graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    ASSERT_EQ(*graph.values[i].data, *again.values[i].data) << ToText(graph).substr(0, 100);
  }
}

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) {}

  Graph Make() {
    Graph graph;
    graph.name = Word();
    for (int64_t i = Below(12) + 1; i > 0; --i) AddLeaf(graph);
    for (int64_t i = Below(12); i > 0; --i) {
      if (Below(5) == 0) AddLeaf(graph);
      NodeId node = graph.AddNode("Op" + Word(), MakeAttributes(), MakeOperands(graph));
      for (int64_t k = Below(3) + 1; k > 0; --k) graph.AddResult(node, Unique(graph), Type());
    }
    graph.outputs = MakeOperands(graph);
    graph.outputs.push_back(ValueId{0});
    return graph;
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  std::string Word() {
    constexpr std::string_view kChars = "ab:/-_. \"\\\n\t#%{}[],=\xc3\xa9\x01";
    std::string word;
    for (int64_t i = Below(6); i > 0; --i) {
      word += kChars[static_cast<size_t>(Below(static_cast<int64_t>(kChars.size())))];
    }
    return word;
  }
  std::string Unique(const Graph& graph) {
    return Word() + std::to_string(graph.values.size()) + Word();
  }

  TensorType Type() {
    TensorType type{AllDTypes()[static_cast<size_t>(Below(10))].dtype, {}};
    for (int64_t i = Below(4); i > 0; --i) type.shape.push_back(Below(5));
    return type;
  }

  void AddLeaf(Graph& graph) {
    TensorType type = Type();
    ValueKind kind = static_cast<ValueKind>(Below(3));
    std::shared_ptr<HostTensor> data;
    if (kind == ValueKind::kConstant && Below(8) > 0) {
      data = std::make_shared<HostTensor>(type.dtype, type.shape);
      for (int64_t i = 0; i < data->size() && Below(4) > 0; ++i) {
        std::vector<double> number = {static_cast<double>(Below(4)) / 2 - 1};
        HostTensor element = MakeTensor(type.dtype, {1}, number);
        std::copy(element.data.begin(), element.data.end(),
                  data->data.begin() + i * SizeOf(type.dtype));
      }
    }
    graph.AddValue(Unique(graph), type, kind, data);
  }

  std::vector<ValueId> MakeOperands(const Graph& graph) {
    std::vector<ValueId> operands;
    for (int64_t i = Below(4); i > 0; --i) {
      operands.push_back(
          ValueId{static_cast<int32_t>(Below(static_cast<int64_t>(graph.values.size())))});
    }
    return operands;
  }

  Attributes MakeAttributes() {
    Attributes attributes;
    for (int64_t i = Below(4); i > 0; --i) {
      double number =
          std::ldexp(static_cast<double>(random_()), static_cast<int>(Below(200)) - 100);
      Attribute choices[] = {static_cast<int64_t>(random_()), number, Word(),
                             std::vector<int64_t>(static_cast<size_t>(Below(3)), Below(9)),
                             std::vector<double>(static_cast<size_t>(Below(3)), number)};
      attributes["a" + Word()] = choices[Below(5)];
    }
    return attributes;
  }

  std::mt19937_64 random_;
};

TEST(TextTest, RandomGraphsRoundTrip) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Graph graph = RandomGraph(seed).Make();
    ASSERT_TRUE(Verify(graph).empty()) << Verify(graph)[0];
    std::string text = ToText(graph);
    Graph again = FromText(text, "m.heddle");
    ASSERT_EQ(ToText(again), text) << "seed " << seed;
    ASSERT_EQ(StableHash(again), StableHash(graph));
    ASSERT_EQ(again.values.size(), graph.values.size());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      ASSERT_EQ(again.nodes[i].op, graph.nodes[i].op);
      ASSERT_EQ(again.nodes[i].attributes, graph.nodes[i].attributes);
    }
  }
}

// A sound text that is cut anywhere, or has one byte changed, either is refused or gives another sound graph.
TEST(TextTest, DamagedTextsNeverDoHarm) {
  std::mt19937_64 random(3);
  for (size_t i = 0; i < kEverything.size(); ++i) {
    std::string cut(kEverything.substr(0, i));
    if (i < kEverything.find("output %loss")) {
      EXPECT_THROW(FromText(cut, "m.heddle"), InputError);
    }
    for (int k = 0; k < 4; ++k) {
      std::string changed(kEverything);
      changed[i] = static_cast<char>(random());
      try {
        std::string text = ToText(FromText(changed, "m.heddle"));
        EXPECT_EQ(Again(text), text);
      } catch (const InputError&) {
      }
    }
  }
}

TEST(AttachDataTest, BringsConstantsAndParameters) {
  std::vector<double> numbers(100);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  HostTensor c = MakeTensor(DType::kF32, {100}, numbers);
  HostTensor w = MakeTensor(DType::kF32, {2}, std::vector<double>{1, 2});
  std::string text = fmt::format(
      "heddle 1\nmodel \"m\"\nparam %w: f32[2]\nconst %c: f32[100] = data xxh64:{}\noutput %w\n",
      HashToHex(HashBytes(c.data.data(), c.data.size())));

  Graph graph = FromText(text, "m.heddle");
  AttachData(graph, {{"c", c}, {"w", w}, {"other", w}}, "m.safetensors");
  EXPECT_EQ(*graph.values[0].data, w);
  EXPECT_EQ(*graph.values[1].data, c);
  EXPECT_EQ(ToText(graph), text);

  Graph without_parameters = FromText(text, "m.heddle");
  AttachData(without_parameters, {{"c", c}}, "m.safetensors");
  EXPECT_EQ(without_parameters.values[0].data, nullptr);
  EXPECT_EQ(*without_parameters.values[1].data, c);
}

TEST(AttachDataTest, NamesEverythingWrongAndChangesNothing) {
  Graph graph = FromText(
      "heddle 1\nmodel \"m\"\nparam %w: f32[2]\nparam %v: f32[3]\nparam %\"u u\": f32[]\n"
      "const %c: f32[2] = data xxh64:0123456789abcdef\nconst %d: f32[2] = data "
      "xxh64:0123456789abcdef\n"
      "const %e: f32[2] = data none\noutput %w\n",
      "m.heddle");
  HostTensor two = MakeTensor(DType::kF32, {2}, std::vector<double>{1, 2});
  std::string error = "(no error)";
  try {
    AttachData(graph, {{"w", two}, {"v", two}, {"c", two}}, "m.safetensors");
  } catch (const InputError& found) {
    error = found.what();
  }
  EXPECT_EQ(
      error,
      "m.safetensors: 4 of the 5 tensors that model \"m\" needs cannot be used: %c has hash " +
          HashToHex(HashBytes(two.data.data(), two.data.size())) +
          ", expected 0123456789abcdef; %d (f32[2]) is missing; %v is f32[2], expected f32[3]; "
          "%\"u u\" (f32[]) is missing");
  for (const Value& value : graph.values) EXPECT_EQ(value.data, nullptr);
}

}  // namespace
}  // namespace heddle
