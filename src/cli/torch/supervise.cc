#include "cli/torch/supervise.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "host/supervisor/member.h"
#include "report/goodput.h"

namespace heddle {
namespace {

// The losses of all attempts. A repeated step has its last loss.
std::map<int64_t, double> LossesOf(const std::vector<DoneStep>& steps) {
  std::map<int64_t, double> losses;
  for (const DoneStep& step : steps) losses[step.step] = step.loss;
  return losses;
}

Json ToJson(const SupervisedEnd& end, const Goodput& goodput) {
  Json json = ParseJson(end.result, kResultFile);
  if (!end.steps.empty()) {
    std::map<int64_t, double> losses = LossesOf(end.steps);
    json["first_step"] = losses.begin()->first;
    json["losses"] = Json::array();
    for (const auto& [step, loss] : losses) json["losses"].push_back(loss);
  }
  Json held_out = Json::array();
  for (const auto& [step, loss] : LossesOf(end.evaluations))
    held_out.push_back({{"step", step}, {"loss", loss}});
  if (!held_out.empty()) json["eval"] = std::move(held_out);
  AddGoodput(json, goodput);
  return json;
}

}  // namespace

void SuperviseArgs::Add(CLI::App& command) {
  command
      .add_option("--restarts", options.restarts,
                  "how often to restart from the last checkpoint after a rank died or hung")
      ->transform(IntegerIn(0, 1 << 20))
      ->capture_default_str();
  command.add_flag(
      "--elastic", options.elastic,
      "after a failure (with --restarts: when these are used up) make a plan for one device "
      "less and resume from the last checkpoint");
  min_ranks_option_ = command
                          .add_option("--min-ranks", options.min_ranks,
                                      "with --elastic: the smallest number of ranks to train on")
                          ->transform(IntegerIn(1, 1 << 20))
                          ->capture_default_str();
}

void SuperviseArgs::Check(bool has_checkpoints) const {
  if (Given() && !has_checkpoints) {
    ThrowInput("{}: restarting needs checkpoints: give their folder with --checkpoint",
               options.elastic ? "--elastic" : "--restarts");
  }
  if (min_ranks_option_->count() > 0 && !options.elastic)
    ThrowInput("--min-ranks {}: it needs --elastic, which is not given", options.min_ranks);
}

void PrintFailure(const std::string& what) { fmt::print(stderr, "heddle: {}\n", what); }

int SuperviseAndShow(const SuperviseArgs& args, SupervisedRun run, double began, bool json) {
  run.on_failure = &PrintFailure;
  SupervisedEnd end = Supervise(args.options, std::move(run));
  if (!end.finished) return end.status;
  Goodput goodput = GoodputOf(began, SteadySeconds(), end.attempts, end.steps);
  if (json) {
    PrintJson(ToJson(end, goodput));
  } else {
    fmt::print("{}\n", Describe(goodput));
  }
  return end.status;
}

}  // namespace heddle
