#include "report/goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/units.h"

namespace heddle {

Goodput GoodputOf(double start, double end, const std::vector<AttemptTimes>& attempts,
                  const std::vector<DoneStep>& steps) {
  Goodput goodput;
  goodput.wall_seconds = end - start;
  std::map<int64_t, double> counted;
  for (const DoneStep& step : steps) {
    auto [at, fresh] = counted.try_emplace(step.step, step.seconds);
    if (fresh) continue;
    goodput.again_seconds += std::exchange(at->second, step.seconds);
    ++goodput.lost_steps;
  }
  for (const auto& [step, seconds] : counted) goodput.step_seconds += seconds;
  double since = start;  // the start, or the last failure
  for (const AttemptTimes& attempt : attempts) {
    double began = attempt.training > 0 ? attempt.training : attempt.failed;
    double& waited = since == start ? goodput.start_seconds : goodput.restart_seconds;
    if (began > 0) waited += began - since;
    goodput.saving_seconds += attempt.saving_seconds;
    if (attempt.detected == 0) continue;
    ++goodput.restarts;
    goodput.detection_seconds += attempt.detected - attempt.failed;
    double last = attempt.training;  // time after the last finished step is lost, too
    for (const DoneStep& step : steps) {
      if (step.end <= attempt.failed) last = std::max(last, step.end);
    }
    if (attempt.training > 0) goodput.again_seconds += std::max(0.0, attempt.failed - last);
    since = attempt.detected;
  }
  if (!attempts.empty() && attempts.back().detected > 0)
    --goodput.restarts;  // the run ended with this failure
  return goodput;
}

std::string Describe(const Goodput& goodput) {
  auto time = [](double seconds) { return FormatSeconds(Seconds{seconds}); };
  std::string text = fmt::format("goodput {:.1f} %: steps {} of {}; start {}",
                                 100 * goodput.fraction(), time(goodput.step_seconds),
                                 time(goodput.wall_seconds), time(goodput.start_seconds));
  if (goodput.saving_seconds > 0) text += fmt::format(", saving {}", time(goodput.saving_seconds));
  if (goodput.restarts == 0) return text;
  return text + fmt::format("; {} restart{}: detection {}, restart {}, {} repeated step{} {}",
                            goodput.restarts, goodput.restarts == 1 ? "" : "s",
                            time(goodput.detection_seconds), time(goodput.restart_seconds),
                            goodput.lost_steps, goodput.lost_steps == 1 ? "" : "s",
                            time(goodput.again_seconds));
}

void AddGoodput(Json& json, const Goodput& goodput) {
  json["goodput"] = goodput.fraction();
  json["wall_seconds"] = goodput.wall_seconds;
  json["restarts"] = goodput.restarts;
  json["lost_steps"] = goodput.lost_steps;
  json["lost_seconds"] = {{"start", goodput.start_seconds},
                          {"detection", goodput.detection_seconds},
                          {"restart", goodput.restart_seconds},
                          {"steps_again", goodput.again_seconds},
                          {"saving", goodput.saving_seconds}};
}

}  // namespace heddle
