#include "fleet/jobs.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "cluster/yaml_fields.h"
#include "plan/plan.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, 6> kFleetKeys = {"cluster",  "devices", "host_memory",
                                                        "defaults", "jobs",    "early_stopping"};
// The keys that may have several values, in the order of expansion.
constexpr std::array<std::string_view, 14> kGridKeys = {
    "model",        "data",     "optimizer", "precision", "sparsity", "batch", "lr",
    "weight_decay", "momentum", "steps",     "epochs",    "samples",  "seed",  "priority"};
constexpr std::array<std::string_view, 15> kJobKeys = {
    "name",         "model",    "data",  "optimizer", "precision", "sparsity", "batch",   "lr",
    "weight_decay", "momentum", "steps", "epochs",    "samples",   "seed",     "priority"};
constexpr std::array<std::string_view, 3> kPrecisions = {"f32", "bf16", "f16"};

using Kind = YamlValue::Kind;

// The range of a number.
struct NumberRule {
  std::string_view key;
  double least = 0, most = 0;
  bool whole = false;
};
constexpr double kManySteps = 1e12;
constexpr NumberRule kNumberRules[] = {
    {"sparsity", 0, 0.9999, false}, {"batch", 1, 1e9, true},
    {"lr", 0, 1e6, false},          {"weight_decay", 0, 1e6, false},
    {"momentum", 0, 1, false},      {"steps", 1, kManySteps, true},
    {"epochs", 1e-6, 1e6, false},   {"samples", 1, kManySteps, true},
    {"seed", 0, 1e15, true},        {"priority", -1e6, 1e6, true},
};

const NumberRule* RuleOf(std::string_view key) {
  for (const NumberRule& rule : kNumberRules) {
    if (rule.key == key) return &rule;
  }
  return nullptr;
}

// One value of a grid with its place in the file.
struct GridValue {
  std::string text;
  double number = 0;
  int line = 0;
};

class JobsReader {
 public:
  explicit JobsReader(std::string_view file) : file_(file) {}

  FleetSpec Read(const YamlValue& root) {
    if (root.kind != Kind::kMap) {
      ThrowInput("{}:{}: jobs: expected a map with a list 'jobs'", file_, root.line);
    }
    const YamlFields top(root, file_, "", kFleetKeys);
    FleetSpec fleet;
    if (top.Has("cluster")) fleet.cluster = top.Text("cluster");
    fleet.devices = top.Count("devices", 0);
    fleet.host_memory = static_cast<int64_t>(
        top.OptionalQuantity("host_memory", Unit::kMemory, static_cast<double>(kMaxMemory.value)));
    if (const YamlValue* defaults = root.Find("defaults")) {
      const YamlFields checked(*defaults, file_, "defaults", kGridKeys);
    }
    const std::vector<YamlValue>& list = top.List("jobs");
    for (size_t i = 0; i < list.size(); ++i) {
      ReadJob(list[i], root.Find("defaults"), top.PathOf("jobs", i), i, fleet);
    }
    if (const YamlValue* rule = root.Find("early_stopping")) fleet.halving = ReadHalving(*rule);
    return fleet;
  }

 private:
  [[noreturn]] void Refuse(int line, std::string_view path, std::string_view value,
                           std::string_view remedy) const {
    ThrowInput("{}:{}: {}: {}: {}", file_, line, path, value, remedy);
  }

  void ReadJob(const YamlValue& value, const YamlValue* defaults, const std::string& path,
               size_t index, FleetSpec& fleet) {
    const YamlFields fields(value, file_, path, kJobKeys);
    const std::string base = fields.Name("name", fmt::format("job{}", index));
    std::array<std::vector<GridValue>, kGridKeys.size()> grid;
    double count = 1;
    for (size_t k = 0; k < kGridKeys.size(); ++k) {
      const YamlValue* at = value.Find(kGridKeys[k]);
      std::string where = fmt::format("{}.{}", path, kGridKeys[k]);
      if (at == nullptr && defaults != nullptr && !IsOverridden(value, kGridKeys[k])) {
        at = defaults->Find(kGridKeys[k]);
        where = fmt::format("defaults.{}", kGridKeys[k]);
      }
      if (at == nullptr) continue;
      grid[k] = ReadGrid(*at, kGridKeys[k], where);
      count *= static_cast<double>(grid[k].size());
    }
    if (count + static_cast<double>(fleet.jobs.size()) > static_cast<double>(kMaxJobs)) {
      ThrowInput(
          "{}:{}: {}: its grid has {:.0f} jobs, {:.0f} with those before it: at most {}; give "
          "fewer values",
          file_, value.line, path, count, count + static_cast<double>(fleet.jobs.size()), kMaxJobs);
    }
    Expand(grid, base, path, value.line, fleet);
  }

  // `steps` and `epochs` exclude each other: a key of the job overrides the other one in `defaults`.
  static bool IsOverridden(const YamlValue& job, std::string_view key) {
    return (key == "steps" && job.Find("epochs") != nullptr) ||
           (key == "epochs" && job.Find("steps") != nullptr);
  }

