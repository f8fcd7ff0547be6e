#include "report/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "cluster/topology.h"
#include "plan/axes.h"
#include "plan/describe.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "report/alternatives.h"
#include "report/group_table.h"
#include "report/plan_words.h"
#include "report/save_advice.h"
#include "report/step_size.h"

namespace heddle {
namespace {

std::string Percent(double part) { return fmt::format("{:.1f} %", 100 * part); }
std::string Size(int64_t bytes) { return FormatBytes(Bytes{bytes}); }
std::string Time(double seconds) { return FormatSeconds(Seconds{seconds}); }

struct StageRow {
  double parameters = 0;  // parameters that the stage reads, in elements
  double local = 0;       // the part of them on the device that holds most
  double share = 0;       // the stage's part of the work of all stages
};

StageRow Describe(const Model& model, const Stage& stage) {
  StageRow row;
  std::set<ValueId> seen;
  for (NodeId id : NodesAndSideNodesOf(model, stage)) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const Value& value = model.graph.value(node.operands[o]);
      if (value.kind != ValueKind::kParameter || !seen.insert(node.operands[o]).second) continue;
      row.parameters += static_cast<double>(ElementCount(value.type.shape));
      row.local += static_cast<double>(
          ElementCount(PaddedShape(stage.mesh, OperandSharding(stage.mesh, model.rules[id.index()],
                                                               stage.strategies[id.index()], o))));
    }
  }
  row.share = stage.times.forward + stage.times.backward + stage.times.weight;
  return row;
}

std::vector<StageRow> Rows(const Model& model, const Plan& plan) {
  std::vector<StageRow> rows;
  double work = 0;
  for (const Stage& stage : plan.stages) {
    rows.push_back(Describe(model, stage));
    work += rows.back().share;
  }
  for (StageRow& row : rows) row.share /= work;
  return rows;
}

std::string MeshText(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(ToString(axis));
  return axes.empty() ? "one device" : fmt::format("{}", fmt::join(axes, " x "));
}

std::string RecomputeText(const Stage& stage) {
  PerRecomputePolicy<int> counts = {};
  for (RecomputePolicy policy : stage.recompute) ++counts[static_cast<size_t>(policy)];
  std::vector<std::string> words;
  for (size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] == static_cast<int>(stage.recompute.size())) {
      return std::string(kRecomputeNames[p]);
    }
    if (counts[p] > 0) words.push_back(fmt::format("{} {}", kRecomputeNames[p], counts[p]));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// The table of stages. Of many stages it shows the first ones and the last, so that it fits a screen.
std::string Stages(const Model& model, const Plan& plan) {
  constexpr size_t kShown = 18;
  std::vector<StageRow> rows = Rows(model, plan);
  std::string text =
      fmt::format("\n  {:<7} {:>9} {:>11}  {:<22} {:>10} {:>10} {:>6}  {}\n", "stage", "blocks",
                  "devices", "mesh", "parameters", "per device", "work", "recompute");
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows.size() > kShown && s == kShown - 2) {
      text += fmt::format("  ... {} more\n", rows.size() - kShown + 1);
      s = rows.size() - 1;
    }
    const Stage& stage = plan.stages[s];
    text += fmt::format("  {:<7} {:>9} {:>11}  {:<22} {:>10} {:>10} {:>5.1f}%  {}\n", s,
                        fmt::format("{}..{}", stage.first_block, stage.last_block - 1),
                        DevicesText(DevicesOf(stage.mesh)), MeshText(stage.mesh),
                        FormatCount(rows[s].parameters), FormatCount(rows[s].local),
                        100 * rows[s].share, RecomputeText(stage));
  }
  return text;
}

double Mfu(const JudgedPlan& judged, const StepSize& size) {
  return size.peak_flops > 0 ? size.flops / judged.result.step_seconds / size.peak_flops : 0;
}

std::string PrecisionText(const PlanReport& report) {
  const Precision& precision = report.result.judged.front().plan.precision;
  std::string text(PrecisionName(precision.compute, precision.products));
  if (!report.precision_auto || precision.compute != DType::kF16) return text;
  return text + " (by --precision auto: no fast bf16 here; the loss is scaled)";
}

std::string StatisticsText(const PlanReport& report) {
  if (!report.local) return "";
  return fmt::format(
      "  statistics   of the whole batch take {} of the step: {} with --batch-statistics local, "
      "where each\n               micro-batch and data shard has its own, which changes the result "
      "of training\n",
      Percent(report.local->share), Time(report.local->step_seconds));
}

