// Tests the check of the bound (bound_check.h) with bounds that are too large. Each term of the bound is raised by 5 % on a
// problem where it dominates; the check must then find plans that are faster than the bound.
#include <gtest/gtest.h>

#include "bound_check.h"

namespace heddle {
namespace {

// One term among the scales, and among a group of them.
template <double TermScales::*Term>
double& Of(TermScales& scales) {
  return scales.*Term;
}
template <auto Group, auto Term>
double& Of(TermScales& scales) {
  return scales.*Group.*Term;
}

struct RaisedTerm {
  std::string name;
  double& (*term)(TermScales& scales);
  BoundCase problem;
  FixedDegrees fixed;
};

void PrintTo(const RaisedTerm& at, std::ostream* out) { *out << at.name; }

FixedDegrees DegreesOf(int64_t dp, int64_t pp, int64_t microbatches, int zero,
                       const std::string& schedule = "1f1b") {
  FixedDegrees fixed;
  fixed.dp = dp;
  fixed.tp = 1;
  fixed.pp = pp;
  fixed.microbatches = microbatches;
  fixed.zero = zero;
  fixed.schedule = schedule;
  fixed.chunks = 1;
  fixed.offload = Offload::kNone;
  return fixed;
}

FixedDegrees WithoutRecomputation(FixedDegrees fixed) {
  fixed.recompute = RecomputePolicy::kNone;
  return fixed;
}

FixedDegrees WithInner(int64_t tp, FixedDegrees fixed) {
  fixed.tp = tp;
  return fixed;
}

FixedDegrees WithChunks(int chunks, FixedDegrees fixed) {
  fixed.chunks = chunks;
  return fixed;
}

std::vector<RaisedTerm> RaisedTerms() {
  const std::string wide = "gpt:layers=4,hidden=2048,heads=16,seq=1024,vocab=1024,batch=16";
  const std::string deep = "gpt:layers=8,hidden=4096,heads=32,seq=2048,vocab=512,batch=8";
  const std::string tiny = "gpt:layers=2,hidden=64,heads=2,seq=32,vocab=64,batch=64";
  const std::string held = "gpt:layers=24,hidden=2560,heads=32,seq=32,vocab=256,batch=2";
  const std::string kept = "gpt:layers=48,hidden=512,heads=8,seq=1024,vocab=256,batch=64";
  const std::string sparse = "gpt:layers=2,hidden=4096,heads=32,seq=32,vocab=256,batch=64";
  const std::string sent = "gpt:layers=2,hidden=64,heads=1,seq=64,vocab=64,batch=2048";
  const std::string table = "gpt:layers=1,hidden=1024,heads=8,seq=16,vocab=200000,batch=64";
  const std::string alike = "gpt:layers=1,hidden=7,heads=1,seq=3,vocab=11,batch=1";
  const std::string layers = "gpt:layers=48,hidden=64,heads=2,seq=32,vocab=64,batch=128";
  const std::string two = "gpt:layers=2,hidden=8192,heads=32,seq=8192,vocab=512,batch=8";
  const std::string three = "gpt:layers=3,hidden=4096,heads=32,seq=8192,vocab=512,batch=16";
  const std::string many = "gpt:layers=24,hidden=1024,heads=2,seq=32,vocab=64,batch=128";
  // Computation and traffic take equally long.
  const std::string even = "gpt:layers=40,hidden=4096,heads=32,seq=2048,vocab=512,batch=16";
  const std::string norms = "data/graphs/conv-norms.heddle";  // a chain: nothing runs beside them
  return {
      {"own", Of<&TermScales::own>, {wide, "dgx-h100:1"}, DegreesOf(1, 1, 1, 0)},
      {"kept",
       Of<&TermScales::memory, &MemoryScales::kept>,
       {kept, "dgx-h100:1"},
       WithoutRecomputation(DegreesOf(1, 1, 1, 0))},
      {"state",
       Of<&TermScales::memory, &MemoryScales::state>,
       {held, "dgx-h100:1"},
       WithoutRecomputation(DegreesOf(1, 1, 2, 0))},
      {"fill",
       Of<&TermScales::pipeline, &PipelineScales::fill>,
       {deep, "dgx-h100:1"},
       DegreesOf(1, 4, 1, 0)},
      {"path",
       Of<&TermScales::pipeline, &PipelineScales::path>,
       {deep, "dgx-h100:1"},
       DegreesOf(1, 4, 1, 0)},
      {"transfer",
       Of<&TermScales::pipeline, &PipelineScales::transfer>,
       {sent, "1080tix2:2", 0, DType::kF32},
       DegreesOf(1, 2, 1, 0)},
      {"reduction",
       Of<&TermScales::end, &StepEndScales::reduction>,
       {table, "p3:2", 0, DType::kF16},
       DegreesOf(16, 1, 1, 0)},
      {"update",
       Of<&TermScales::end, &StepEndScales::update>,
       {held, "dgx-h100:1"},
       DegreesOf(1, 1, 1, 0)},
      {"gather",
       Of<&TermScales::end, &StepEndScales::gather>,
       {sparse, "p3:2", 0, DType::kF16},
       DegreesOf(16, 1, 1, 1)},
      {"traffic",
       Of<&TermScales::traffic, &TrafficScales::total>,
       {sparse, "p3:2", 0, DType::kF16},
       DegreesOf(16, 1, 4, 3)},
      {"traffic2",
       Of<&TermScales::traffic, &TrafficScales::total>,
       {sparse, "p3:2", 0, DType::kF16},
       DegreesOf(16, 1, 4, 2)},
      {"host", Of<&TermScales::host>, {tiny, "dgx-h100:1"}, DegreesOf(1, 1, 64, 0)},
      {"recomputed",
       Of<&TermScales::memory, &MemoryScales::recomputed>,
       {kept, "dgx-h100:1", 0.9},
       DegreesOf(1, 1, 1, 0)},
      // Too small to be split: all devices do the same, and the only communication is the report.
      {"report",
       Of<&TermScales::end, &StepEndScales::report>,
       {alike, "p3:128", 0, DType::kF32},
       WithInner(1024, DegreesOf(1, 1, 1, 0))},
      {"statistics",
       Of<&TermScales::statistics>,
       {norms, "p3:16", 0, DType::kF32},
       DegreesOf(128, 1, 1, 0)},
      {"priced_memory",
       Of<&TermScales::memory, &MemoryScales::priced>,
       {kept, "dgx-h100:1", 0.9},
       DegreesOf(1, 1, 1, 0)},
      {"priced_memory_interleaved",
       Of<&TermScales::memory, &MemoryScales::priced>,
       {kept, "dgx-h100:1", 0.9},
       WithChunks(2, DegreesOf(1, 2, 8, 0, "interleaved"))},
      {"layers",
       Of<&TermScales::traffic, &TrafficScales::layers>,
       {layers, "p3:16", 0, DType::kF32},
       DegreesOf(128, 1, 1, 3)},
      {"priced_traffic",
       Of<&TermScales::traffic, &TrafficScales::priced>,
       {even, "dgx-h100:2"},
       DegreesOf(16, 1, 1, 3)},
      {"priced_end",
       Of<&TermScales::end, &StepEndScales::priced>,
       {held, "dgx-h100:1"},
       DegreesOf(1, 1, 1, 0)},
      {"first_backward",
       Of<&TermScales::pipeline, &PipelineScales::first_backward>,
       {two, "dgx-h100:1"},
       DegreesOf(1, 2, 1, 0, "zb-h1")},
      {"first_and_last_gather",
       Of<&TermScales::traffic, &TrafficScales::first_and_last_gather>,
       {three, "dgx-h100:1"},
       DegreesOf(8, 1, 1, 3)},
      {"groups",
       Of<&TermScales::end, &StepEndScales::groups>,
       {many, "p3:16", 0, DType::kF16},
       DegreesOf(128, 1, 1, 0)},
  };
}

class RaisedTermsAreRefuted : public testing::TestWithParam<RaisedTerm> {};

TEST_P(RaisedTermsAreRefuted, ByTheCheck) {
  const RaisedTerm& at = GetParam();
  BoundCheck right(at.problem, 1, at.fixed);
  right.Run(4, 12);
  fmt::print("{}\n", right.Summary());
  EXPECT_TRUE(right.violations().empty());
  TermScales scales;
  at.term(scales) = 1.05;
  BoundCheck raised(at.problem, 1, at.fixed, scales);
  raised.Run(4, 12);
  EXPECT_FALSE(raised.violations().empty());
}

INSTANTIATE_TEST_SUITE_P(All, RaisedTermsAreRefuted, testing::ValuesIn(RaisedTerms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace heddle