  std::vector<GridValue> ReadGrid(const YamlValue& value, std::string_view key,
                                  const std::string& path) const {
    if (value.kind == Kind::kMap) return ReadRange(value, key, path);
    if (value.kind != Kind::kList) return {ReadOne(value, key, path)};
    if (value.values.empty()) Refuse(value.line, path, "an empty list", "give at least one value");
    if (value.values.size() > static_cast<size_t>(kMaxJobs)) {
      Refuse(value.line, path, fmt::format("a list of {}", value.values.size()),
             fmt::format("at most {} jobs", kMaxJobs));
    }
    std::vector<GridValue> values;
    for (size_t i = 0; i < value.values.size(); ++i) {
      values.push_back(ReadOne(value.values[i], key, fmt::format("{}[{}]", path, i)));
    }
    return values;
  }

  GridValue ReadOne(const YamlValue& value, std::string_view key, const std::string& path) const {
    if (value.kind != Kind::kText || value.text.empty()) {
      Refuse(value.line, path, "not a value", "write one, a list of them, or {from, to, steps}");
    }
    GridValue out{value.text, 0, value.line};
    if (const NumberRule* rule = RuleOf(key)) {
      out.number = ReadNumber(value, path);
      CheckNumber(*rule, out.number, value.line, path, Quoted(value.text));
    } else if (key == "optimizer") {
      RequireOneOf(kOptimizers, value, path);
    } else if (key == "precision") {
      RequireOneOf(kPrecisions, value, path);
    }
    return out;
  }

  template <size_t n>
  void RequireOneOf(const std::array<std::string_view, n>& choices, const YamlValue& value,
                    const std::string& path) const {
    if (std::find(choices.begin(), choices.end(), value.text) != choices.end()) return;
    std::string all;
    for (std::string_view choice : choices)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", choice);
    Refuse(value.line, path, Quoted(value.text), "not one of " + all);
  }

  double ReadNumber(const YamlValue& value, const std::string& path) const {
    double number = 0;
    const char* end = value.text.data() + value.text.size();
    bool read = value.kind == Kind::kText && !value.text.empty();
    if (read) {
      auto [at, error] = std::from_chars(value.text.data(), end, number);
      read = error == std::errc() && at == end && std::isfinite(number);
    }
    if (!read) Refuse(value.line, path, Quoted(value.text), "must be a number");
    return number;
  }

  void CheckNumber(const NumberRule& rule, double number, int line, const std::string& path,
                   const std::string& shown) const {
    bool whole = !rule.whole || number == std::floor(number);
    if (whole && number >= rule.least && number <= rule.most) return;
    Refuse(line, path, shown,
           fmt::format("must be a {}number from {:g} to {:g}", rule.whole ? "whole " : "",
                       rule.least, rule.most));
  }

  // {from, to, steps}: this many values at equal distances; {from, to, factor}: each value is the previous one x
  // factor.
  std::vector<GridValue> ReadRange(const YamlValue& value, std::string_view key,
                                   const std::string& path) const {
    static constexpr std::array<std::string_view, 4> kKeys = {"from", "to", "steps", "factor"};
    const NumberRule* rule = RuleOf(key);
    if (rule == nullptr)
      Refuse(value.line, path, "a range", "ranges are only for numbers; give a list");
    const YamlFields fields(value, file_, path, kKeys);
    auto number = [&](std::string_view of) {
      if (!fields.Has(of)) fields.RefuseMissing(of, "a range needs from, to, and steps or factor");
      return ReadNumber(*value.Find(of), fields.PathOf(of));
    };
    double from = number("from"), to = number("to");
    if (fields.Has("steps") == fields.Has("factor")) {
      fields.RefuseAll("a range has either steps or factor");
    }
    if (!(from <= to)) fields.Refuse("to", fmt::format("{:g}", to), "must not be below 'from'");
    std::vector<double> numbers;
    if (fields.Has("steps")) {
      double steps = number("steps");
      if (steps < 1 || steps > static_cast<double>(kMaxJobs) || steps != std::floor(steps)) {
        fields.Refuse("steps", fmt::format("{:g}", steps),
                      fmt::format("must be a whole number from 1 to {}", kMaxJobs));
      }
      for (int64_t i = 0; i < static_cast<int64_t>(steps); ++i) {
        numbers.push_back(steps == 1 ? from
                                     : from + (to - from) * static_cast<double>(i) / (steps - 1));
      }
    } else {
      double factor = number("factor");
      if (!(factor > 1) || !(from > 0)) {
        fields.Refuse("factor", fmt::format("{:g}", factor), "must be above 1, and 'from' above 0");
      }
      for (double at = from; at <= to * (1 + 1e-9); at *= factor) {
        numbers.push_back(at);
        if (numbers.size() > static_cast<size_t>(kMaxJobs)) {
          fields.Refuse("factor", fmt::format("{:g}", factor),
                        fmt::format("gives more than {} values", kMaxJobs));
        }
      }
    }
    std::vector<GridValue> values;
    for (double at : numbers) {
      CheckNumber(*rule, at, value.line, path, fmt::format("{:g}", at));
      values.push_back({fmt::format("{:g}", at), at, value.line});
    }
    return values;
  }

