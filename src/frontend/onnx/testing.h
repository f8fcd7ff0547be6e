// Small ONNX models for tests, built in memory.
//
//   TestModel m;
//   m.Input("x", {4, 8});
//   m.Node("Relu", {"x"}, {"y"});
//   m.Loss("y");                       // a scalar output that depends on y
//   EXPECT_EQ(m.Ops(), "Relu ReduceSum");
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "frontend/import_options.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/onnx_subset.pb.h"
#include "graph/graph.h"

namespace heddle {

inline constexpr int kOnnxFloat = 1, kOnnxUInt8 = 2, kOnnxInt32 = 6, kOnnxInt64 = 7, kOnnxBool = 9;

// A node under construction: .Int("axis", 1).Ints("pads", {...}).
class TestNode {
 public:
  explicit TestNode(heddle_onnx::NodeProto* proto) : proto_(proto) {}
  TestNode& Int(const std::string& name, int64_t value) {
    Add(name, 2)->set_i(value);
    return *this;
  }
  TestNode& Float(const std::string& name, float value) {
    Add(name, 1)->set_f(value);
    return *this;
  }
  TestNode& String(const std::string& name, const std::string& value) {
    Add(name, 3)->set_s(value);
    return *this;
  }
  TestNode& Ints(const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = Add(name, 7);
    for (const int64_t value : values) attribute->add_ints(value);
    return *this;
  }
  heddle_onnx::NodeProto& proto() { return *proto_; }

 private:
  heddle_onnx::AttributeProto* Add(const std::string& name, int type) {
    auto* attribute = proto_->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }
  heddle_onnx::NodeProto* proto_;
};

class TestModel {
 public:
  explicit TestModel(int64_t opset = 18) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("g");
  }

  heddle_onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  static void SetInfo(heddle_onnx::ValueInfoProto* info, const std::string& name,
                      const Shape& shape, int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t dim : shape) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  void Input(const std::string& name, const Shape& shape, int type = kOnnxFloat) {
    SetInfo(graph().add_input(), name, shape, type);
  }
  void State(const std::string& name, const Shape& shape, int type = kOnnxFloat) {
    SetInfo(graph().add_value_info(), name, shape, type);
  }
  void Output(const std::string& name) { graph().add_output()->set_name(name); }

  // A float initializer whose elements are all `value`.
  heddle_onnx::TensorProto& Weight(const std::string& name, const Shape& shape,
                                   float value = 0.5f) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kOnnxFloat);
    int64_t count = 1;
    for (const int64_t dim : shape) {
      tensor->add_dims(dim);
      count *= dim;
    }
    for (int64_t i = 0; i < count; ++i) tensor->add_float_data(value);
    return *tensor;
  }
  // A vector of int64, or with `scalar` its only element as a scalar.
  void Ints(const std::string& name, const std::vector<int64_t>& values, bool scalar = false) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(kOnnxInt64);
    if (!scalar) tensor->add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t value : values) tensor->add_int64_data(value);
  }
  void Number(const std::string& name, float value) { Weight(name, {}, value); }

  TestNode Node(const std::string& op, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs) {
    auto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name("n" + std::to_string(graph().node_size()));
    for (const auto& input : inputs) node->add_input(input);
    for (const auto& output : outputs) node->add_output(output);
    return TestNode(node);
  }

  // Makes the sum of y the output, through a Cast where y is not of a float type.
  void Loss(const std::string& y, bool cast = false) {
    std::string from = y;
    if (cast) {
      from = y + "_cast";
      Node("Cast", {y}, {from}).Int("to", kOnnxFloat);
    }
    Node("ReduceSum", {from}, {"loss"}).Int("keepdims", 0);
    Output("loss");
  }

  std::string Bytes() const { return proto.SerializeAsString(); }

  Graph Import(const ImportOptions& options = {}) const {
    return ImportOnnxBytes(Bytes(), "m.onnx", "/nonexistent", options);
  }
  // The message of the error, or "imported".
  std::string Error(const ImportOptions& options = {}) const {
    try {
      Import(options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "imported";
  }
  // The ops of the graph in order, or the message of the error.
  std::string Ops(const ImportOptions& options = {}) const {
    try {
      std::string text;
      for (const auto& node : Import(options).nodes) text += (text.empty() ? "" : " ") + node.op;
      return text;
    } catch (const InputError& error) {
      return error.what();
    }
  }

  heddle_onnx::ModelProto proto;
};

// The first node of an op in a graph.
inline const Node& Find(const Graph& graph, std::string_view op) {
  for (const Node& node : graph.nodes) {
    if (node.op == op) return node;
  }
  throw std::runtime_error(fmt::format("no {} in the graph", op));
}

inline Shape ResultShape(const Graph& graph, std::string_view op) {
  return graph.value(Find(graph, op).results[0]).type.shape;
}

inline std::vector<int64_t> IntsOf(const Graph& graph, std::string_view op, std::string_view name) {
  return IntsAttr(Find(graph, op).attributes, name);
}

// A model with one node on an input x of the given shape.
inline TestModel One(const std::string& op, const Shape& x, int64_t opset = 18) {
  TestModel m(opset);
  m.Input("x", x);
  m.Node(op, {"x"}, {"y"});
  m.Loss("y");
  return m;
}

}  // namespace heddle