std::string Nominal(const Plan& plan) {
  std::string type = NominalDevice(plan);
  return type.empty() ? "" : fmt::format(", uncalibrated: the rates of {} are nominal", type);
}

Json DegreesJson(const PlanWords& words, const Plan& plan) {
  Degrees degrees = DegreesOf(plan, words.Heaviest(plan));
  Json json = Json::object();
  for (const ParallelAxis& axis : AllAxes()) {
    if (axis.is_degree()) json[std::string(axis.name)] = degrees.*axis.degree;
  }
  for (const AxisModifier& modifier : AllAxisModifiers()) {
    json[std::string(modifier.name)] = degrees.*modifier.flag;
  }
  json["zero"] = plan.zero.level;
  json["offload"] = Name(plan.offload);
  json["microbatches"] = plan.microbatches;
  std::optional<RecomputePolicy> recompute = RecomputationOfLayers(words.model(), plan);
  json["recompute"] = recompute ? Json(Name(*recompute)) : Json();
  return json;
}

// As in "dp 8 x tp 1 x pp 2, 8 micro-batches, ZeRO 1".
std::string InShort(const PlanWords& words, const Plan& plan) {
  Degrees degrees = DegreesOf(plan, words.Heaviest(plan));
  std::vector<std::string> sizes;
  for (const ParallelAxis& axis : AllAxes()) {
    if (axis.always_named) sizes.push_back(fmt::format("{} {}", axis.name, degrees.*axis.degree));
  }
  return fmt::format("{}, {} micro-batch{}, ZeRO {}", fmt::join(sizes, " x "), plan.microbatches,
                     plan.microbatches == 1 ? "" : "es", plan.zero.level);
}

// The mesh and, for each axis, what it splits.
std::string MeshText(const Plan& plan, const StageSplits& heaviest) {
  std::string text = fmt::format("  mesh         {}\n", MeshInWords(plan, heaviest));
  for (const AxisSplit& at : heaviest.axes) {
    bool first = &at == &heaviest.axes.front();
    text += fmt::format("  {:<12} {} {}: {}\n", first ? "splits" : "", at.axis.name, at.axis.size,
                        at.splits);
  }
  return text;
}

// What pruning gains: the step of the pruned model beside that of the same model with all of its weights.
std::string PrunedText(const PlanReport& report, const PlanWords& words) {
  const JudgedPlan& best = report.result.judged.front();
  if (!best.plan.pruning.any()) return "";
  std::string text =
      fmt::format("  pruned       {} of the weights of {} parameters\n",
                  Percent(best.plan.pruning.sparsity), best.plan.pruning.kept.size());
  if (report.dense == nullptr) return text + "  dense        no plan fits\n";
  const JudgedPlan& dense = report.dense->judged.front();
  return text + fmt::format("  dense        {} a step, {} a device: {} ({:.2f}x as fast pruned)\n",
                            Time(dense.result.step_seconds), FormatBytes(Bytes{dense.reserved()}),
                            InShort(words, dense.plan),
                            dense.result.step_seconds / best.result.step_seconds);
}

std::string PoliciesText(const PlanReport& report) {
  const Plan& plan = report.result.judged.front().plan;
  std::optional<RecomputePolicy> recompute = RecomputationOfLayers(report.model, plan);
  std::string text =
      fmt::format("  batch        {} in {} micro-batch{} of {}\n", plan.batch, plan.microbatches,
                  plan.microbatches == 1 ? "" : "es", plan.batch / plan.microbatches);
  text += fmt::format("  pipeline     {}, {} stage{} per device\n", plan.schedule, plan.chunks,
                      plan.chunks == 1 ? "" : "s");
  return text + fmt::format("  policies     {}, ZeRO {}, recompute {}, offload {}\n",
                            PrecisionText(report), plan.zero.level,
                            recompute ? Name(*recompute) : "mixed", Name(plan.offload));
}

