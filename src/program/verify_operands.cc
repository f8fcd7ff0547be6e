// The buffers of every instruction against what its segment, Local, transfer or group names.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "program/text.h"
#include "program/verify_parts.h"

namespace heddle {
namespace {

// A buffer that is wanted; none where nothing must come.
struct Wanted {
  std::optional<Buffer> buffer;
  bool any_version = false;

  bool Fits(const Buffer& is) const {
    Buffer wanted = *buffer;
    if (any_version) wanted.version = is.version;
    return is == wanted;
  }
};
using WantedList = std::vector<Wanted>;

class OperandCheck {
 public:
  OperandCheck(const Program& program, size_t run, Findings& findings)
      : program_(program), run_(program.runs[run]), r_(run), findings_(findings) {}

  void Run() {
    for (i_ = 0; i_ < run_.instructions.size(); ++i_) {
      CheckStream();
      CheckInstruction();
    }
  }

 private:
  const Instruction& now() const { return run_.instructions[i_]; }
  const StageProgram& stage(StageId s) const { return program_.stages[s]; }
  const StageProgram& stage() const { return stage(now().stage); }
  const Local& local(LocalId l) const { return stage().locals[l]; }
  const Local& local() const { return local(now().local()); }
  const ParameterGroup& group(ParameterGroupId g) const { return stage().groups[g]; }
  void Wrong(const std::string& why) { findings_.Add(program_, r_, i_, why); }

  // Of the instruction's group, or of its segment.
  Wanted Of(BufferKind kind, int microbatch = -1, int version = 0) const {
    return {Buffer{kind, now().stage, now().group(), microbatch, version}, false};
  }
  Wanted Saved() const {
    return {Buffer{BufferKind::kSaved, now().stage, now().segment(), now().microbatch, 0}, false};
  }

  // Local l of the instruction's stage at its micro-batch.
  Wanted At(LocalId l, int microbatch, bool any_version) const {
    const Local& at = local(l);
    if (at.Is<FromParameter>()) {
      ParameterGroupId stored = at.As<FromParameter>().group;
      bool gathered = Visits(group(stored));
      BufferKind kind = gathered ? BufferKind::kGathered : BufferKind::kWeights;
      return {Buffer{kind, now().stage, stored, -1, 0}, gathered};
    }
    return {Buffer{BufferKind::kLocal, now().stage, l, at.once ? -1 : microbatch, 0}, any_version};
  }
  Wanted At(LocalId l) const { return At(l, now().microbatch, true); }

  std::string NameOf(BufferId id) const {
    return id.valid() ? BufferName(program_, run_.buffers[id]) : "nothing";
  }

  void Compare(std::string_view verb, const BufferIds& is, const WantedList& wanted) {
    if (is.size() != wanted.size()) {
      return Wrong(fmt::format("{} {} buffers, must be {}", verb, is.size(), wanted.size()));
    }
    for (size_t i = 0; i < is.size(); ++i) {
      const std::optional<Buffer>& buffer = wanted[i].buffer;
      bool fits = is[i].valid() == buffer.has_value();
      if (fits && buffer) fits = wanted[i].Fits(run_.buffers[is[i]]);
      if (fits) continue;
      Wrong(fmt::format("{} {}, must be {}", verb, NameOf(is[i]),
                        buffer ? BufferName(program_, *buffer) : "nothing"));
    }
  }
  void Compare(const WantedList& reads, const WantedList& writes, const WantedList& adds) {
    Compare("reads", now().reads, reads);
    Compare("writes", now().writes, writes);
    Compare("adds to", now().adds, adds);
  }

  void CheckStream() {
    Stream wanted = Stream::kCommunication;
    switch (now().op) {
      case Opcode::kLoad:
      case Opcode::kFetch:
        wanted = Stream::kCopy;
        break;
      case Opcode::kEvict:
        wanted = Stream::kCopyOut;
        break;
      case Opcode::kReshard:
        if (IsLocal(stage().steps[local().As<FromReshard>().step].kind)) wanted = Stream::kCompute;
        break;
      case Opcode::kRun:
      case Opcode::kSum:
      case Opcode::kAddGradient:
      case Opcode::kFactorGradient:
      case Opcode::kUpdate:
        wanted = Stream::kCompute;
        break;
      default:
        break;
    }
    if (now().stream != wanted) {
      Wrong(fmt::format("is on the {} stream, must be on {}",
                        kStreamNames[static_cast<size_t>(now().stream)],
                        kStreamNames[static_cast<size_t>(wanted)]));
    }
  }

