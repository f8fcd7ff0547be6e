#include "report/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "report/simulation.h"

namespace heddle {
namespace {

constexpr double kAlike = 1e-4;  // of a step: smaller differences are not shown

std::string Size(double bytes) { return FormatBytes(Bytes{static_cast<int64_t>(bytes)}); }
std::string TimeOrDash(double seconds) {
  return seconds > 0 ? FormatSeconds(Seconds{seconds}) : std::string("-");
}
std::string FinePercent(double share) {
  return share < 0.01 ? fmt::format("{:.2f} %", 100 * share) : fmt::format("{:.1f} %", 100 * share);
}

// Shortens a long name to its end, because that is where names differ.
std::string Short(const std::string& name, size_t width) {
  if (name.size() <= width) return name;
  return ".." + name.substr(name.size() - (width - 2));
}

std::string Trimmed(std::string line) {
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string RowText(const std::string& op, const std::string& name,
                    const std::vector<std::string>& splits, const std::vector<std::string>& cells) {
  std::string line = fmt::format("  {:<13} {:<26}", Short(op, 13), Short(name, 26));
  for (const std::string& split : splits) line += fmt::format(" {:<12}", split);
  for (const std::string& cell : cells) line += fmt::format(" {:>9}", cell);
  return Trimmed(line);
}

std::vector<std::string> Cells(const NodeCost& cost) {
  return {TimeOrDash(cost.forward), TimeOrDash(cost.backward + cost.recomputed),
          TimeOrDash(cost.traffic_seconds()), cost.kept > 0 ? Size(cost.kept) : "-"};
}

std::string TrafficText(const NodeTraffic& at, int blocks, int64_t microbatches) {
  std::string text = fmt::format("{:>16}{}: {} over {} of {}, {}", "",
                                 at.backward ? "backward" : "forward", Name(at.kind), at.axes,
                                 Size(static_cast<double>(at.bytes)), TimeOrDash(at.seconds));
  double times = at.times * blocks;
  if (std::abs(at.times - 1) < 1e-6) return text + "\n";
  if (std::abs(at.times * static_cast<double>(microbatches) - 1) < 1e-6) {
    return text + ", once per step\n";
  }
  if (blocks > 1 && at.times < 1 && std::abs(times - std::round(times)) < 1e-6) {
    return text + fmt::format(", in {:.0f} of {}\n", times, blocks);
  }
  return text + fmt::format(", {:.3g} times\n", at.times);
}

std::string GroupText(const BlockGroup& group, size_t stages, int64_t microbatches) {
  std::string where = stages == 1 ? ""
                      : group.first_stage == group.last_stage
                          ? fmt::format("stage {}, ", group.first_stage)
                          : fmt::format("stages {}..{}, ", group.first_stage, group.last_stage);
  std::string text = fmt::format("\n  {}: {}recompute {}; one micro-batch on a device{}\n",
                                 group.label(), where, Name(group.recompute),
                                 group.first_layer >= 0 && group.blocks() > 1 ? ", one layer" : "");
  std::vector<std::string> axes, none;
  for (const MeshAxis& axis : group.mesh.axes) {
    axes.push_back(ToString(axis));
    none.push_back("");
  }
  text += RowText("op", "node", axes, {"forward", "backward", "links", "keeps"});
  int blocks = group.first_layer >= 0 ? group.blocks() : 1;
  for (const NodeRow& row : group.rows) {
    text += RowText(row.op, row.name, row.splits, Cells(row.cost));
    for (const NodeTraffic& at : row.cost.traffic) text += TrafficText(at, blocks, microbatches);
  }
  if (group.others > 0) {
    text += RowText("others", fmt::format("{} node{}", group.others, group.others == 1 ? "" : "s"),
                    none, Cells(group.rest));
  }
  return text + RowText("together", "", none, Cells(group.total()));
}

std::string TrafficTable(const Explanation& e) {
  if (e.traffic.empty()) return "";
  std::string text = fmt::format("\n  other traffic of device {} in a step\n", e.traffic_device);
  for (const StepTraffic& at : e.traffic) {
    text += Trimmed(fmt::format("  {:<18} {:>5} x  {:>10}  {:>9}  {}", at.what, at.count,
                                Size(at.bytes), TimeOrDash(at.seconds),
                                at.axes.empty() ? "" : "over " + at.axes));
  }
  return text;
}

// The terms that differ most, as in "12.0 ms more for inner links, 1.00 ms less for launches".
std::string Differences(const Terms& from, const Terms& to, double step) {
  std::vector<std::pair<double, size_t>> all;
  for (size_t t = 0; t < kTermCount; ++t) {
    double more = to.seconds[t] - from.seconds[t];
    if (std::abs(more) > 0.001 * step) all.push_back({more, t});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::abs(a.first) > std::abs(b.first);
  });
  constexpr size_t kShown = 3;
  if (all.size() > kShown) all.resize(kShown);
  std::vector<std::string> words;
  for (const auto& [more, t] : all) {
    words.push_back(fmt::format("{} {} for {}", TimeOrDash(std::abs(more)),
                                more > 0 ? "more" : "less", kTermNames[t]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string FlipText(Knob knob, double factor) {
  std::string of = knob == Knob::kProducts ? "were" : "had";
  std::string what = knob == Knob::kProducts ? " as fast" : " the bandwidth";
  return fmt::format("{} {} {:.3g} times{}", Name(knob), of, factor, what);
}

bool Alike(double a, double b) { return std::abs(a - b) <= kAlike * b; }

std::string Flips(const Rival& rival, std::string_view who) {
  std::vector<std::pair<Knob, double>> flips;
  std::vector<std::string_view> none;
  for (const auto& [knob, factor] : rival.flips) {
    factor ? flips.push_back({knob, *factor}) : none.push_back(Name(knob));
  }
  std::stable_sort(flips.begin(), flips.end(), [](const auto& a, const auto& b) {
    return std::abs(std::log(a.second)) < std::abs(std::log(b.second));
  });
  std::string text;
  for (size_t i = 0; i < flips.size(); ++i) {
    text += fmt::format("    {} if {}\n", i == 0 ? fmt::format("{} would win", who) : "or",
                        FlipText(flips[i].first, flips[i].second));
  }
  if (!none.empty()) {
    text +=
        fmt::format("    scaling {1} by 1/{0:g} to {0:g} would not change which plan is faster\n",
                    kMostScaled, fmt::join(none, ", "));
  }
  return text;
}

std::string RivalText(const Explanation& e) {
  if (!e.rival) {
    return fmt::format("\n  the search finds no other plan ({} configurations)\n", e.considered);
  }
  const Rival& rival = *e.rival;
  double ours = e.result.step_seconds, theirs = rival.result.step_seconds;
  std::string text = fmt::format("\n  {} (of {} configurations): {}\n",
                                 e.is_beaten() ? "the plan that is better" : "the runner-up",
                                 e.considered, rival.plan);
  std::string differs = Differences(e.result.critical, rival.result.critical, ours);
  std::string how = Alike(theirs, ours)
                        ? "as fast"
                        : fmt::format("{} {}", FinePercent(std::abs(theirs / ours - 1)),
                                      theirs > ours ? "slower" : "less time");
  text += fmt::format("    {}, {}{}{}\n", TimeOrDash(theirs), how, differs.empty() ? "" : ": ",
                      differs);
  if (!rival.fits) {
    double needs = static_cast<double>(rival.result.reserved_memory_bytes - e.memory_limit);
    text += fmt::format("    it does not fit: a device would need {} more than may be used\n",
                        Size(needs));
  }
  if (Alike(theirs, ours)) return text;
  return text + Flips(rival, theirs > ours ? "it" : "the plan explained here");
}

std::string MoreMemoryText(const Explanation& e) {
  if (!e.with_more_memory) return "";
  double step = e.with_more_memory->result.step_seconds, best = INFINITY;
  if (e.fits) best = e.result.step_seconds;
  if (e.rival && e.rival->fits) best = std::min(best, e.rival->result.step_seconds);
  std::string text = fmt::format("\n  with {} more memory per device {} would win: {}",
                                 Size(static_cast<double>(e.missing_bytes)),
                                 e.with_more_memory->plan, TimeOrDash(step));
  if (best == INFINITY) return text + ", and no plan fits without it\n";
  return text + fmt::format(", {} less than the best that fits\n", FinePercent(1 - step / best));
}

std::string Verdict(const Explanation& e) {
  std::string text;
  if (!e.fits) {
    double more = static_cast<double>(e.result.reserved_memory_bytes - e.memory_limit);
    text += fmt::format("  DOES NOT FIT: a device needs {} more than the {} that may be used\n",
                        Size(more), Size(static_cast<double>(e.memory_limit)));
  }
  if (!e.is_beaten()) return text;
  double faster = 1 - e.rival->result.step_seconds / e.result.step_seconds;
  if (faster <= 0) return text + fmt::format("  {} fits\n", e.rival->plan);
  return text + fmt::format("  NOT THE FASTEST: {} takes {} less time\n", e.rival->plan,
                            FinePercent(faster));
}

Json CostJson(const NodeCost& cost) {
  Json traffic = Json::array();
  for (const NodeTraffic& at : cost.traffic) {
    traffic.push_back({{"kind", Name(at.kind)},
                       {"axes", at.axes},
                       {"half", at.backward ? "backward" : "forward"},
                       {"bytes", at.bytes},
                       {"seconds", at.seconds},
                       {"times", at.times}});
  }
  return {{"forward_seconds", cost.forward},
          {"backward_seconds", cost.backward},
          {"recomputed_seconds", cost.recomputed},
          {"traffic_seconds", cost.traffic_seconds()},
          {"kept_bytes", cost.kept},
          {"traffic", traffic}};
}

Json GroupJson(const BlockGroup& group) {
  Json nodes = Json::array();
  for (const NodeRow& row : group.rows) {
    Json splits = Json::object();
    for (size_t a = 0; a < row.splits.size(); ++a) {
      splits[group.mesh.axes[a].name] = row.splits[a];
    }
    nodes.push_back({{"op", row.op},
                     {"name", row.name},
                     {"splits", splits},
                     {"strategy", row.strategy},
                     {"cost", CostJson(row.cost)}});
  }
  return {{"label", group.label()},
          {"blocks", group.blocks() > 0 ? Json{group.first_block, group.last_block - 1} : Json()},
          {"stages", {group.first_stage, group.last_stage}},
          {"recompute", Name(group.recompute)},
          {"nodes", nodes},
          {"others", {{"count", group.others}, {"cost", CostJson(group.rest)}}},
          {"total", CostJson(group.total())}};
}

Json TermsJson(const Terms& terms) {
  Json json = Json::object();
  for (size_t t = 0; t < kTermCount; ++t) json[std::string(kTermNames[t])] = terms.seconds[t];
  return json;
}

Json RivalJson(const Rival& rival) {
  Json flips = Json::object();
  for (const auto& [knob, factor] : rival.flips) {
    flips[std::string(Name(knob))] = factor ? Json(*factor) : Json();
  }
  return {{"plan", rival.plan},
          {"step_seconds", rival.result.step_seconds},
          {"feasible", rival.fits},
          {"reserved_memory_bytes", rival.result.reserved_memory_bytes},
          {"critical", TermsJson(rival.result.critical)},
          {"break_even", flips}};
}

}  // namespace

bool Explanation::is_beaten() const {
  if (!rival || !rival->fits) return false;
  return !fits || (rival->result.step_seconds < result.step_seconds &&
                   !Alike(rival->result.step_seconds, result.step_seconds));
}

std::string Screen(const Explanation& e) {
  std::string text = fmt::format("{} on {}\n{}", e.model, e.cluster, Verdict(e));
  text += fmt::format("  plan         {}, batch {}\n", e.plan, e.batch);
  text += fmt::format("  step         {} (simulated), bubble {}, exposed communication {}\n",
                      TimeOrDash(e.result.step_seconds), FinePercent(e.result.bubble),
                      FinePercent(e.result.exposed_communication));
  text += fmt::format("  memory       {} of the {} that may be used\n",
                      Size(static_cast<double>(e.result.reserved_memory_bytes)),
                      Size(static_cast<double>(e.memory_limit)));
  if (e.factor_parameters > 0) {
    text += fmt::format(
        "  gradients    {} parameters from gathered factors: {} if they were reduced, {} saved\n",
        e.factor_parameters, TimeOrDash(e.reduced_seconds),
        FinePercent(1 - e.result.step_seconds / e.reduced_seconds));
  }
  size_t stages = 0;
  for (const BlockGroup& group : e.groups) {
    stages = std::max(stages, static_cast<size_t>(group.last_stage) + 1);
  }
  for (const BlockGroup& group : e.groups) text += GroupText(group, stages, e.microbatches);
  return text + TrafficTable(e) + CriticalPath(e.result) + RivalText(e) + MoreMemoryText(e);
}

Json ToJson(const Explanation& e) {
  Json json = {{"simulated", true},
               {"model", e.model},
               {"cluster", e.cluster},
               {"plan", e.plan},
               {"batch", e.batch},
               {"microbatches", e.microbatches},
               {"step_seconds", e.result.step_seconds},
               {"bubble", e.result.bubble},
               {"exposed_communication", e.result.exposed_communication},
               {"reserved_memory_bytes", e.result.reserved_memory_bytes},
               {"memory_limit_bytes", e.memory_limit},
               {"feasible", e.fits},
               {"is_beaten", e.is_beaten()},
               {"considered", e.considered},
               {"critical", TermsJson(e.result.critical)}};
  json["factors"] = Json();
  if (e.factor_parameters > 0) {
    json["factors"] = {{"parameters", e.factor_parameters},
                       {"reduced_step_seconds", e.reduced_seconds}};
  }
  json["groups"] = Json::array();
  for (const BlockGroup& group : e.groups) json["groups"].push_back(GroupJson(group));
  json["traffic"] = Json::array();
  for (const StepTraffic& at : e.traffic) {
    json["traffic"].push_back({{"what", at.what},
                               {"axes", at.axes},
                               {"count", at.count},
                               {"bytes", at.bytes},
                               {"seconds", at.seconds}});
  }
  json["runner_up"] = e.rival ? RivalJson(*e.rival) : Json();
  json["with_more_memory"] = e.with_more_memory ? RivalJson(*e.with_more_memory) : Json();
  if (e.with_more_memory) json["with_more_memory"]["missing_bytes"] = e.missing_bytes;
  return json;
}

}  // namespace heddle
