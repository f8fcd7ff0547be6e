#include "sim/alike_stages.h"

#include <algorithm>
#include <unordered_map>

namespace heddle {
namespace {

class Comparison {
 public:
  Comparison(const Program& program, const StageProgram& a, const StageProgram& b)
      : program_(program), a_(a), b_(b) {}

  bool Run() {
    // Gradient factors refer to nodes, and this comparison does not match nodes.
    bool factors = !a_.factor_gradients.empty() || !b_.factor_gradients.empty();
    return !factors && a_.locals.size() == b_.locals.size() && a_.mesh.axes == b_.mesh.axes &&
           a_.parameter_gradients == b_.parameter_gradients &&
           std::equal(a_.segments.begin(), a_.segments.end(), b_.segments.begin(),
                      b_.segments.end(),
                      [&](const Segment& a, const Segment& b) { return Alike(a, b); }) &&
           std::equal(a_.locals.begin(), a_.locals.end(), b_.locals.begin(), b_.locals.end(),
                      [&](const Local& a, const Local& b) { return Alike(a, b); }) &&
           std::equal(
               a_.groups.begin(), a_.groups.end(), b_.groups.begin(), b_.groups.end(),
               [&](const ParameterGroup& a, const ParameterGroup& b) { return Alike(a, b); }) &&
           a_.steps == b_.steps;
  }

 private:
  const Graph& graph() const { return program_.model.graph; }

  // Whether `a` can stand for `b`: a value of one stage always corresponds to the same value of the other.
  bool Alike(ValueId a, ValueId b) {
    auto [forth, fresh] = forth_.try_emplace(a, b);
    auto [back, fresh_back] = back_.try_emplace(b, a);
    if (forth->second != b || back->second != a) return false;
    const GradientFlow& flow = program_.model.flow;
    return !fresh || (graph().value(a).type == graph().value(b).type &&
                      graph().value(a).kind == graph().value(b).kind &&
                      flow.needed[a.index()] == flow.needed[b.index()] &&
                      flow.weight[a.index()] == flow.weight[b.index()]);
  }

  bool Alike(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](ValueId x, ValueId y) { return Alike(x, y); });
  }

  bool Alike(NodeId a, NodeId b) {
    const Node& first = graph().node(a);
    const Node& second = graph().node(b);
    return &program_.micro_rules[a.index()] == &program_.micro_rules[b.index()] &&
           first.op == second.op && a_.strategies[a.index()] == b_.strategies[b.index()] &&
           Alike(first.operands, second.operands) && Alike(first.results, second.results);
  }

  bool Alike(const Segment& a, const Segment& b) {
    return a.phase == b.phase && a.has_backward == b.has_backward && a.inputs == b.inputs &&
           a.outputs == b.outputs && a.operands == b.operands &&
           std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                      [&](NodeId x, NodeId y) { return Alike(x, y); });
  }

  bool Alike(const Local& a, const Local& b) {
    bool received = a.Is<FromTransfer>() && b.Is<FromTransfer>();
    return a.dtype == b.dtype && a.gradient == b.gradient && a.once == b.once &&
           (received || a.source == b.source) && a.sharding == b.sharding &&
           Alike(a.value, b.value);
  }

  bool Alike(const ParameterGroup& a, const ParameterGroup& b) {
    return a.reduce_axes == b.reduce_axes && a.zero_axes == b.zero_axes && a.zero == b.zero &&
           a.trained == b.trained && a.tied == b.tied && a.offloaded == b.offloaded &&
           a.spilled == b.spilled && a.server == b.server &&
           std::equal(a.slots.begin(), a.slots.end(), b.slots.begin(), b.slots.end(),
                      [&](const ParameterSlot& x, const ParameterSlot& y) {
                        return x.sharding == y.sharding && x.kept == y.kept &&
                               Alike(x.parameter, y.parameter);
                      });
  }

  const Program& program_;
  const StageProgram& a_;
  const StageProgram& b_;
  std::unordered_map<ValueId, ValueId> forth_, back_;
};

}  // namespace

bool AreAlike(const Program& program, const StageProgram& a, const StageProgram& b) {
  return Comparison(program, a, b).Run();
}

}  // namespace heddle
