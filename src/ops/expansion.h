// Writing expansions: graphs of primitives read like formulas.
//
//   Primitives p(context);
//   ValueId mean = p("Mul", {p("ReduceSum", {p.operand(0)}, {{"axes", axes}}), p.Scalar(1.0 / n)});
//   return p.Finish({mean});
#pragma once

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "ops/op.h"

namespace heddle {

class Primitives {
 public:
  explicit Primitives(const OpContext& context) {
    for (size_t o = 0; o < context.operands.size(); ++o) {
      operands_.push_back(
          graph_.AddValue(fmt::format("operand{}", o), context.operands[o], ValueKind::kInput));
    }
  }

  ValueId operand(size_t index) const { return operands_[index]; }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // A constant scalar of the given type.
  ValueId Scalar(double value, DType dtype = DType::kF32) {
    auto data = std::make_shared<HostTensor>(MakeTensor(dtype, {}, std::vector<double>{value}));
    return graph_.AddValue(Fresh(), data->type(), ValueKind::kConstant, data);
  }

  // An op's only result.
  ValueId operator()(std::string_view op, std::vector<ValueId> operands,
                     Attributes attributes = {}) {
    return AddOp(graph_, op, std::move(attributes), std::move(operands), Fresh()).front();
  }

  Graph Finish(std::vector<ValueId> outputs) {
    graph_.outputs = std::move(outputs);
    return std::move(graph_);
  }

 private:
  std::string Fresh() { return fmt::format("v{}", next_++); }

  Graph graph_;
  std::vector<ValueId> operands_;
  int next_ = 0;
};

}  // namespace heddle
