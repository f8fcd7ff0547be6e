#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/plan_args.h"
#include "cluster/load.h"
#include "cluster/topology.h"
#include "plan/plan_file.h"
#include "plan/precision.h"
#include "plan/verify.h"

namespace heddle {
namespace {

constexpr std::string_view kSearchers[] = {"expert"};

struct PlanArgs {
  ModelArgs model;
  DegreeArgs degrees;
  std::string cluster;
  std::string searcher = "expert";
  std::string output;
};

struct StageRow {
  double parameters = 0;  // read on the stage
  double local = 0;       // of these, on the device that holds most
  double share = 0;       // of all stages' work
};

struct Made {
  Model model;
  Plan plan;
  Degrees degrees;
  std::vector<StageRow> rows;
};

double Count(const Shape& shape) {
  double count = 1;
  for (int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

StageRow Describe(const Model& model, const Stage& stage) {
  StageRow row;
  std::set<ValueId> seen;
  std::vector<NodeId> nodes = NodesOf(model, stage);
  for (NodeId id : SideNodesOf(model, nodes)) nodes.push_back(id);
  for (NodeId id : nodes) {
    const Node& node = model.graph.node(id);
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const Value& value = model.graph.value(node.operands[o]);
      if (value.kind != ValueKind::kParameter || !seen.insert(node.operands[o]).second) continue;
      row.parameters += Count(value.type.shape);
      row.local +=
          Count(PaddedShape(stage.mesh, OperandSharding(stage.mesh, model.rules[id.index()],
                                                        stage.strategies[id.index()], o)));
    }
  }
  row.share = stage.times.forward + stage.times.backward + stage.times.weight;
  return row;
}

Made MakePlan(const PlanArgs& args) {
  if (std::find(std::begin(kSearchers), std::end(kSearchers), args.searcher) ==
      std::end(kSearchers)) {
    ThrowInput("--searcher {}: {}", args.searcher, DidYouMean(args.searcher, kSearchers));
  }
  Cluster cluster = LoadCluster(args.cluster);
  Made made;
  made.model = Analyse(args.model.Load());
  made.degrees = args.degrees.Resolve(made.model, cluster);
  made.plan = ExpertPlan(made.model, cluster, made.degrees);
  uint64_t hash = made.plan.model.hash;
  made.plan.model = RefOf(args.model, args.output);
  made.plan.model.hash = hash;
  RequireSound(made.plan, made.model, args.model.model);
  double work = 0;
  for (const Stage& stage : made.plan.stages) {
    made.rows.push_back(Describe(made.model, stage));
    work += made.rows.back().share;
  }
  for (StageRow& row : made.rows) row.share /= work;
  return made;
}

Json ToJson(const Made& made, const PlanArgs& args) {
  const Degrees& d = made.degrees;
  Json json;
  json["feasible"] = true;
  json["searcher"] = args.searcher;
  json["degrees"] = {{"dp", d.dp},
                     {"tp", d.tp},
                     {"pp", d.pp},
                     {"cp", d.cp},
                     {"ep", d.ep},
                     {"sp", d.sp},
                     {"zero", d.zero},
                     {"microbatches", d.microbatches},
                     {"recompute", kRecomputeNames[static_cast<size_t>(d.recompute)]}};
  json["model"] = made.model.graph.name;
  json["cluster"] = made.plan.cluster.name;
  json["devices"] = DeviceCount(made.plan);
  json["batch"] = made.plan.batch;
  json["schedule"] = d.schedule;
  json["chunks"] = d.chunks;
  json["precision"] = PrecisionName(d.precision, d.products);
  json["stages"] = Json::array();
  for (size_t s = 0; s < made.rows.size(); ++s) {
    const Stage& stage = made.plan.stages[s];
    json["stages"].push_back(
        {{"blocks", {stage.first_block, stage.last_block - 1}},
         {"devices", {stage.mesh.first, stage.mesh.first + stage.mesh.size() - 1}},
         {"parameters", made.rows[s].parameters},
         {"parameters_per_device", made.rows[s].local},
         {"flops_share", made.rows[s].share}});
  }
  if (!args.output.empty()) json["plan"] = args.output;
  return json;
}

std::string MeshText(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  return axes.empty() ? "one device" : fmt::format("{}", fmt::join(axes, " x "));
}

// Of many stages the first and the last: one screen.
void PrintStages(const Made& made) {
  constexpr size_t kShown = 24;
  fmt::print("\n  {:<8} {:>13} {:>15}  {:<24} {:>11} {:>11} {:>8}\n", "stage", "blocks", "devices",
             "mesh", "parameters", "per device", "work");
  for (size_t s = 0; s < made.rows.size(); ++s) {
    if (made.rows.size() > kShown && s == kShown - 2) {
      s = made.rows.size() - 1;
      fmt::print("  ... {} more\n", made.rows.size() - kShown + 1);
    }
    const Stage& stage = made.plan.stages[s];
    const StageRow& row = made.rows[s];
    fmt::print("  {:<8} {:>13} {:>15}  {:<24} {:>11} {:>11} {:>7.1f}%\n", s,
               fmt::format("{}..{}", stage.first_block, stage.last_block - 1),
               fmt::format("{}..{}", stage.mesh.first, stage.mesh.first + stage.mesh.size() - 1),
               MeshText(stage.mesh), FormatCount(row.parameters), FormatCount(row.local),
               100 * row.share);
  }
}

void Print(const Made& made, const PlanArgs& args) {
  const Degrees& d = made.degrees;
  int64_t all = DeviceCount(made.plan.cluster);
  fmt::print("{} on {}: {} of {} devices, by the {} searcher\n", made.model.graph.name,
             made.plan.cluster.name, DeviceCount(made.plan), all, args.searcher);
  fmt::print("  degrees      dp {}  tp {}  pp {}  cp {}  ep {}  sp {}\n", d.dp, d.tp, d.pp, d.cp,
             d.ep, d.sp ? "on" : "off");
  fmt::print("  batch        {} in {} micro-batch{} of {}\n", made.plan.batch, d.microbatches,
             d.microbatches == 1 ? "" : "es", made.plan.batch / d.microbatches);
  fmt::print("  pipeline     {}, {} stage{} per device\n", d.schedule, d.chunks,
             d.chunks == 1 ? "" : "s");
  fmt::print("  memory       {}, ZeRO {}, recompute {}\n", PrecisionName(d.precision, d.products), d.zero,
             kRecomputeNames[static_cast<size_t>(d.recompute)]);
  PrintStages(made);
  if (!args.output.empty()) fmt::print("\n  written to {}\n", args.output);
}

void RunPlan(const PlanArgs& args) {
  Made made = MakePlan(args);
  if (!args.output.empty()) WriteFileAtomically(args.output, ToJson(made.plan, made.model));
  if (args.model.json) {
    PrintJson(ToJson(made, args));
  } else {
    Print(made, args);
  }
}

}  // namespace

void AddPlan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "how to train a model on a cluster");
  auto args = std::make_shared<PlanArgs>();
  args->model.Add(*command);
  command->add_option("--cluster", args->cluster, "a YAML file or a preset (see 'heddle cluster')")
      ->required();
  command
      ->add_option("--searcher", args->searcher,
                   fmt::format("who makes the plan: {}", fmt::join(kSearchers, ", ")))
      ->capture_default_str();
  args->degrees.Add(*command);
  command->add_option("-o,--output", args->output, "the plan as a JSON file");
  command->footer(
      "Examples:\n"
      "  heddle plan gpt2 --cluster local:4 -o plan.json\n"
      "  heddle plan gpt3-175b --cluster dgx-h100:128 --batch 1536 --tp 8 --pp 16 --sp "
      "--microbatches 192 "
      "--precision bf16");
  command->callback([args] { RunPlan(*args); });
}

}  // namespace heddle
