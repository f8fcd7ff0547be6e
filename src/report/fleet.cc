#include "report/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"

namespace heddle {
namespace {

constexpr size_t kMostJobs = 40;  // rows of the table

std::string BytesText(int64_t bytes) { return FormatBytes(Bytes{bytes}); }
std::string TimeText(double seconds) { return FormatSeconds(Seconds{seconds}); }

std::string FleetHead(const FleetReport& r) {
  std::string text =
      fmt::format("{} jobs on {} x {}\n", r.jobs.size(), r.devices.devices, r.device);
  text += fmt::format("  policy       {}: {}\n", r.policy, r.policy_about);
  double bound = r.lower_bound();
  text += fmt::format("  makespan     {} (simulated), {:+.1f} % over the lower bound of {}\n",
                      TimeText(r.result.makespan),
                      bound > 0 ? 100 * (r.result.makespan / bound - 1) : 0, TimeText(bound));
  text += fmt::format("               (longest job {}, all work over the devices {})\n",
                      TimeText(r.bound.longest_job), TimeText(r.bound.work));
  if (r.several && r.several->pieces.empty()) {
    text += "  several      no: shards on one device at a time are as fast\n";
  } else if (r.several) {
    text += fmt::format(
        "  several      from {} on, jobs run on several devices each; with shards only: {}\n",
        TimeText(r.several->from), TimeText(r.several->without));
  } else if (static_cast<int64_t>(r.jobs.size()) < r.devices.devices) {
    text += "  several      no: with fewer jobs than devices, some devices are idle\n";
  }
  double device_time = r.result.makespan * static_cast<double>(r.devices.devices);
  text += fmt::format("  devices      at work {:.1f} %, waiting for copies {:.1f} %\n",
                      100 * r.result.utilisation(),
                      device_time > 0 ? 100 * r.result.waited / device_time : 0);
  int64_t peak = 0, host = 0, kept = 0, recomputed = 0;
  for (const FleetReport::Job& job : r.jobs) {
    peak = std::max(peak, job.peak_bytes);
    host += job.host_bytes;
    kept += job.kept_blocks;
    recomputed += job.recomputed_blocks;
  }
  if (kept + recomputed > 0) {
    text += fmt::format(
        "  backward     of shards before the last {} blocks are kept on the host, {} recomputed\n",
        kept, recomputed);
  }
  text += fmt::format("  memory       a shard up to {}, and {} for the next, of {} a device\n",
                      BytesText(peak), BytesText(r.buffer_bytes), BytesText(r.device_bytes));
  text += fmt::format("  host         {} for all jobs", BytesText(host));
  if (r.host_limit > 0) text += fmt::format(" of {}", BytesText(r.host_limit));
  text += fmt::format("; copied in {}, out {}\n", BytesText(r.result.fetched),
                      BytesText(r.result.evicted));
  if (r.early_stopping) {
    text +=
        "  early_stopping needs losses, which a simulation does not have: every job runs to its "
        "end\n";
  }
  return text;
}

std::string JobTable(const FleetReport& r) {
  size_t width = 4;
  for (const FleetReport::Job& job : r.jobs) width = std::max(width, job.name.size());
  width = std::min(width, size_t{48});
  std::string text = fmt::format("\n    {:<{}} {:>9} {:>7} {:>12} {:>14} {:>14}\n", "job", width,
                                 "steps", "shards", "step", "alone", "finished");
  for (size_t j = 0; j < r.jobs.size(); ++j) {
    if (j == kMostJobs) {
      text += fmt::format("    and {} more\n", r.jobs.size() - j);
      break;
    }
    const FleetReport::Job& job = r.jobs[j];
    text += fmt::format("  {} {:<{}} {:>9} {:>7} {:>12} {:>14} {:>14}\n", LetterOf(j),
                        job.name.substr(0, width), width, job.steps, job.shard_ends.size(),
                        TimeText(job.step_seconds), TimeText(job.total_seconds),
                        TimeText(job.finished));
  }
  return text;
}

}  // namespace

char LetterOf(size_t job) {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return job < kLetters.size() ? kLetters[job] : '#';
}

std::string FleetTimetable(const FleetResult& result, size_t columns, size_t rows) {
  if (result.makespan <= 0) return "";
  size_t devices = std::min(result.busy.size(), rows);
  double column = result.makespan / static_cast<double>(columns);
  // For each row and column, the seconds of each job.
  std::vector<std::vector<std::map<int, double>>> shares(
      devices, std::vector<std::map<int, double>>(columns));
  for (const FleetSpan& span : result.spans) {
    auto d = static_cast<size_t>(span.device);
    if (d >= devices) continue;
    auto first = static_cast<size_t>(span.begin / column);
    for (size_t c = first; c < columns && static_cast<double>(c) * column < span.end; ++c) {
      double from = std::max(span.begin, static_cast<double>(c) * column);
      double to = std::min(span.end, static_cast<double>(c + 1) * column);
      if (to > from) shares[d][c][span.job] += to - from;
    }
  }
  std::string text;
  for (size_t d = 0; d < devices; ++d) {
    text += fmt::format("  {:<5}", fmt::format("d{}", d));
    for (const std::map<int, double>& share : shares[d]) {
      double busy = 0, most = 0;
      char shown = '.';
      for (const auto& [job, seconds] : share) {
        busy += seconds;
        if (seconds <= most) continue;
        most = seconds;
        shown = LetterOf(static_cast<size_t>(job));
      }
      text += busy * 2 < column ? '.' : shown;
    }
    text += '\n';
  }
  if (result.busy.size() > devices) {
    text += fmt::format("  and {} more device{}\n", result.busy.size() - devices,
                        result.busy.size() - devices == 1 ? "" : "s");
  }
  return text;
}

std::string Screen(const FleetReport& report) {
  std::string text = FleetHead(report) + JobTable(report);
  std::string table = FleetTimetable(report.result);
  if (!table.empty()) {
    text += fmt::format("\n       {:<40}{:>40}\n", "0 s", TimeText(report.result.makespan)) + table;
    text += "       letter: the job that uses most of that time; . idle\n";
  }
  return text;
}

Json ToJson(const FleetReport& report) {
  Json jobs = Json::array();
  int64_t host = 0;
  for (const FleetReport::Job& job : report.jobs) {
    host += job.host_bytes;
    jobs.push_back({{"name", job.name},
                    {"losses", Json::array()},
                    {"finished_seconds", job.finished},
                    {"steps", job.steps},
                    {"shard_ends", job.shard_ends},
                    {"step_seconds", job.step_seconds},
                    {"peak_memory_bytes", job.peak_bytes},
                    {"kept_blocks", job.kept_blocks},
                    {"recomputed_blocks", job.recomputed_blocks},
                    {"host_bytes", job.host_bytes}});
  }
  Json json = {{"simulated", true},
               {"policy", report.policy},
               {"devices", report.devices.devices},
               {"makespan_seconds", report.result.makespan},
               {"lower_bound_seconds", report.lower_bound()},
               {"longest_job_seconds", report.bound.longest_job},
               {"utilisation", report.result.utilisation()},
               {"waited_seconds", report.result.waited},
               {"buffer_bytes", report.buffer_bytes},
               {"host_bytes", host},
               {"fetched_bytes", report.result.fetched},
               {"evicted_bytes", report.result.evicted},
               {"jobs", std::move(jobs)}};
  if (!report.several) return json;
  Json pieces = Json::array();
  for (const SpasePiece& piece : report.several->pieces) {
    pieces.push_back({{"job", report.jobs[static_cast<size_t>(piece.job)].name},
                      {"first_device", piece.first},
                      {"devices", piece.devices},
                      {"begin_seconds", piece.begin},
                      {"end_seconds", piece.end}});
  }
  json["several"] = {{"from_seconds", report.several->from},
                     {"makespan_without_seconds", report.several->without},
                     {"pieces", std::move(pieces)}};
  return json;
}

}  // namespace heddle
