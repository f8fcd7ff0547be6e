// Imports without a file: calls of an invented format with two ops of its own.
#include "frontend/import/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// aten.relu(self), aten.scale(self; factor, shift=none) and aten.sum(self).
const OpImport kRelu = {"aten.relu", 1, 1,
                        [](CallImport& n) { n.Return(n.Emit("Relu", {}, {n.In(0)})); }};
const OpImport kScale = {"aten.scale", 1, 2, [](CallImport& n) {
                           Imported factor = n.Number(n.dtype(0), n.Float("factor"));
                           if (n.HasAttr("table")) {
                             TensorData data = n.Tensor("table");
                             factor = Builder::Constant(HostTensor(*data));
                           }
                           const Imported scaled = n.Emit("Mul", {}, {n.In(0), factor});
                           n.Return(n.Has(1) ? n.Emit("Add", {}, {scaled, n.In(1)}) : scaled);
                         }};
const OpImport kSum = {
    "aten.sum", 1, 1, [](CallImport& n) {
      std::vector<int64_t> axes;
      for (int64_t i = 0; i < n.rank(0); ++i) axes.push_back(i);
      n.Return(n.Emit("ReduceSum", {{"axes", axes}, {"keepdims", int64_t{0}}}, {n.In(0)}));
    }};

// x * 2 + bias, whose sum is the loss.
class ImporterTest : public testing::Test {
 protected:
  ImporterTest() {
    file_.inputs = {{.name = "x",
                     .id = Name("x"),
                     .dtype = DType::kF32,
                     .shape = std::vector<StatedDim>{{.symbol = "batch"}, {.size = 3}}}};
    file_.tensors = {{.name = "bias", .id = Name("bias"), .type = {DType::kF32, {3}}}};
    Call("relu", "aten.relu", {"x"}, {"a"});
    Call("scale", "aten.scale", {"a", "bias"}, {"y"}).attributes["factor"] = 2.0;
    Call("sum", "aten.sum", {"y"}, {"loss"});
    file_.outputs = {{.name = "loss", .id = Name("loss")}};
  }

  CallName Name(const std::string& name) { return file_.names.Add(name); }

  OpCall& Call(const std::string& name, const std::string& op,
               const std::vector<std::string>& operands, const std::vector<std::string>& results) {
    OpCall& call = file_.calls.emplace_back();
    call.name = name;
    call.op = op;
    for (const std::string& operand : operands) call.operands.push_back(Name(operand));
    for (const std::string& result : results) call.results.push_back(Name(result));
    return call;
  }

  Graph Import() {
    ImportOptions options;
    options.dims["batch"] = 4;
    Importer importer(file_, "folder/m.pt2", options);
    importer.AddInputs();
    for (const FileTensor& tensor : file_.tensors) importer.AddTensor(tensor, true);
    for (const OpCall& call : file_.calls) {
      importer.AddCall(call, call.op == "aten.relu"    ? kRelu
                             : call.op == "aten.scale" ? kScale
                                                       : kSum);
    }
    return importer.Finish();
  }

  std::string Error() {
    try {
      Import();
    } catch (const InputError& error) {
      return error.what();
    }
    return "imported";
  }

  ModelFile file_;
};

TEST_F(ImporterTest, AGraph) {
  const Graph graph = Import();
  EXPECT_EQ(graph.name, "m");
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  EXPECT_THAT(ops, ElementsAre("Relu", "Mul", "Add", "ReduceSum"));
  EXPECT_EQ(graph.value(graph.nodes[0].results[0]).type.shape, (Shape{4, 3}));
  EXPECT_EQ(graph.value(graph.nodes[2].results[0]).name, "y");
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "loss");
  EXPECT_EQ(graph.ValuesOf(ValueKind::kParameter).size(), 1u);
}

TEST_F(ImporterTest, ErrorsSayWhere) {
  OpCall& scale = file_.calls[1];
  scale.attributes["factor"] = std::string("two");
  EXPECT_EQ(Error(), "folder/m.pt2: node 'scale' (aten.scale): attribute 'factor' must be a float");
  scale.attributes.erase("factor");
  EXPECT_THAT(Error(), HasSubstr("node 'scale' (aten.scale): attribute 'factor' is missing"));
  scale.attributes["factor"] = 2.0;
  scale.attributes["table"] = UnreadAttribute{};
  EXPECT_THAT(Error(), HasSubstr("attribute 'table' must be a tensor"));
  scale.attributes.erase("table");
  scale.attributes["slope"] = int64_t{1};
  EXPECT_THAT(Error(), HasSubstr("attribute 'slope' is not supported"));
  scale.attributes.erase("slope");
  scale.operands.clear();
  EXPECT_THAT(Error(), HasSubstr("node 'scale' (aten.scale): has 0 operands"));
}

TEST_F(ImporterTest, WhatTheFileStatesMustBeWhatIsFound) {
  file_.values = {{.name = "a", .id = Name("a"), .dtype = DType::kF32, .shape = {{{.size = 5}}}}};
  EXPECT_EQ(Error(),
            "folder/m.pt2: node 'relu' (aten.relu): value 'a' is f32[4,3], but the file states "
            "f32[5]; export it again");
}

TEST_F(ImporterTest, TensorsOfOneStorageAreOneParameter) {
  file_.tensors.push_back({.name = "tied", .id = Name("tied"), .type = {DType::kF32, {3}}});
  for (FileTensor& tensor : file_.tensors) tensor.storage = "data/0";
  file_.calls.back().operands = {Name("z")};
  OpCall scale = file_.calls[1];
  scale.operands = {Name("y"), Name("tied")};
  scale.results = {Name("z")};
  file_.calls.insert(file_.calls.begin() + 2, scale);
  EXPECT_EQ(Import().ValuesOf(ValueKind::kParameter).size(), 1u);
}

}  // namespace
}  // namespace heddle
