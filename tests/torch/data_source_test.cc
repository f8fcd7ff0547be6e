// Trains exported and built-in models on text and token files.
#include "runtime/data/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "../known_models.h"
#include "../run_binary.h"
#include "base/error.h"
#include "base/file.h"
#include "frontend/load.h"
#include "runtime/data/batch.h"
#include "runtime/optimizer.h"
#include "runtime/single_device.h"

namespace heddle {
namespace {

using testing::HasSubstr;

const std::string kModels = HEDDLE_TEST_DATA "/pytorch/";
const std::string kBuiltIn = "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=256,batch=4";

// Bytes 1, 2, ... 255, 1, ...: every token determines the next one.
std::string Counting(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(1 + i % 255);
  return text;
}

int64_t At(const at::Tensor& tensor, int64_t row, int64_t column) {
  return tensor[row][column].item<int64_t>();
}

struct OneStream {
  std::string model;
  int64_t sequence;
};
void PrintTo(const OneStream& model, std::ostream* out) { *out << model.model; }

class DecoderData : public testing::TestWithParam<OneStream> {};

TEST_P(DecoderData, LabelsAreTheNextTokens) {
  TempFolder folder;
  WriteFileAtomically(folder / "a.txt", Counting(3000));
  Graph graph = LoadModel(GetParam().model, {});
  auto source = OpenData(graph, {.path = folder / "a.txt", .seed = 5});
  EXPECT_THAT(source->Describe(), HasSubstr("labels are the tokens after those of input_ids"));
  for (int64_t step = 0; step < 30; ++step) {
    Batch batch = source->Rows(step, {0, 4});
    at::Tensor ids = batch["input_ids"], labels = batch["labels"];
    ASSERT_EQ(ids.sizes(), (std::vector<int64_t>{4, GetParam().sequence}));
    EXPECT_TRUE(at::equal(ids.slice(1, 1), labels.slice(1, 0, -1)));
    EXPECT_TRUE(at::equal(labels, ids.remainder(255) + 1));
    EXPECT_TRUE(at::equal(source->Rows(step, {1, 3})["labels"], labels.slice(0, 1, 3)));
  }
}

TEST_P(DecoderData, TheLossFalls) {
  TempFolder folder;
  std::string text;
  while (text.size() < 4000) text += "the loom parts the threads so that the weft can pass. ";
  WriteFileAtomically(folder / "a.txt", text);
  Graph graph = LoadModel(GetParam().model, {});
  auto source = OpenData(graph, {.path = folder / "a.txt"});
  SingleDevice model(graph, {.seed = 1, .seeded = true});
  Optimizer optimizer({.lr = 5e-3});
  std::vector<double> losses;
  for (int64_t step = 0; step < 25; ++step) {
    StepResult result = model.Run(source->Rows(step, {0, 4}), step);
    optimizer.Step(model.parameters(), result.gradients);
    losses.push_back(result.loss);
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderData,
                         testing::Values(OneStream{kModels + "tiny-gpt2.onnx", 32},
                                         OneStream{kModels + "tiny-llama.onnx", 32},
                                         OneStream{kModels + "tiny-moe.onnx", 16},
                                         OneStream{kBuiltIn, 32}),
                         [](const auto& info) {
                           std::string name = std::filesystem::path(info.param.model).stem();
                           return TestName(name.substr(0, name.find(':')));
                         });

TEST(EncoderDecoderData, TheDecoderGoesOnWhereTheEncoderEnds) {
  TempFolder folder;
  WriteFileAtomically(folder / "a.txt", Counting(3000));
  Graph graph = LoadModel(kModels + "tiny-t5.onnx", {});
  auto source = OpenData(graph, {.path = folder / "a.txt", .seed = 2});
  EXPECT_THAT(source->Describe(), HasSubstr("samples of 48"));
  EXPECT_THAT(source->Describe(),
              HasSubstr("labels are the tokens after those of decoder_input_ids"));
  Batch batch = source->Rows(3, {0, 4});
  for (int64_t row = 0; row < 4; ++row) {
    int64_t last = At(batch["input_ids"], row, 31);
    EXPECT_EQ(At(batch["decoder_input_ids"], row, 0), last % 255 + 1);
    EXPECT_EQ(At(batch["labels"], row, 0), At(batch["decoder_input_ids"], row, 1));
    EXPECT_EQ(At(batch["labels"], row, 15), At(batch["decoder_input_ids"], row, 15) % 255 + 1);
  }
  SingleDevice model(graph, {.seed = 1});
  EXPECT_GT(model.Run(batch, 3).loss, 0);
}

TEST(TokenData, NanoGptFilesOfLargeVocabularies) {
  TempFolder folder;
  std::vector<uint16_t> tokens(2000);
  std::iota(tokens.begin(), tokens.end(), uint16_t{300});
  WriteFileAtomically(folder / "train.bin", {reinterpret_cast<const char*>(tokens.data()), 4000});
  Graph large = LoadModel("gpt:layers=1,hidden=32,heads=2,seq=8,vocab=50257,batch=2", {});
  Batch batch = OpenData(large, {.path = folder / "train.bin"})->Rows(0, {0, 2});
  EXPECT_EQ(At(batch["labels"], 0, 7), At(batch["input_ids"], 0, 0) + 8);
  try {
    OpenData(LoadModel(kBuiltIn, {}), {.path = folder / "train.bin"});
    ADD_FAILURE() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.bin: token 0 (byte 0) is 300"));
    EXPECT_THAT(error.what(), HasSubstr("256 tokens"));
  }
}

TEST(TokenData, ImagesAreNoText) {
  TempFolder folder;
  WriteFileAtomically(folder / "a.txt", Counting(3000));
  try {
    OpenData(LoadModel(kModels + "tiny-cnn.onnx", {}), {.path = folder / "a.txt"});
    ADD_FAILURE() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("input 'pixels' f32[8,3,32,32]"));
  }
}

// Data sources give the batch of every fixture, and the synthetic batch.
TEST(TensorData, FixturesGiveTheirBatch) {
  for (const KnownModel& known : KnownModels()) {
    if (known.reference.empty()) continue;
    Graph graph = LoadModel(known.path, {});
    Batch expected = ReadBatch(graph, known.reference), made = SyntheticBatch(graph, 9);
    auto source = OpenData(graph, {.path = known.reference});
    auto synthetic = OpenData(graph, {.seed = 9});
    Block all{0, BatchOf(graph)}, some{1, 3};
    for (auto& [name, tensor] : source->Rows(11, all)) {
      EXPECT_TRUE(at::equal(tensor, expected[name])) << known.name << " " << name;
    }
    for (auto& [name, tensor] : synthetic->Rows(11, some)) {
      EXPECT_TRUE(at::equal(tensor, made[name].slice(0, 1, 3))) << known.name << " " << name;
    }
  }
}

}  // namespace
}  // namespace heddle
