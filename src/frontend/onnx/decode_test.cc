#include "frontend/onnx/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "frontend/onnx/external_data.h"
#include "frontend/onnx/testing.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OnnxDecode : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("heddle_onnx_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string Error(const std::string& path) {
    try {
      DecodeOnnxFile(path);
    } catch (const InputError& error) {
      return error.what();
    }
    return "decoded";
  }
  // The error for a model in model/ whose weight w, 4 floats, is external data.
  std::string ExternalError(const std::vector<std::pair<std::string, std::string>>& entries) {
    TestModel m;
    auto& w = m.Weight("w", {4});
    w.clear_float_data();
    w.set_data_location(1);
    for (const auto& [key, value] : entries) {
      auto* entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    return Error(Write("model/m.onnx", m.Bytes()));
  }

  fs::path folder_;
};

TEST_F(OnnxDecode, FilesThatAreNoModel) {
  EXPECT_THAT(Error((folder_ / "none.onnx").string()), HasSubstr("none.onnx"));
  EXPECT_THAT(Error((folder_ / "model").string()), HasSubstr("model"));
  EXPECT_THAT(Error(Write("empty.onnx", "")), HasSubstr("is empty"));
  EXPECT_THAT(Error(Write("text.onnx", "import torch\nprint(1)\n")), HasSubstr("is a text file"));
  EXPECT_THAT(Error(Write("zero.onnx", std::string(64, '\0'))), HasSubstr("cannot be decoded"));
  TestModel m;
  m.Input("x", {4, 8});
  m.Loss("x");
  const std::string bytes = m.Bytes();
  EXPECT_EQ(Error(Write("whole.onnx", bytes)), "decoded");
  EXPECT_THAT(Error(Write("cut.onnx", bytes.substr(0, bytes.size() - 9))), HasSubstr("cut short"));
  heddle_onnx::ModelProto empty;
  empty.set_ir_version(8);
  EXPECT_THAT(Error(Write("graphless.onnx", empty.SerializeAsString())),
              HasSubstr("contains no graph"));
}

TEST_F(OnnxDecode, Opsets) {
  EXPECT_THAT(Error(Write("a.onnx", TestModel(9).Bytes())),
              HasSubstr("uses ONNX opset 9, must be 11 to 21"));
  EXPECT_THAT(Error(Write("a.onnx", TestModel(99).Bytes())), HasSubstr("opset 99"));
  TestModel none;
  none.proto.clear_opset_import();
  EXPECT_THAT(Error(Write("a.onnx", none.Bytes())), HasSubstr("gives no ONNX opset"));
}

// If nodes nested in If nodes, as bytes, because the protobuf classes cannot nest this deep. A field begins with its length,
// so the bytes are collected from the last to the first.
std::string NestedIf(int levels) {
  std::string reversed;
  const auto prepend = [&](const std::string& bytes) {
    reversed.append(bytes.rbegin(), bytes.rend());
  };
  const auto wrap = [&](char tag) {
    std::string head(1, tag);
    size_t size = reversed.size();
    for (; size >= 128; size >>= 7) head += static_cast<char>((size & 127) | 128);
    prepend(head + static_cast<char>(size));
  };
  for (int i = 0; i < levels; ++i) {
    wrap(0x32);             // AttributeProto.g
    wrap(0x2a);             // NodeProto.attribute
    prepend("\x22\x02If");  // NodeProto.op_type
    wrap(0x0a);             // GraphProto.node
  }
  wrap(0x3a);  // ModelProto.graph
  return {reversed.rbegin(), reversed.rend()};
}

TEST_F(OnnxDecode, NestingIsBounded) {
  EXPECT_THAT(Error(Write("few.onnx", NestedIf(20))), HasSubstr("gives no ONNX opset"));
  EXPECT_THAT(Error(Write("deep.onnx", NestedIf(200))), HasSubstr("deeper than 100 levels"));
  EXPECT_THAT(Error(Write("deeper.onnx", NestedIf(20000))), HasSubstr("deeper than 100 levels"));
}

TEST_F(OnnxDecode, Dimensions) {
  const auto error = [&](const Shape& shape) {
    TestModel m;
    auto& w = m.Weight("w", {1});
    w.clear_dims();
    for (const int64_t dim : shape) w.add_dims(dim);
    return Error(Write("m.onnx", m.Bytes()));
  };
  EXPECT_EQ(error({1, 1, 1}), "decoded");
  EXPECT_THAT(error({-1}), HasSubstr("initializer 'w'"));
  EXPECT_THAT(error({int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 40}),
              HasSubstr("initializer 'w'"));
  EXPECT_THAT(error(Shape(33, 1)), HasSubstr("has 33 dimensions"));
  EXPECT_THAT(error({2}), HasSubstr("has 1 elements of data, its shape asks for 2"));
  EXPECT_THAT(error({int64_t{1} << 40}), HasSubstr("its shape asks for 1099511627776"));
  EXPECT_THAT(error({0}), HasSubstr("its shape asks for 0"));
}

