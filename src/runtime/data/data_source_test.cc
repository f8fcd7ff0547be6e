// Sources of data as tensors of libtorch; what is in files is tested with host/data/row_source.h.
#include "runtime/data/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/safetensors.h"
#include "host/data/testing.h"
#include "runtime/data/batch.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class DataSourceTest : public DataTest {
 protected:
  // `batches` batches of 2 x 4 in the element type `dtype`: ids 0, 1, 2, ..., and labels 5.
  std::string WriteTensors(const std::string& name, int64_t batches, DType dtype = DType::kI64) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 8 * batches; ++i) ids.push_back(i);
    HostTensor x = MakeTensor(dtype, {2 * batches, 4}, ids);
    HostTensor y = MakeTensor(dtype, {2 * batches, 4}, std::vector<int64_t>(ids.size(), 5));
    NamedTensor tensors[] = {{"input_ids", &x}, {"input.labels", &y}};
    WriteSafetensors(Path(name), tensors);
    return Path(name);
  }
};

TEST_F(DataSourceTest, RowsHaveTheElementTypesOfTheModel) {
  std::string text = Write("a.txt", "abcdefgh!");
  std::string tensors = WriteTensors("one.safetensors", 1, DType::kI32);
  for (const std::string& path : {text, tensors}) {
    Batch wide = OpenData(PlainModel(), {.path = path})->Rows(0, {0, 2});
    Batch narrow = OpenData(PlainModel(2, 256, "i32"), {.path = path})->Rows(0, {0, 2});
    EXPECT_EQ(wide["input_ids"].scalar_type(), at::kLong);
    EXPECT_EQ(narrow["input_ids"].scalar_type(), at::kInt);
    EXPECT_TRUE(at::equal(wide["input_ids"], narrow["input_ids"].to(at::kLong)));
  }
}

TEST_F(DataSourceTest, AFileOfOneBatchIsThatBatch) {
  std::string one = WriteTensors("one.safetensors", 1);
  EXPECT_TRUE(at::equal(OpenData(PlainModel(), {.path = one})->Rows(9, {0, 2})["input_ids"],
                        ReadBatch(PlainModel(), one)["input_ids"]));
  std::string many = WriteTensors("many.safetensors", 5);
  EXPECT_THAT(ErrorOf([&] { ReadBatch(PlainModel(), many); }), HasSubstr("5 batches"));
}

TEST_F(DataSourceTest, SyntheticRowsAreThoseOfTheWholeBatch) {
  auto source = OpenData(PlainModel(5), {.path = "", .seed = 4});
  Batch whole = source->Rows(0, {0, 5});
  for (int64_t begin = 0; begin <= 5; ++begin) {
    for (int64_t end = begin; end <= 5; ++end) {
      for (const auto& [name, tensor] : source->Rows(7, {begin, end}))
        EXPECT_TRUE(at::equal(tensor, whole[name].slice(0, begin, end))) << name;
    }
  }
}

TEST_F(DataSourceTest, SyntheticIsTheBatchOfItsSeed) {
  auto source = OpenData(PlainModel(), {.path = "", .seed = 4});
  Batch rows = source->Rows(3, {0, 2}), batch = SyntheticBatch(PlainModel(), 4);
  for (const auto& [name, tensor] : batch) EXPECT_TRUE(at::equal(rows[name], tensor)) << name;
  Batch other = OpenData(PlainModel(), {.path = "", .seed = 5})->Rows(3, {0, 2});
  EXPECT_FALSE(at::equal(other["labels"], batch["labels"]));
  EXPECT_THAT(source->Describe(), HasSubstr("synthetic"));
}

}  // namespace
}  // namespace heddle
