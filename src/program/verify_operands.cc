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
  const StageProgram& stage(int s) const { return program_.stages[static_cast<size_t>(s)]; }
  const StageProgram& stage() const { return stage(now().stage); }
  const Local& local(int l) const { return stage().locals[static_cast<size_t>(l)]; }
  const ParameterGroup& group(int g) const { return stage().groups[static_cast<size_t>(g)]; }
  void Wrong(const std::string& why) { findings_.Add(program_, r_, i_, why); }

  Wanted Of(BufferKind kind, int microbatch = -1, int version = 0) const {
    return {Buffer{kind, now().stage, now().index, microbatch, version}, false};
  }

  // Local l of the instruction's stage at its micro-batch.
  Wanted At(int l, int microbatch, bool any_version) const {
    const Local& at = local(l);
    if (at.source.kind == SourceKind::kParameter) {
      bool gathered = Visits(group(at.source.from));
      BufferKind kind = gathered ? BufferKind::kGathered : BufferKind::kWeights;
      return {Buffer{kind, now().stage, at.source.from, -1, 0}, gathered};
    }
    return {Buffer{BufferKind::kLocal, now().stage, l, at.once ? -1 : microbatch, 0}, any_version};
  }
  Wanted At(int l) const { return At(l, now().microbatch, true); }

  std::string NameOf(BufferId id) const {
    return id.valid() ? BufferName(program_, run_.buffers[id.index()]) : "nothing";
  }

  void Compare(std::string_view verb, const BufferIds& is, const WantedList& wanted) {
    if (is.size() != wanted.size()) {
      return Wrong(fmt::format("{} {} buffers, must be {}", verb, is.size(), wanted.size()));
    }
    for (size_t i = 0; i < is.size(); ++i) {
      const std::optional<Buffer>& buffer = wanted[i].buffer;
      bool fits = is[i].valid() == buffer.has_value();
      if (fits && buffer) fits = wanted[i].Fits(run_.buffers[is[i].index()]);
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
        if (IsLocal(stage().steps[static_cast<size_t>(local(now().index).source.step)].kind))
          wanted = Stream::kCompute;
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
        if (local(now().index).source.kind != SourceKind::kLoad) Wrong("loads what is no input");
        return Compare({}, {At(now().index)}, {});
      case Opcode::kReshard:
        return Compare({At(local(now().index).source.from)}, {At(now().index)}, {});
      case Opcode::kSum:
        return CheckSum();
      case Opcode::kAddGradient:
        return CheckAddGradient();
      case Opcode::kFactorGradient:
        return CheckFactorGradient();
      case Opcode::kSend:
        return Compare({At(program_.transfers[static_cast<size_t>(now().index)].from_local)}, {},
                       {});
      case Opcode::kRecv:
        return Compare({}, {At(program_.transfers[static_cast<size_t>(now().index)].to_local)}, {});
      case Opcode::kSyncTied:
        return CheckSyncTied();
      case Opcode::kReport:
        return CheckReport();
      default:
        return CheckGroup();
    }
  }

  void CheckForward() {
    const Segment& segment = stage().segments[static_cast<size_t>(now().index)];
    WantedList reads, writes;
    for (const SegmentInput& input : segment.inputs)
      reads.push_back(At(input.local, now().microbatch, now().recompute));
    for (const SegmentOutput& output : segment.outputs) {
      writes.push_back(At(output.local));
      writes.back().any_version = false;
      writes.back().buffer->version = now().recompute ? 1 : 0;
    }
    bool keeps = segment.has_backward && (segment.unit < 0 || now().recompute);
    if (keeps) writes.push_back(Of(BufferKind::kSaved, now().microbatch));
    Compare(reads, writes, {});
  }

  void CheckBackward() {
    const Segment& segment = stage().segments[static_cast<size_t>(now().index)];
    Half half = now().half;
    WantedList reads, writes, adds;
    for (const SegmentOutput& output : segment.outputs) {
      if (half == Half::kW) break;
      bool comes = output.gradient >= 0 && local(output.gradient).source.kind != SourceKind::kSeed;
      reads.push_back(comes ? At(output.gradient, now().microbatch, false) : Wanted{});
    }
    reads.push_back(Of(BufferKind::kSaved, now().microbatch));
    for (const SegmentInput& input : segment.inputs) {
      Wanted from = At(input.local);
      if (from.buffer->kind == BufferKind::kGathered) reads.push_back(from);
      if (input.again)
        reads.push_back(
            {Buffer{BufferKind::kLocal, now().stage, input.local, now().microbatch, 1}, false});
      if (half != Half::kBW && (half == Half::kW) != input.late) continue;
      if (input.trained)
        AddOnce(adds, GradientsOf(now().stage, from.buffer->index, now().microbatch));
      if (input.gradient < 0) continue;
      Wanted gradient = At(input.gradient, now().microbatch, false);
      if (local(input.gradient).once) {
        AddOnce(adds, gradient);
      } else {
        writes.push_back(gradient);
      }
    }
    Compare(reads, writes, adds);
  }

  Wanted GradientsOf(int s, int g, int microbatch) const {
    bool each = stage(s).groups[static_cast<size_t>(g)].zero >= 2;
    return {Buffer{BufferKind::kWeightGradients, s, g, each ? microbatch : -1, 0}, false};
  }

  static void AddOnce(WantedList& list, const Wanted& wanted) {
    bool there = std::any_of(list.begin(), list.end(),
                             [&](const Wanted& at) { return *at.buffer == *wanted.buffer; });
    if (!there) list.push_back(wanted);
  }

  void CheckSum() {
    const Source& source = local(now().index).source;
    WantedList reads;
    if (source.kind == SourceKind::kMicrobatchSum) {
      for (int m = 0; m < program_.microbatches; ++m) reads.push_back(At(source.from, m, false));
    } else {
      for (int term : source.terms) reads.push_back(At(term));
    }
    if (reads.empty()) Wrong("sums what is no sum");
    Compare(reads, {At(now().index)}, {});
  }

  void CheckAddGradient() {
    const std::vector<int>& gradients = stage().parameter_gradients;
    if (std::find(gradients.begin(), gradients.end(), now().index) == gradients.end()) {
      return Wrong("adds what is no gradient of a parameter");
    }
    const Local& gradient = local(now().index);
    for (const Local& at : stage().locals) {
      if (at.source.kind != SourceKind::kParameter || at.value != gradient.value) continue;
      return Compare({At(now().index)}, {}, {GradientsOf(now().stage, at.source.from, -1)});
    }
    Wrong("adds the gradient of what is no parameter");
  }

  void CheckFactorGradient() {
    const FactorGradient& gradient = stage().factor_gradients[static_cast<size_t>(now().index)];
    WantedList reads;
    for (int factor : gradient.factors) reads.push_back(At(factor));
    int group = local(gradient.parameter).source.from;
    Compare(reads, {}, {GradientsOf(now().stage, group, now().microbatch)});
  }

  bool IsHere(int s) const {
    return std::find(run_.stages.begin(), run_.stages.end(), s) != run_.stages.end();
  }

  void CheckSyncTied() {
    WantedList held;
    for (const auto& [s, g] : program_.tied[static_cast<size_t>(now().index)].holders) {
      if (IsHere(s)) held.push_back({FinalGradients(program_, s, g), false});
    }
    Compare(held, {}, held);
  }

  void CheckReport() {
    WantedList reads;
    for (int s : run_.stages) {
      if (stage(s).loss < 0) continue;
      for (int m = 0; m < program_.microbatches; ++m) {
        reads.push_back({Buffer{BufferKind::kLocal, s, stage(s).loss, m, 0}, false});
      }
    }
    for (int s : run_.stages) {
      for (size_t g = 0; g < stage(s).groups.size(); ++g) {
        if (stage(s).groups[g].trained && !stage(s).groups[g].spilled)
          reads.push_back({FinalGradients(program_, s, static_cast<int>(g)), false});
      }
    }
    Compare(reads, {ReportOf()}, {});
  }
  Wanted ReportOf() const { return {Buffer{BufferKind::kReport, run_.home(), 0, -1, 0}, false}; }

  bool IsOfHostWeights() const {
    return now().adds.size() == 1 &&
           run_.buffers[now().adds[0].index()].kind == BufferKind::kHostWeights;
  }

  void CheckGroup() {
    Wanted weights = Of(BufferKind::kWeights), reduced = Of(BufferKind::kReduced);
    int zero = group(now().index).zero;
    bool spilled = group(now().index).spilled;
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
          return Compare({{FinalGradients(program_, now().stage, now().index), false}, gathered},
                         {}, {gathered, Of(BufferKind::kOptimizer)});
        }
        return Compare({{FinalGradients(program_, now().stage, now().index), false}, ReportOf()},
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
        if (zero == 0 && group(now().index).server < 0) Wrong("gathers weights that are not split");
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