TEST_F(OnnxDecode, DataFields) {
  TestModel m;
  const auto add = [&m](const std::string& name, int type, const Shape& shape) {
    auto* tensor = m.graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (const int64_t dim : shape) tensor->add_dims(dim);
    return tensor;
  };
  add("raw", kOnnxInt32, {2})->set_raw_data(std::string("\1\0\0\0\xff\xff\xff\xff", 8));
  auto* half = add("half", 10, {1});
  half->add_int32_data(0x3c00);
  auto* flags = add("flags", kOnnxBool, {2});
  flags->add_int32_data(1);
  flags->add_int32_data(0);
  auto* wide = add("wide", 13, {1});
  wide->add_uint64_data(7);
  auto* doubles = add("doubles", 11, {1});
  doubles->add_double_data(2.5);
  add("u16", 4, {2})->set_raw_data(std::string("\xff\xff\2\0", 4));
  const ModelFile model = DecodeOnnx(m.Bytes(), "m.onnx", "");
  const auto at = [&](size_t i, int64_t e) { return AsDouble(*model.tensors[i].data, e); };
  EXPECT_EQ(at(0, 0), 1);
  EXPECT_EQ(at(0, 1), -1);
  EXPECT_EQ(at(1, 0), 1);
  EXPECT_EQ(at(2, 0), 1);
  EXPECT_EQ(at(2, 1), 0);
  EXPECT_EQ(model.tensors[3].type.dtype, DType::kI64);
  EXPECT_EQ(at(3, 0), 7);
  EXPECT_EQ(at(4, 0), 2.5);
  EXPECT_EQ(model.tensors[5].type.dtype, DType::kI32);
  EXPECT_EQ(at(5, 0), 65535);
}

TEST_F(OnnxDecode, DataThatDoesNotFit) {
  TestModel m;
  auto& w = m.Weight("w", {1});
  w.clear_float_data();
  w.set_data_type(13);
  w.add_uint64_data(~uint64_t{0});
  EXPECT_THAT(Error(Write("m.onnx", m.Bytes())), HasSubstr("does not fit i64"));
  w.set_data_type(8);
  EXPECT_THAT(Error(Write("m.onnx", m.Bytes())), HasSubstr("has element type string"));
  w.set_data_type(kOnnxFloat);
  w.set_raw_data("12345");
  EXPECT_THAT(Error(Write("m.onnx", m.Bytes())), HasSubstr("has 5 bytes of data"));
}

TEST_F(OnnxDecode, ExternalData) {
  EXPECT_EQ(ExternalError({{"location", "absent.bin"}}), "decoded");  // planning needs no weights
  Write("model/w.bin", std::string(32, 'x'));
  Write("secret.bin", std::string(32, 'x'));
  EXPECT_EQ(ExternalError({{"location", "w.bin"}, {"offset", "16"}, {"length", "16"}}), "decoded");
  EXPECT_EQ(ExternalError({{"location", "w.bin"}, {"checksum", "abc"}}), "decoded");
  EXPECT_THAT(ExternalError({}), HasSubstr("must be a relative path inside the model's folder"));
  EXPECT_THAT(ExternalError({{"location", "../secret.bin"}}), HasSubstr("'../secret.bin'"));
  EXPECT_THAT(ExternalError({{"location", "a/../../secret.bin"}}),
              HasSubstr("inside the model's folder"));
  EXPECT_THAT(ExternalError({{"location", "/etc/passwd"}}), HasSubstr("inside the model's folder"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"offset", "-4"}}), HasSubstr("offset '-4'"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"offset", "99999999999999999999"}}),
              HasSubstr("non-negative decimal"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"length", "15"}}),
              HasSubstr("has 15 bytes, the tensor needs 16"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"offset", "20"}}), HasSubstr("is cut short"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"offset", "9223372036854775807"}}),
              HasSubstr("is cut short"));
  EXPECT_THAT(ExternalError({{"location", "w.bin"}, {"path", "x"}}),
              HasSubstr("unknown key 'path'"));
}

TEST_F(OnnxDecode, ExternalDataThroughLinks) {
  Write("secret.bin", std::string(32, 'x'));
  Write("model/w.bin", std::string(32, 'x'));
  fs::create_symlink(folder_ / "secret.bin", folder_ / "model/link.bin");
  fs::create_directory_symlink(folder_, folder_ / "model/up");
  fs::create_hard_link(folder_ / "secret.bin", folder_ / "model/hard.bin");
  fs::create_directory(folder_ / "model/sub");
  EXPECT_THAT(ExternalError({{"location", "link.bin"}}), HasSubstr("symbolic link"));
  EXPECT_THAT(ExternalError({{"location", "up/secret.bin"}}), HasSubstr("symbolic link"));
  EXPECT_THAT(ExternalError({{"location", "hard.bin"}}), HasSubstr("2 hard links"));
  EXPECT_THAT(ExternalError({{"location", "sub"}}), HasSubstr("not a regular file"));
}

TEST_F(OnnxDecode, NoRealSizeIsAllocatedForAbsentData) {
  TestModel m;
  auto& w = m.Weight("w", {1});
  w.clear_float_data();
  w.clear_dims();
  w.add_dims(int64_t{1} << 40);
  w.set_data_location(1);
  auto* entry = w.add_external_data();
  entry->set_key("location");
  entry->set_value("weights.bin");
  const ModelFile model = DecodeOnnx(m.Bytes(), "m.onnx", folder_);
  EXPECT_EQ(model.tensors[0].data, nullptr);
  EXPECT_EQ(model.tensors[0].storage, "weights.bin:0:4398046511104");
}

}  // namespace
}  // namespace heddle
