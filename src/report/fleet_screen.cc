#include "report/fleet_screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "report/fleet.h"

namespace heddle {
namespace {

constexpr size_t kMostRows = 24;  // of the table, which is redrawn in place
constexpr double kRedrawSeconds = 0.2;

std::string LossOf(const std::vector<StepRecord>& records) {
  return records.empty() ? "" : fmt::format("{:.4f}", records.back().loss);
}

std::string WhereOf(const DispatchedJob& job) {
  if (job.devices == 1) return fmt::format("device {}", job.device);
  return fmt::format("devices {}-{}", job.device, job.device + job.devices - 1);
}

// The largest number of devices that a job had at a time.
int64_t DevicesOf(const FleetRun& run, int job) {
  int64_t most = 1;
  for (const DispatchSpan& span : run.spans) {
    if (span.job == job) most = std::max(most, span.devices);
  }
  return most;
}

std::string StatusOf(const DispatchedJob& job) {
  if (!job.error.empty()) return job.error;
  if (job.finished == 0) return "stopped";
  return job.ended_early ? "ended early" : "done";
}

}  // namespace

FleetTable::FleetTable(std::vector<std::string> names, std::vector<int64_t> steps)
    : names_(std::move(names)), steps_(std::move(steps)) {
  const char* term = std::getenv("TERM");
  terminal_ = isatty(STDERR_FILENO) && term != nullptr && std::string(term) != "dumb";
}

FleetTable::~FleetTable() { Erase(); }

void FleetTable::Erase() {
  if (drawn_ > 0) fmt::print(stderr, "\033[{}A\033[J", drawn_);
  drawn_ = 0;
}

void FleetTable::Update(const FleetRun& run) {
  if (!terminal_ || SteadySeconds() < next_) return;
  next_ = SteadySeconds() + kRedrawSeconds;
  Erase();
  std::string text =
      fmt::format("{:<32} {:>13} {:>10} {:>10}  {}\n", "job", "step", "loss", "remaining", "on");
  size_t rows = std::min(names_.size(), kMostRows);
  for (size_t j = 0; j < rows; ++j) {
    const DispatchedJob& job = run.jobs[j];
    std::string where = job.device >= 0 ? WhereOf(job) : job.finished > 0 ? StatusOf(job) : "";
    text +=
        fmt::format("{:<32} {:>13} {:>10} {:>10}  {}\n", names_[j].substr(0, 32),
                    fmt::format("{}/{}", job.step, steps_[j]), LossOf(job.records),
                    job.finished > 0 ? "" : FormatSeconds(Seconds{job.remaining_seconds}), where);
  }
  if (rows < names_.size()) text += fmt::format("and {} more\n", names_.size() - rows);
  fmt::print(stderr, "{}", text);
  drawn_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

void FleetTable::Ended(int job, const FleetRun& run) {
  if (terminal_) return;
  const DispatchedJob& at = run.jobs[static_cast<size_t>(job)];
  std::string loss = LossOf(at.records);
  LogInfo("{}: {}{} after {} steps", names_[static_cast<size_t>(job)], StatusOf(at),
          loss.empty() ? "" : ", loss " + loss, at.step);
}

double MeasuredBound(const FleetRun& run) {
  std::vector<double> work(run.jobs.size(), 0);
  for (const DispatchSpan& span : run.spans)
    work[static_cast<size_t>(span.job)] +=
        (span.end - span.begin) / static_cast<double>(span.devices);
  double all = std::accumulate(run.busy.begin(), run.busy.end(), 0.0);
  double longest = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  return std::max(longest, all / static_cast<double>(std::max<size_t>(1, run.busy.size())));
}

std::string Screen(const FleetScreenInput& input) {
  std::string text = fmt::format("{:<32} {:>7} {:>7} {:>8} {:>20} {:>10}  {}\n", "job", "steps",
                                 "visits", "devices", "loss", "after", "");
  FleetResult spans;  // for the picture
  spans.makespan = input.run.seconds;
  spans.finished.assign(input.run.jobs.size(), 0);
  spans.busy = input.run.busy;
  for (const DispatchSpan& at : input.run.spans)
    spans.spans.push_back({at.device, at.job, at.begin, at.end});
  for (size_t j = 0; j < input.names.size(); ++j) {
    const DispatchedJob& job = input.run.jobs[j];
    const std::vector<double>& losses = input.losses[j];
    std::string loss =
        losses.empty() ? "" : fmt::format("{:.4f} -> {:.4f}", losses.front(), losses.back());
    text +=
        fmt::format("{} {:<30} {:>7} {:>7} {:>8} {:>20} {:>10}  {}\n", LetterOf(j),
                    input.names[j].substr(0, 30), job.step, input.shards[j],
                    DevicesOf(input.run, static_cast<int>(j)), loss,
                    job.finished > 0 ? FormatSeconds(Seconds{job.finished}) : "", StatusOf(job));
  }
  text += "\n" + FleetTimetable(spans) + "\n";
  double bound = MeasuredBound(input.run);
  text += fmt::format(
      "all jobs in {}, at least {} by the times of their visits: {:.1f} % above; devices computed "
      "{:.1f} % of the time\n",
      FormatSeconds(Seconds{input.run.seconds}), FormatSeconds(Seconds{bound}),
      bound > 0 ? 100 * (input.run.seconds / bound - 1) : 0, 100 * input.run.utilisation());
  for (size_t d = 0; d < input.peak_bytes.size(); ++d) {
    text += fmt::format("device {} held at most {} of the {} it may use (measured)\n", d,
                        FormatBytes(Bytes{input.peak_bytes[d]}),
                        FormatBytes(Bytes{input.memory_limit}));
  }
  return text;
}

Json ToJson(const FleetScreenInput& input) {
  Json json;
  json["simulated"] = false;
  json["makespan_seconds"] = input.run.seconds;
  json["lower_bound_seconds"] = MeasuredBound(input.run);
  json["utilisation"] = input.run.utilisation();
  json["switches"] = input.run.switches;
  json["jobs"] = Json::array();
  for (size_t j = 0; j < input.names.size(); ++j) {
    const DispatchedJob& job = input.run.jobs[j];
    Json at = {{"name", input.names[j]},
               {"steps", job.step},
               {"losses", input.losses[j]},
               {"visits", input.shards[j]},
               {"finished_seconds", job.finished},
               {"ended_early", job.ended_early},
               {"devices", DevicesOf(input.run, static_cast<int>(j))}};
    if (!job.error.empty()) at["error"] = job.error;
    json["jobs"].push_back(std::move(at));
  }
  json["devices"] = input.peak_bytes.size();
  json["per_device"] = Json::array();
  for (size_t d = 0; d < input.peak_bytes.size(); ++d) {
    json["per_device"].push_back({{"busy_seconds", input.run.busy[d]},
                                  {"peak_memory_bytes", input.peak_bytes[d]},
                                  {"memory_limit_bytes", input.memory_limit}});
  }
  return json;
}

}  // namespace heddle
