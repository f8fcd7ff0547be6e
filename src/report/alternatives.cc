#include "report/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "plan/axes.h"
#include "search/searchers.h"

namespace heddle {
namespace {

// A term that contains another one stands before it.
constexpr PlanTerm kPlanTerms[] = {
    {"expert at these degrees",
     "Megatron's rules for what is split, at the degrees that the search found"},
    {"expert at",
     "Megatron's rules at these degrees, recomputing only as many layers as memory requires"},
    {"expert", "Megatron's rules: tensor parallelism inside a node, data parallelism across nodes"},
    {kProportional, "data parallelism with a share of the batch for each device by its speed"},
    {"data", "data parallelism over all devices"},
    {"tree search", "a placement on unlike devices found by Monte Carlo tree search"},
    {"spilled",
     "weights and optimizer state stay on the host and are fetched in shards (--offload all)"},
    {"made to fit", "its stages were solved again, exactly, for the memory they may use"},
    {"buckets of", "gradients are reduced in buckets of this size"},
    {"by factors",
     "replicas gather the factors of this many gradients and compute these gradients whole"},
    {"nodes whole",
     "replicas compute this many nodes for the whole batch instead of reducing gradients"},
    {"by speed on", "these types of devices get samples in proportion to their speed"},
    {"optimizer on the host",
     "moments and master weights live in the host's memory (--offload optimizer)"},
};

std::vector<PlanTerm> AllPlanTerms() {
  std::vector<PlanTerm> terms(std::begin(kPlanTerms), std::end(kPlanTerms));
  for (const ParallelAxis& axis : AllAxes()) {
    if (!axis.meaning.empty()) terms.push_back({axis.name, axis.meaning});
  }
  terms.push_back({"chunks", "stages per device of an interleaved pipeline (--chunks)"});
  return terms;
}

std::string SizeOfBytes(int64_t bytes) { return FormatBytes(Bytes{bytes}); }

// The stage that a device of a plan runs.
std::string StageOfDevice(const Plan& plan, int64_t device) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (IndexIn(plan.stages[s].mesh, device) < 0) continue;
    return plan.stages.size() == 1 ? "it" : fmt::format("stage {}", s);
  }
  return "it";
}

std::string WhyLost(const JudgedPlan& judged, const SearchResult& result) {
  if (!judged.simulated) {
    return fmt::format("parameters alone need {} on a device", SizeOfBytes(judged.least_bytes));
  }
  if (!judged.fits_host()) {
    return fmt::format("a host would need {} but has {}", SizeOfBytes(judged.host_bytes),
                       SizeOfBytes(*judged.host_limit));
  }
  if (!judged.fits) {
    return fmt::format("{} needs {}, {} more than may be used",
                       StageOfDevice(judged.plan, judged.result.worst_device),
                       SizeOfBytes(judged.reserved()),
                       SizeOfBytes(judged.reserved() - judged.memory_limit));
  }
  double best = result.judged.front().result.step_seconds;
  return fmt::format("{:.1f} % slower", 100 * (judged.result.step_seconds / best - 1));
}

// Whether a text contains a whole word: "metadata" does not contain "data".
bool HasWord(std::string_view text, std::string_view word) {
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    size_t end = at + word.size();
    bool begins = at == 0 || !is_letter(text[at - 1]);
    if (begins && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

std::string MeaningsOf(const std::vector<Alternative>& shown) {
  std::vector<const PlanTerm*> used;
  for (const Alternative& at : shown) {
    std::string left = at.plan->from;
    for (const PlanTerm& term : PlanTerms()) {
      if (!HasWord(left, term.word)) continue;
      left.replace(left.find(term.word), term.word.size(), term.word.size(), ' ');
      if (std::find(used.begin(), used.end(), &term) == used.end()) used.push_back(&term);
    }
  }
  std::sort(used.begin(), used.end());
  std::string text;
  for (const PlanTerm* term : used) text += fmt::format("    {}: {}\n", term->word, term->meaning);
  return text;
}

std::string NameWithoutBuckets(const std::string& name) {
  constexpr std::string_view kBegin = ", buckets of ", kEnd = " MiB";
  size_t begin = name.find(kBegin);
  if (begin == std::string::npos) return name;
  return name.substr(0, begin) + name.substr(name.find(kEnd, begin) + kEnd.size());
}

}  // namespace

std::vector<Alternative> AlternativesOf(const SearchResult& result) {
  std::vector<Alternative> all;
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  // Of plans that differ only in the bucket size, only the best is listed. `names` has the names without the bucket
  // size; `sized` has those of plans that are already listed with a bucket size.
  std::set<std::string> names, sized;
  auto is_other_size = [&](const std::string& from) {
    std::string name = NameWithoutBuckets(from);
    bool listed = !names.insert(name).second;
    if (listed && (name != from || sized.count(name) > 0)) return true;
    if (name != from) sized.insert(name);
    return false;
  };
  auto step = [](const JudgedPlan& judged) {
    return judged.simulated ? FormatSeconds(Seconds{judged.result.step_seconds}) : std::string();
  };
  if (!result.judged.empty()) {  // plans that equal the chosen one in all three are not listed
    const JudgedPlan& best = result.judged.front();
    seen.insert({best.from, step(best), WhyLost(best, result)});
    is_other_size(best.from);
  }
  for (size_t i = 1; i < result.judged.size(); ++i) {
    const JudgedPlan& judged = result.judged[i];
    Alternative at{&judged, step(judged), WhyLost(judged, result)};
    if (is_other_size(judged.from)) continue;
    if (seen.insert({judged.from, at.step, at.why}).second) all.push_back(std::move(at));
  }
  return all;
}

std::string AlternativesTable(const SearchResult& result) {
  std::vector<Alternative> all = AlternativesOf(result);
  if (all.empty()) return "";
  size_t more = all.size() > kMostAlternatives ? all.size() - kMostAlternatives : 0;
  all.resize(all.size() - more);
  size_t width = 0;
  for (const Alternative& at : all) width = std::max(width, at.plan->from.size());
  std::string text = "\n  alternatives\n";
  for (const Alternative& at : all) {
    text += fmt::format("  {:<{}} {:>9}  {}\n", at.plan->from, width, at.step, at.why);
  }
  if (more > 0) text += fmt::format("  and {} more (--json has all)\n", more);
  return text + MeaningsOf(all);
}

std::span<const PlanTerm> PlanTerms() {
  static const std::vector<PlanTerm> terms = AllPlanTerms();
  return terms;
}

}  // namespace heddle