  void CheckInstruction() {
    switch (now().op) {
      case Opcode::kRun:
        return now().half == Half::kF ? CheckForward() : CheckBackward();
      case Opcode::kLoad:
        if (!local().Is<FromLoad>()) Wrong("loads what is no input");
        return Compare({}, {At(now().local())}, {});
      case Opcode::kReshard:
        return Compare({At(local().As<FromReshard>().local)}, {At(now().local())}, {});
      case Opcode::kSum:
        return CheckSum();
      case Opcode::kAddGradient:
        return CheckAddGradient();
      case Opcode::kFactorGradient:
        return CheckFactorGradient();
      case Opcode::kSend:
        return Compare({At(program_.transfers[now().transfer()].from_local)}, {}, {});
      case Opcode::kRecv:
        return Compare({}, {At(program_.transfers[now().transfer()].to_local)}, {});
      case Opcode::kSyncTied:
        return CheckSyncTied();
      case Opcode::kReport:
        return CheckReport();
      default:
        return CheckGroup();
    }
  }

  void CheckForward() {
    const Segment& segment = stage().segments[now().segment()];
    WantedList reads, writes;
    for (const SegmentInput& input : segment.inputs)
      reads.push_back(At(input.local, now().microbatch, now().recompute));
    for (const SegmentOutput& output : segment.outputs) {
      writes.push_back(At(output.local));
      writes.back().any_version = false;
      writes.back().buffer->version = now().recompute ? 1 : 0;
    }
    bool keeps = segment.has_backward && (!segment.unit.valid() || now().recompute);
    if (keeps) writes.push_back(Saved());
    Compare(reads, writes, {});
  }

  void CheckBackward() {
    const Segment& segment = stage().segments[now().segment()];
    Half half = now().half;
    WantedList reads, writes, adds;
    for (const SegmentOutput& output : segment.outputs) {
      if (half == Half::kW) break;
      bool comes = output.gradient.valid() && !local(output.gradient).Is<FromSeed>();
      reads.push_back(comes ? At(output.gradient, now().microbatch, false) : Wanted{});
    }
    reads.push_back(Saved());
    for (const SegmentInput& input : segment.inputs) {
      Wanted from = At(input.local);
      if (from.buffer->kind == BufferKind::kGathered) reads.push_back(from);
      if (input.again)
        reads.push_back(
            {Buffer{BufferKind::kLocal, now().stage, input.local, now().microbatch, 1}, false});
      if (half != Half::kBW && (half == Half::kW) != input.late) continue;
      if (input.trained)
        AddOnce(adds, GradientsOf(now().stage, from.buffer->group(), now().microbatch));
      if (!input.gradient.valid()) continue;
      Wanted gradient = At(input.gradient, now().microbatch, false);
      if (local(input.gradient).once) {
        AddOnce(adds, gradient);
      } else {
        writes.push_back(gradient);
      }
    }
    Compare(reads, writes, adds);
  }

  Wanted GradientsOf(StageId s, ParameterGroupId g, int microbatch) const {
    bool each = stage(s).groups[g].zero >= 2;
    return {Buffer{BufferKind::kWeightGradients, s, g, each ? microbatch : -1, 0}, false};
  }

  static void AddOnce(WantedList& list, const Wanted& wanted) {
    bool there = std::any_of(list.begin(), list.end(),
                             [&](const Wanted& at) { return *at.buffer == *wanted.buffer; });
    if (!there) list.push_back(wanted);
  }

  void CheckSum() {
    WantedList reads;
    if (local().Is<FromMicrobatchSum>()) {
      LocalId term = local().As<FromMicrobatchSum>().local;
      for (int m = 0; m < program_.microbatches; ++m) reads.push_back(At(term, m, false));
    } else if (local().Is<FromSum>()) {
      for (LocalId term : local().As<FromSum>().terms) reads.push_back(At(term));
    }
    if (reads.empty()) Wrong("sums what is no sum");
    Compare(reads, {At(now().local())}, {});
  }

