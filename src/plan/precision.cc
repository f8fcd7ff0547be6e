#include "plan/precision.h"

#include <algorithm>

#include "ops/op.h"

namespace heddle {
namespace {

std::shared_ptr<const HostTensor> Converted(const HostTensor& tensor, DType dtype) {
  std::vector<double> numbers(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = AsDouble(tensor, static_cast<int64_t>(i));
  return std::make_shared<HostTensor>(MakeTensor(dtype, tensor.type().shape, numbers));
}

}  // namespace

std::string_view PrecisionName(DType compute, Products products) {
  return products == Products::kFp8 ? kProductNames[1] : Name(compute);
}

Model WithComputeType(Model model, DType compute) {
  if (compute == DType::kF32) return model;
  Graph& graph = model.graph;
  for (Value& value : graph.values) {
    if (value.producer.valid() || value.type.dtype != DType::kF32) continue;
    value.type.dtype = compute;
    // Weights are read in fp32, as the master copy; constants as they are computed with.
    if (value.kind == ValueKind::kConstant && value.data)
      value.data = Converted(*value.data, compute);
    if (value.kind == ValueKind::kParameter) value.data = nullptr;
  }
  RuleMaker rules;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    auto to = node.attributes.find("to");
    if (to != node.attributes.end() && to->second == Attribute(std::string(Name(DType::kF32)))) {
      to->second = std::string(Name(compute));
    }
    model.rules.Set(n, rules.Of(graph, node));
    std::vector<TensorType> types = ResultTypes(model.rules[n]);
    for (size_t r = 0; r < types.size(); ++r) graph.value(node.results[r]).type = types[r];
  }
  return model;
}

double PeakRate(const Rates& peak, DType compute, Products products) {
  if (products == Products::kFp8) return peak.fp8;
  switch (compute) {
    case DType::kF16:
      return peak.fp16;
    case DType::kBF16:
      return peak.bf16;
    default:
      return peak.fp32;
  }
}

NamedPrecision FastestPrecision(const Cluster& cluster) {
  auto faster = [&](DType dtype) {
    return std::all_of(cluster.device_types.begin(), cluster.device_types.end(),
                       [&](const DeviceType& type) {
                         return PeakRate(type.peak, dtype, Products::kAsCompute) >
                                PeakRate(type.peak, DType::kF32, Products::kAsCompute);
                       });
  };
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    if (!faster(dtype)) continue;
    return *std::find_if(kPrecisions.begin(), kPrecisions.end(),
                         [&](const NamedPrecision& named) { return named.compute == dtype; });
  }
  return kPrecisions[0];
}

}  // namespace heddle