// The simulated step, and what devices wait for in it.
std::string StepText(const JudgedPlan& best, const StepSize& size) {
  const Plan& plan = best.plan;
  std::string part;
  if (best.simulated_microbatches < plan.microbatches) {
    part =
        fmt::format(" over {} of {} micro-batches", best.simulated_microbatches, plan.microbatches);
  }
  std::string text =
      fmt::format("  step         {} (simulated{}{}), MFU {}\n", Time(best.result.step_seconds),
                  part, Nominal(plan), Percent(Mfu(best, size)));
  text += fmt::format("  waiting      bubble {}, exposed communication {}\n",
                      Percent(best.result.bubble), Percent(best.result.exposed_communication));
  if (best.factors) {
    text += fmt::format(
        "  replicas     gather the factors of {} gradients and compute {} nodes whole: {} if all "
        "gradients were reduced\n",
        best.factors->parameters, best.factors->nodes, Time(best.factors->reduced_seconds));
  }
  return text;
}

std::string ThroughputText(const JudgedPlan& best, const StepSize& size) {
  double rate = size.tokens / best.result.step_seconds;
  return fmt::format("  throughput   {} {}/s, {:.3g} device-hours per billion\n", FormatCount(rate),
                     size.is_tokens ? "tokens" : "samples",
                     1e9 / rate * static_cast<double>(DeviceCount(best.plan)) / 3600);
}

std::string MemoryText(const JudgedPlan& best) {
  const MemoryKinds& m = best.memory;
  std::string text =
      fmt::format("  memory       {} of the {} that may be used{}\n", Size(best.reserved()),
                  Size(best.memory_limit), best.fits ? "" : ": it does not fit");
  text += fmt::format(
      "               weights {}, gradients {}, optimizer {}, activations {}, buffers {}\n",
      Size(m.weights), Size(m.gradients), Size(m.optimizer), Size(m.activations), Size(m.buffers));
  if (best.host_bytes > 0) {
    text +=
        fmt::format("  host         {} of optimizer state on a machine{}\n", Size(best.host_bytes),
                    best.host_limit ? " that has " + Size(*best.host_limit) + " for it" : "");
  }
  return text;
}

std::string BoundText(const SearchResult& result) {
  if (result.proposals.lower_bound <= 0) return "";
  return fmt::format("  bound        no plan{} is faster than {}: gap {}, step gap {}\n",
                     result.judged.front().factors ? " that reduces all gradients" : "",
                     Time(result.proposals.lower_bound), Percent(result.gap()),
                     Percent(result.step_gap()));
}

Json MemoryJson(const JudgedPlan& best) {
  const MemoryKinds& m = best.memory;
  return {{"weights", m.weights},         {"gradients", m.gradients}, {"optimizer", m.optimizer},
          {"activations", m.activations}, {"buffers", m.buffers},     {"host", best.host_bytes}};
}

// The step that the search found, and how far it may be from the fastest one.
Json SearchJson(const PlanReport& report) {
  const SearchResult& result = report.result;
  const JudgedPlan& best = result.judged.front();
  Json json = {{"feasible", best.fits},
               {"searcher", report.searcher},
               {"simulated", true},
               {"simulated_microbatches", best.simulated_microbatches},
               {"step_seconds", best.result.step_seconds},
               {"search_seconds", result.seconds},
               {"stopped", result.stopped},
               {"considered", result.proposals.considered},
               {"peak_memory_bytes", best.result.peak_memory_bytes},
               {"reserved_memory_bytes", best.reserved()},
               {"memory_limit_bytes", best.memory_limit}};
  bool bounded = result.proposals.lower_bound > 0;
  json["lower_bound_seconds"] = bounded ? Json(result.proposals.lower_bound) : Json();
  json["gap"] = bounded ? Json(result.gap()) : Json();
  json["step_gap"] = bounded ? Json(result.step_gap()) : Json();
  json["space"] = result.proposals.space;
  json["memory"] = MemoryJson(best);
  return json;
}

Json PruningJson(const PlanReport& report, const PlanWords& words) {
  const Pruning& pruning = report.result.judged.front().plan.pruning;
  Json json = {
      {"sparsity", pruning.sparsity}, {"parameters", pruning.kept.size()}, {"dense", Json()}};
  if (report.dense != nullptr) {
    const JudgedPlan& dense = report.dense->judged.front();
    json["dense"] = {{"step_seconds", dense.result.step_seconds},
                     {"reserved_memory_bytes", dense.reserved()},
                     {"degrees", DegreesJson(words, dense.plan)}};
  }
  return json;
}

Json FactorsJson(const JudgedPlan& best) {
  if (!best.factors) return {};
  return {{"parameters", best.factors->parameters},
          {"nodes", best.factors->nodes},
          {"reduced_step_seconds", best.factors->reduced_seconds}};
}

