#include "host/data/row_source.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "graph/safetensors.h"
#include "host/data/tensor_source.h"
#include "host/data/testing.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> Values(const HostTensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(AsInt(tensor, i));
  return values;
}

int64_t At(const HostTensor& tensor, int64_t row, int64_t column) {
  return AsInt(tensor, row * tensor.shape[1] + column);
}

// 16-bit tokens 0, 1, 2, ...
std::string Counting(uint16_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2};
}

// The rows of any part are those of the whole.
void ExpectRowsAgree(const RowSource& source, int64_t batch) {
  for (int64_t step : {0, 1, 7}) {
    HostBatch whole = source.Rows(step, {0, batch});
    for (int64_t begin = 0; begin <= batch; ++begin) {
      for (int64_t end = begin; end <= batch; ++end) {
        for (const auto& [name, tensor] : source.Rows(step, {begin, end})) {
          const auto row = static_cast<int64_t>(whole[name].data.size()) / batch;
          ASSERT_EQ(static_cast<int64_t>(tensor.data.size()), row * (end - begin)) << name;
          EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(),
                                 whole[name].data.begin() + begin * row))
              << name;
        }
      }
    }
  }
}

HostTensor Tensor(Shape shape, std::vector<int64_t> values) {
  return MakeTensor(DType::kI64, std::move(shape), values);
}

class RowSourceTest : public DataTest {
 protected:
  std::unique_ptr<RowSource> Open(const Graph& graph, const std::string& name, uint64_t seed = 0) {
    return OpenRows(graph, Path(name), seed);
  }
  std::string OpenError(const Graph& graph, const std::string& name) {
    return ErrorOf([&] { Open(graph, name); });
  }
  // `batches` batches of 2 x 4, numbered from 0.
  void WriteTensors(const std::string& name, int64_t batches, int64_t of_labels = 0) {
    std::vector<int64_t> ids(static_cast<size_t>(8 * batches));
    std::iota(ids.begin(), ids.end(), 0);
    if (of_labels == 0) of_labels = batches;
    HostTensor x = Tensor({2 * batches, 4}, ids);
    HostTensor y =
        Tensor({2 * of_labels, 4}, std::vector<int64_t>(static_cast<size_t>(8 * of_labels), 5));
    NamedTensor tensors[] = {{"input_ids", &x}, {"input.labels", &y}};
    WriteSafetensors(Path(name), tensors);
  }
};