  void Expand(const std::array<std::vector<GridValue>, kGridKeys.size()>& grid,
              const std::string& base, const std::string& path, int line, FleetSpec& fleet) {
    std::array<size_t, kGridKeys.size()> at = {};
    while (true) {
      JobSpec job;
      job.line = line;
      job.name = base;
      for (size_t k = 0; k < grid.size(); ++k) {
        if (grid[k].empty()) continue;
        SetField(job, kGridKeys[k], grid[k][at[k]]);
        if (grid[k].size() > 1) {
          job.name += fmt::format(" {}={}", kGridKeys[k], grid[k][at[k]].text);
        }
      }
      CheckJob(job, path);
      fleet.jobs.push_back(std::move(job));
      size_t k = grid.size();
      while (k > 0 && (grid[k - 1].size() <= 1 || at[k - 1] + 1 == grid[k - 1].size())) at[--k] = 0;
      if (k == 0) return;
      ++at[k - 1];
    }
  }

  static void SetField(JobSpec& job, std::string_view key, const GridValue& value) {
    auto whole = [&] { return static_cast<int64_t>(value.number); };
    if (key == "model") job.model = value.text;
    if (key == "data") job.data = value.text;
    if (key == "optimizer") job.optimizer = value.text;
    if (key == "precision") {
      job.precision = value.text == "f32"    ? DType::kF32
                      : value.text == "bf16" ? DType::kBF16
                                             : DType::kF16;
    }
    if (key == "sparsity") job.sparsity = value.number;
    if (key == "batch") job.batch = whole();
    if (key == "lr") job.lr = value.number;
    if (key == "weight_decay") job.weight_decay = value.number;
    if (key == "momentum") job.momentum = value.number;
    if (key == "steps") job.steps = whole();
    if (key == "epochs") job.epochs = value.number;
    if (key == "samples") job.samples = whole();
    if (key == "seed") job.seed = whole();
    if (key == "priority") job.priority = whole();
  }

  void CheckJob(const JobSpec& job, const std::string& path) {
    if (job.model.empty()) {
      ThrowInput("{}:{}: {}.model: missing: give one, such as gpt2", file_, job.line, path);
    }
    if ((job.steps == 0) == (job.epochs == 0)) {
      ThrowInput("{}:{}: {}: give either steps or epochs", file_, job.line, path);
    }
    if (job.epochs > 0 && job.samples == 0) {
      ThrowInput("{}:{}: {}.samples: missing: give the number of samples of an epoch", file_,
                 job.line, path);
    }
    if (static_cast<double>(job.samples) * job.epochs > kManySteps) {
      ThrowInput("{}:{}: {}.epochs: {:g}: too many: at most {:g} samples in total", file_, job.line,
                 path, job.epochs, kManySteps);
    }
    if (!names_.insert(job.name).second) {
      ThrowInput("{}:{}: {}.name: {}: another job has this name; choose another one", file_,
                 job.line, path, Quoted(job.name));
    }
  }

  HalvingRule ReadHalving(const YamlValue& value) const {
    static constexpr std::array<std::string_view, 3> kKeys = {"first", "keep", "factor"};
    const YamlFields fields(value, file_, "early_stopping", kKeys);
    HalvingRule rule;
    if (!fields.Has("first"))
      fields.RefuseMissing("first", "give the number of steps of the first rung");
    rule.first = fields.Count("first", 0);
    auto number = [&](std::string_view key, double otherwise, double least, double most) {
      if (!fields.Has(key)) return otherwise;
      double read = ReadNumber(*value.Find(key), fields.PathOf(key));
      if (!(read >= least && read <= most)) {
        fields.Refuse(key, fmt::format("{:g}", read),
                      fmt::format("must be a number from {:g} to {:g}", least, most));
      }
      return read;
    };
    rule.keep = number("keep", rule.keep, 0.01, 0.99);
    rule.factor = number("factor", rule.factor, 1.1, 100);
    return rule;
  }

  std::string_view file_;
  std::set<std::string> names_;
};

}  // namespace

int64_t StepsOf(const JobSpec& job, int64_t batch) {
  if (job.steps > 0) return job.steps;
  double samples = job.epochs * static_cast<double>(job.samples);
  return static_cast<int64_t>(std::ceil(samples / static_cast<double>(batch) - 1e-9));
}

FleetSpec JobsFromYaml(std::string_view text, std::string_view what) {
  return JobsReader(what).Read(ParseYaml(text, what, "docs/fleet.md"));
}

}  // namespace heddle