Json StatisticsJson(const PlanReport& report) {
  if (!report.local) return {};
  return {{"step_seconds", report.local->step_seconds}, {"share", report.local->share}};
}

Json StagesJson(const Model& model, const Plan& plan) {
  Json json = Json::array();
  std::vector<StageRow> rows = Rows(model, plan);
  for (size_t s = 0; s < rows.size(); ++s) {
    const Stage& stage = plan.stages[s];
    json.push_back({{"blocks", {stage.first_block, stage.last_block - 1}},
                    {"devices", DevicesToJson(stage.mesh)},
                    {"parameters", rows[s].parameters},
                    {"parameters_per_device", rows[s].local},
                    {"flops_share", rows[s].share},
                    {"recompute", RecomputeText(stage)}});
  }
  return json;
}

Json AlternativesJson(const SearchResult& result, const PlanWords& words) {
  Json json = Json::array();
  for (const Alternative& at : AlternativesOf(result)) {
    const JudgedPlan& other = *at.plan;
    json.push_back({{"from", other.from},
                    {"degrees", DegreesJson(words, other.plan)},
                    {"step_seconds", other.simulated ? Json(other.result.step_seconds) : Json()},
                    {"reserved_memory_bytes", other.reserved()},
                    {"feasible", other.fits},
                    {"why", at.why}});
  }
  return json;
}

}  // namespace

std::string Screen(const PlanReport& report) {
  const SearchResult& result = report.result;
  const JudgedPlan& best = result.judged.front();
  const Plan& plan = best.plan;
  StepSize size = SizeOfStep(report.model, plan);
  PlanWords words(report.model);
  StageSplits heaviest = words.Heaviest(plan);
  std::string text =
      fmt::format("{} on {}: {} of {} devices, by the {} searcher\n", report.model.graph.name,
                  plan.cluster.name, DeviceCount(plan), DeviceCount(plan.cluster), report.searcher);
  text += MeshText(plan, heaviest);
  text += PoliciesText(report);
  text += StepText(best, size);
  text += StatisticsText(report) + PrunedText(report, words);
  text += ThroughputText(best, size) + MemoryText(best) + BoundText(result);
  if (report.mtbf > 0) text += SaveText(best, report.mtbf);
  text += Stages(report.model, plan);
  text += GroupTable(result);
  text += AlternativesTable(result);
  text += fmt::format("\n  {} configurations in {}{}\n", result.proposals.considered,
                      Time(result.seconds), result.stopped ? ", stopped early" : "");
  if (!report.output.empty()) text += fmt::format("  written to {}\n", report.output);
  return text;
}

Json ToJson(const PlanReport& report) {
  const SearchResult& result = report.result;
  const JudgedPlan& best = result.judged.front();
  const Plan& plan = best.plan;
  StepSize size = SizeOfStep(report.model, plan);
  PlanWords words(report.model);
  double rate = size.tokens / best.result.step_seconds;
  Json json = SearchJson(report);
  if (report.mtbf > 0) json["checkpoint"] = SaveJson(best, report.mtbf);
  if (!IsHomogeneous(plan.cluster)) json["groups"] = GroupsJson(result);
  if (plan.pruning.any()) json["pruning"] = PruningJson(report, words);
  json["degrees"] = DegreesJson(words, plan);
  json["meshes"] = MeshesJson(words, plan);
  json["mfu"] = Mfu(best, size);
  json["factors"] = FactorsJson(best);
  json["local_batch_statistics"] = StatisticsJson(report);
  json["bubble"] = best.result.bubble;
  json["exposed_communication"] = best.result.exposed_communication;
  json[size.is_tokens ? "tokens_per_second" : "samples_per_second"] = rate;
  json["device_hours_per_billion"] = 1e9 / rate * static_cast<double>(DeviceCount(plan)) / 3600;
  json["model"] = report.model.graph.name;
  json["cluster"] = plan.cluster.name;
  json["devices"] = DeviceCount(plan);
  json["batch"] = plan.batch;
  json["schedule"] = plan.schedule;
  json["chunks"] = plan.chunks;
  json["precision"] = PrecisionName(plan.precision.compute, plan.precision.products);
  json["precision_auto"] = report.precision_auto;
  json["stages"] = StagesJson(report.model, plan);
  json["alternatives"] = AlternativesJson(result, words);
  json["plan"] = DescribePlan(plan);
  if (!report.output.empty()) json["file"] = report.output;
  return json;
}

}  // namespace heddle