TEST_F(RowSourceTest, WindowsAreAPermutationPerEpoch) {
  Write("a.bin", Counting(41));  // ten windows of 4, and one token more
  auto source = Open(PlainModel(), "a.bin", 3);
  std::vector<std::vector<int64_t>> epochs(3);
  for (int64_t step = 0; step < 15; ++step) {
    HostBatch batch = source->Rows(step, {0, 2});
    const HostTensor &ids = batch["input_ids"], &labels = batch["labels"];
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(AsInt(labels, i), AsInt(ids, i) + 1);
    for (int64_t row = 0; row < 2; ++row) {
      int64_t first = At(ids, row, 0);
      EXPECT_EQ(At(ids, row, 3), first + 3);
      EXPECT_EQ(first % 4, 0);
      epochs[static_cast<size_t>(step / 5)].push_back(first / 4);
    }
  }
  for (auto& epoch : epochs) {
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 10u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST_F(RowSourceTest, SeedsGiveOrders) {
  Write("a.bin", Counting(200));
  auto first = [&](uint64_t seed) {
    return Values(Open(PlainModel(), "a.bin", seed)->Rows(2, {0, 2})["input_ids"]);
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST_F(RowSourceTest, RowsAreThoseOfTheWholeBatch) {
  Write("a.bin", Counting(100));
  Write("a.txt", std::string(70, 'x') + "some text to look at, byte by byte");
  ExpectRowsAgree(*Open(PlainModel(5), "a.bin", 1), 5);
  ExpectRowsAgree(*Open(PlainModel(5), "a.txt", 1), 5);
  WriteTensors("k.safetensors", 3);
  ExpectRowsAgree(*Open(PlainModel(2), "k.safetensors", 1), 2);
}

TEST_F(RowSourceTest, Text) {
  Write("a.txt", "abcdefgh!");
  auto source = Open(PlainModel(), "a.txt");
  HostBatch batch = source->Rows(0, {0, 2});
  bool swapped = At(batch["input_ids"], 0, 0) == 'e';
  HostBatch rows = source->Rows(0, {swapped ? 1 : 0, swapped ? 2 : 1});
  EXPECT_THAT(Values(rows["input_ids"]), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(Values(rows["labels"]), ElementsAre('b', 'c', 'd', 'e'));
  EXPECT_EQ(source->Describe(), Path("a.txt") +
                                    ": text, 9 tokens, 2 samples of 4 in the order of seed 0; "
                                    "labels are the tokens after those of input_ids");
}

TEST_F(RowSourceTest, SmallVocabularies) {
  std::string text(5000, 'a');
  Write("ascii.txt", text);
  Write("accent.txt", text + "\xc3\xa9" + text);
  EXPECT_EQ(OpenError(PlainModel(2, 128), "ascii.txt"), "(no error)");
  EXPECT_EQ(OpenError(PlainModel(2, 256), "accent.txt"), "(no error)");
  EXPECT_EQ(OpenError(PlainModel(2, 128), "accent.txt"),
            "accent.txt: byte 5000 is 195, but the model's vocabulary has 128 tokens; a text is "
            "read byte by byte, so take a model with a vocabulary of 256");
}

TEST_F(RowSourceTest, TokensBeyondTheVocabulary) {
  Write("first.bin", Counting(8).substr(0, 8) + std::string("\x00\x02", 2) + Counting(3));
  EXPECT_EQ(OpenError(PlainModel(), "first.bin"),
            "first.bin: token 4 (byte 8) is 512, but the model's vocabulary has 256 tokens; was it "
            "made with another tokenizer?");
  Write("later.bin", Counting(300));  // refused when it comes to it
  auto source = Open(PlainModel(), "later.bin");
  std::string error = ErrorOf([&] {
    for (int64_t step = 0; step < 40; ++step) source->Rows(step, {0, 2});
  });
  EXPECT_THAT(error, HasSubstr("later.bin: token "));
  EXPECT_THAT(error, HasSubstr("the model's vocabulary has 256 tokens"));
}

TEST_F(RowSourceTest, NegativeTokens) {
  std::vector<int32_t> tokens = {1, 2, 3, -4, 5};
  Write("a.bin", {reinterpret_cast<const char*>(tokens.data()), 20});
  std::string index("MMIDIDX\0\0\1\0\0\0\0\0\0\0\4", 18);
  for (int64_t word : {1, 2}) index.append(reinterpret_cast<const char*>(&word), 8);
  int32_t length = 5;
  index.append(reinterpret_cast<const char*>(&length), 4);
  for (int64_t word : {0, 0, 1}) index.append(reinterpret_cast<const char*>(&word), 8);
  Write("a.idx", index);
  EXPECT_THAT(OpenError(PlainModel(), "a.idx"), HasSubstr("a.bin: token 3 (byte 12) is -4"));
}

TEST_F(RowSourceTest, ShortAndMissingFiles) {
  Write("short.txt", "abcd");
  Write("empty.txt", "");
  std::filesystem::create_directory(Path("folder"));
  EXPECT_EQ(OpenError(PlainModel(), "short.txt"),
            "short.txt: has 4 tokens, fewer than the 5 of one sample; give a longer file, or a "
            "model of a shorter sequence");
  EXPECT_EQ(OpenError(PlainModel(), "empty.txt"), "empty.txt: is empty; give a file with text");
  EXPECT_EQ(OpenError(PlainModel(), "none.txt"), "none.txt: no such file; check the path");
  EXPECT_EQ(OpenError(PlainModel(), "none.safetensors"),
            "none.safetensors: no such file; check the path");
  EXPECT_EQ(OpenError(PlainModel(), "folder"), "folder: is a directory; give a file in it");
}

TEST_F(RowSourceTest, ABatchMayBeMoreThanAnEpoch) {
  Write("a.txt", "abcde");
  HostBatch batch = Open(PlainModel(3), "a.txt")->Rows(5, {0, 3});
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(At(batch["input_ids"], row, 0), 'a');
}

TEST_F(RowSourceTest, ElementTypesAreTheModels) {
  Write("a.txt", "abcdefgh!");
  HostBatch batch = Open(PlainModel(2, 256, "i32"), "a.txt")->Rows(0, {0, 2});
  EXPECT_EQ(batch["input_ids"].dtype, DType::kI32);
  EXPECT_EQ(batch["labels"].dtype, DType::kI32);
}

TEST_F(RowSourceTest, MasksPositionsAndTypes) {
  Graph graph = ModelFromText(
      "input %input_ids: i64[2,3]\ninput %attention_mask: bool[2,3]\ninput %mask2: f32[2,3]\n"
      "input %position_ids: i64[2,3]\ninput %token_type_ids: i32[2,3]\nparam %w: f32[256,4]\n"
      "%e: f32[2,3,4] = Gather(%w, %input_ids) {axis=0}\n%loss: f32[] = ReduceSum(%e) "
      "{axes=[0, 1, 2], keepdims=0}\n");
  Write("a.txt", "abcdef");
  HostBatch batch = Open(graph, "a.txt")->Rows(0, {0, 2});
  EXPECT_EQ(batch["attention_mask"].dtype, DType::kBool);
  EXPECT_EQ(Values(batch["attention_mask"]), std::vector<int64_t>(6, 1));
  EXPECT_EQ(batch["mask2"].dtype, DType::kF32);
  EXPECT_EQ(Values(batch["mask2"]), std::vector<int64_t>(6, 1));
  EXPECT_THAT(Values(batch["position_ids"]), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(Values(batch["token_type_ids"]), std::vector<int64_t>(6, 0));
}

TEST_F(RowSourceTest, TensorsAreOneBatchOrMany) {
  WriteTensors("one.safetensors", 1);
  auto one = Open(PlainModel(), "one.safetensors");
  EXPECT_THAT(Values(one->Rows(9, {0, 2})["input_ids"]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(one->Describe(), HasSubstr("one batch of 2, the same at every step"));

  WriteTensors("many", 5);  // known by what it holds
  auto many = Open(PlainModel(), "many");
  EXPECT_THAT(many->Describe(), HasSubstr("5 batches of 2"));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 5; ++i) {
      HostBatch batch = many->Rows(5 * epoch + i, {0, 2});
      int64_t first = At(batch["input_ids"], 0, 0);
      EXPECT_EQ(At(batch["input_ids"], 1, 3), first + 7);
      seen.insert(first);
    }
    EXPECT_THAT(seen, ElementsAre(0, 8, 16, 24, 32));
  }
}

TEST_F(RowSourceTest, TensorsThatDoNotFit) {
  WriteTensors("unlike.safetensors", 3, 2);
  EXPECT_EQ(OpenError(PlainModel(), "unlike.safetensors"),
            "unlike.safetensors: 'input_ids' holds 3 batches but 'input.labels' holds 2");
  WriteTensors("cut.safetensors", 1);
  EXPECT_EQ(OpenError(PlainModel(4), "cut.safetensors"),
            "cut.safetensors: 'input_ids' is i64[2,4] but the model takes i64[4,4]; 'input.labels' "
            "is i64[2,4] but the model takes i64[4,4]");
  WriteTensors("large.safetensors", 40);  // up to 319
  auto source = Open(PlainModel(), "large.safetensors", 7);
  std::string error = ErrorOf([&] {
    for (int64_t step = 0; step < 40; ++step) source->Rows(step, {0, 2});
  });
  EXPECT_THAT(error, HasSubstr("'input_ids' holds "));
  EXPECT_THAT(error, HasSubstr("the model takes 0 to 255 (batch "));
}

TEST(OutOfRangeTest, SaysWhatIsWrongWhere) {
  struct Case {
    InputRange range;
    std::vector<int64_t> values;  // of two rows
    std::string says;
  };
  const InputRange tokens{0, 10, {}}, labels{0, 10, -100};
  for (const auto& [range, values, says] : std::vector<Case>{
           {tokens, {0, 9, 3, 4}, ""},
           {tokens, {0, 9, -1, 4}, "'x' holds -1 at [6, 0], the model takes 0 to 9"},
           {tokens, {0, 10, 3, 4}, "'x' holds 10 at [5, 1], the model takes 0 to 9"},
           {tokens, {0, -100, 3, 4}, "'x' holds -100 at [5, 1], the model takes 0 to 9"},
           {labels, {0, -100, 3, 4}, ""},
           {labels,
            {0, -1, 3, 4},
            "'x' holds -1 at [5, 1], the model takes 0 to 9, or -100 (ignored)"},
       }) {
    for (DType type : {DType::kI64, DType::kI32, DType::kI16}) {
      HostTensor tensor = MakeTensor(type, {2, 2}, values);
      EXPECT_EQ(OutOfRange("x", range, tensor, /*first_row=*/5), says);
    }
  }
}

// Ranks that are threads read from one source.
TEST_F(RowSourceTest, SeveralThreadsMayAskForRows) {
  Write("a.bin", Counting(200));
  WriteTensors("k.safetensors", 3);
  for (const char* name : {"a.bin", "k.safetensors"}) {
    auto source = Open(PlainModel(), name, 1);
    HostBatch want = source->Rows(7, {0, 2});
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int time = 0; time < 20; ++time) EXPECT_EQ(source->Rows(7, {0, 2}), want);
      });
    }
  }
}

}  // namespace
}  // namespace heddle
