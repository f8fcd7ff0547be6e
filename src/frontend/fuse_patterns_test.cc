#include "frontend/fuse_patterns.h"

#include "ops/op.h"

namespace heddle {

std::string PatternModel::Name(std::string_view prefix) {
  return std::string(prefix) + "." + std::to_string(graph_.values.size());
}

std::vector<double> PatternModel::Random(const Shape& shape) {
  std::normal_distribution<double> normal;
  std::vector<double> numbers(static_cast<size_t>(ElementCount(shape)));
  for (double& number : numbers) number = normal(rng_);
  return numbers;
}

ValueId PatternModel::Input(Shape shape) {
  return graph_.AddValue(Name("input"), {DType::kF32, std::move(shape)}, ValueKind::kInput);
}

ValueId PatternModel::Parameter(Shape shape) {
  auto data = std::make_shared<const HostTensor>(MakeTensor(DType::kF32, shape, Random(shape)));
  return graph_.AddValue(Name("parameter"), data->type(), ValueKind::kParameter, data);
}

ValueId PatternModel::Constant(Shape shape, std::span<const double> numbers, DType dtype) {
  auto data = std::make_shared<const HostTensor>(MakeTensor(dtype, std::move(shape), numbers));
  return graph_.AddValue(Name("constant"), data->type(), ValueKind::kConstant, data);
}

ValueId PatternModel::Scalar(double number) { return Constant({}, std::vector<double>{number}); }

ValueId PatternModel::Activation(Shape shape) {
  ValueId input = Input(shape);
  return (*this)("Sub", {input, Parameter(std::move(shape))});
}

ValueId PatternModel::CausalMask(int64_t size, double low, DType dtype) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) numbers.push_back(j <= i ? 0 : low);
  }
  return Constant({1, 1, size, size}, numbers, dtype);
}

ValueId PatternModel::operator()(std::string_view op, std::vector<ValueId> operands,
                                 Attributes attributes) {
  return AddOp(graph_, op, std::move(attributes), std::move(operands), Name(op)).front();
}

Graph PatternModel::Finish(std::vector<ValueId> values) {
  std::optional<ValueId> loss;
  for (ValueId value : values) {
    Shape whole = shape(value);
    std::vector<int64_t> axes;
    for (size_t d = 0; d < whole.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    ValueId weighted = (*this)("Mul", {value, Constant(whole, Random(whole))});
    ValueId sum = (*this)("ReduceSum", {weighted}, {{"axes", axes}, {"keepdims", int64_t{0}}});
    loss = loss ? (*this)("Add", {*loss, sum}) : sum;
  }
  graph_.outputs = {*loss};
  return std::move(graph_);
}

std::string PatternOps(const Graph& graph) {
  std::string ops;
  for (size_t n = 0; n + 2 < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op == "Sub") continue;
    ops += ops.empty() ? "" : " ";
    ops += graph.nodes[n].op;
  }
  return ops;
}

}  // namespace heddle