  void CheckAddGradient() {
    const std::vector<LocalId>& gradients = stage().parameter_gradients;
    if (std::find(gradients.begin(), gradients.end(), now().local()) == gradients.end()) {
      return Wrong("adds what is no gradient of a parameter");
    }
    const Local& gradient = local();
    for (const Local& at : stage().locals) {
      if (!at.Is<FromParameter>() || at.value != gradient.value) continue;
      return Compare({At(now().local())}, {},
                     {GradientsOf(now().stage, at.As<FromParameter>().group, -1)});
    }
    Wrong("adds the gradient of what is no parameter");
  }

  void CheckFactorGradient() {
    const FactorGradient& gradient = stage().factor_gradients[now().factor_gradient()];
    WantedList reads;
    for (LocalId factor : gradient.factors) reads.push_back(At(factor));
    ParameterGroupId group = local(gradient.parameter).As<FromParameter>().group;
    Compare(reads, {}, {GradientsOf(now().stage, group, now().microbatch)});
  }

  bool IsHere(StageId s) const {
    return std::find(run_.stages.begin(), run_.stages.end(), s) != run_.stages.end();
  }

  void CheckSyncTied() {
    WantedList held;
    for (const auto& [s, g] : program_.tied[now().tied()].holders) {
      if (IsHere(s)) held.push_back({FinalGradients(program_, s, g), false});
    }
    Compare(held, {}, held);
  }

  void CheckReport() {
    WantedList reads;
    for (StageId s : run_.stages) {
      if (!stage(s).loss.valid()) continue;
      for (int m = 0; m < program_.microbatches; ++m) {
        reads.push_back({Buffer{BufferKind::kLocal, s, stage(s).loss, m, 0}, false});
      }
    }
    for (StageId s : run_.stages) {
      for (ParameterGroupId g : stage(s).groups.ids()) {
        if (stage(s).groups[g].trained && !stage(s).groups[g].spilled)
          reads.push_back({FinalGradients(program_, s, g), false});
      }
    }
    Compare(reads, {ReportOf()}, {});
  }
  Wanted ReportOf() const { return {Buffer{BufferKind::kReport, run_.home(), {}, -1, 0}, false}; }

  bool IsOfHostWeights() const {
    return now().adds.size() == 1 && run_.buffers[now().adds[0]].kind == BufferKind::kHostWeights;
  }

  void CheckGroup() {
    Wanted weights = Of(BufferKind::kWeights), reduced = Of(BufferKind::kReduced);
    int zero = group(now().group()).zero;
    bool spilled = group(now().group()).spilled;
    Wanted gathered{Of(BufferKind::kGathered).buffer, true};
    switch (now().op) {
      case Opcode::kReduceGradients: {
        WantedList none, made = {reduced};
        return Compare({Of(BufferKind::kWeightGradients, now().microbatch)},
                       zero >= 2 ? none : made, zero >= 2 ? made : none);
      }
      case Opcode::kReduceShards:
        return Compare({reduced}, {Of(BufferKind::kReduced, -1, 1)}, {});
      case Opcode::kUpdate:
        if (spilled) {
          return Compare({{FinalGradients(program_, now().stage, now().group()), false}, gathered},
                         {}, {gathered, Of(BufferKind::kOptimizer)});
        }
        return Compare({{FinalGradients(program_, now().stage, now().group()), false}, ReportOf()},
                       {}, {weights, Of(BufferKind::kOptimizer)});
      case Opcode::kFetch:
        if (spilled && !now().writes.empty())
          return Compare({Of(BufferKind::kHostWeights)}, {gathered}, {});
        return Compare({Of(BufferKind::kHostOptimizer)}, {}, {Of(BufferKind::kOptimizer)});
      case Opcode::kEvict:
        if (spilled && IsOfHostWeights()) {
          return Compare({gathered}, {}, {Of(BufferKind::kHostWeights)});
        }
        return Compare({Of(BufferKind::kOptimizer)}, {}, {Of(BufferKind::kHostOptimizer)});
      default: {
        if (zero == 3) return Compare({weights}, {gathered}, {});
        if (zero == 0 && group(now().group()).server < 0)
          Wrong("gathers weights that are not split");
        return Compare({weights}, {}, {weights});
      }
    }
  }

  const Program& program_;
  const DeviceProgram& run_;
  size_t r_;
  Findings& findings_;
  size_t i_ = 0;
};

}  // namespace

void CheckOperands(const Program& program, Findings& findings) {
  for (size_t r = 0; r < program.runs.size(); ++r) OperandCheck(program, r, findings).Run();
}

}  // namespace heddle
