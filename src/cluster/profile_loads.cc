#include "cluster/profile_loads.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_fields.h"

namespace heddle {
namespace {

constexpr double kMaxNumber = 1e30;

constexpr std::string_view kTableKeys[] = {"m", "n", "k", "rates"};
constexpr std::string_view kOpKeys[] = {"forward", "backward"};
constexpr std::string_view kLoadKeys[] = {"ranks",  "share",     "launch",   "view",
                                          "host",   "captured",  "backward", "copy",
                                          "update", "transfers", "kernels"};

double PositiveOf(const JsonValue& at) {
  std::optional<double> value = at.AsPositive();
  if (!value || *value > kMaxNumber) at.Refuse("expected a number above 0");
  return *value;
}

double PositiveOrZero(const JsonValue& at) {
  return at.json().is_number() && at.json().get<double>() == 0 ? 0 : PositiveOf(at);
}

std::vector<double> NumbersOf(const JsonValue& at) {
  std::vector<double> numbers;
  for (const JsonValue& item : at.List(kMaxProfileEntries)) numbers.push_back(PositiveOf(item));
  return numbers;
}

std::vector<double> RisingOf(const JsonValue& at) {
  std::vector<double> numbers = NumbersOf(at);
  for (size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] <= numbers[i - 1]) at.Refuse("expected ascending numbers");
  }
  if (numbers.empty()) at.Refuse("expected at least one number");
  return numbers;
}

TimeCurve CurveOf(const JsonValue& at) {
  TimeCurve curve;
  for (const JsonValue& entry : at.List(kMaxProfileEntries)) {
    std::vector<double> pair = NumbersOf(entry);
    if (pair.size() != 2) entry.Refuse("expected [size, seconds]");
    if (!curve.empty() && pair[0] <= curve.points.back().size) entry.Refuse("sizes must ascend");
    curve.points.push_back({pair[0], pair[1]});
  }
  if (curve.empty()) at.Refuse("expected at least one point");
  return curve;
}

RateTable TableOf(const JsonValue& at) {
  JsonFields fields(at, kTableKeys);
  RateTable table;
  if (fields.Has("m")) table.m = RisingOf(fields.ValueOf("m"));
  if (fields.Has("n")) table.n = RisingOf(fields.ValueOf("n"));
  if (fields.Has("k")) table.k = RisingOf(fields.ValueOf("k"));
  if (fields.Has("rates")) table.rates = NumbersOf(fields.ValueOf("rates"));
  size_t cells = table.m.size() * table.n.size() * table.k.size();
  if (cells == 0 || cells != table.rates.size()) {
    at.Refuse(
        fmt::format("{} rates for {} points of the grid m x n x k", table.rates.size(), cells));
  }
  return table;
}

OpTimes OpOf(const JsonValue& at) {
  JsonFields fields(at, kOpKeys);
  OpTimes times;
  if (fields.Has("forward")) times.forward = CurveOf(fields.ValueOf("forward"));
  if (fields.Has("backward")) times.backward = CurveOf(fields.ValueOf("backward"));
  return times;
}

KernelTimes KernelsOf(const JsonValue& at) {
  std::vector<std::string_view> known(kTimeTableNames.begin(), kTimeTableNames.end());
  known.push_back("ops");
  JsonFields fields(at, known);
  KernelTimes kernels;
  for (size_t t = 0; t < kTimeTableNames.size(); ++t) {
    if (fields.Has(kTimeTableNames[t])) {
      kernels.tables[t] = TableOf(fields.ValueOf(kTimeTableNames[t]));
    }
  }
  if (!fields.Has("ops")) return kernels;
  for (const auto& [op, entry] : fields.ValueOf("ops").Entries(kMaxProfileEntries))
    kernels.ops[op] = OpOf(entry);
  return kernels;
}

LoadTimes LoadOf(const JsonValue& at) {
  JsonFields fields(at, kLoadKeys);
  LoadTimes load;
  if (!fields.Has("ranks")) at.Refuse("ranks is missing");
  if (!fields.Has("copy")) at.Refuse("copy is missing");
  if (!fields.Has("view")) at.Refuse("view is missing: calibrate again");
  JsonValue ranks = fields.ValueOf("ranks");
  double number = PositiveOf(ranks);
  if (number != std::floor(number) || number > 1 << 20) ranks.Refuse("expected a number of ranks");
  load.ranks = static_cast<int64_t>(number);
  if (fields.Has("share")) {
    load.share = PositiveOf(fields.ValueOf("share"));
    if (load.share > 1) fields.Refuse("share", "expected a number above 0 and at most 1");
  }
  auto seconds = [&](std::string_view key, double& value) {
    if (fields.Has(key)) value = PositiveOrZero(fields.ValueOf(key));
  };
  seconds("launch", load.launch);
  seconds("view", load.view);
  seconds("host", load.host);
  seconds("backward", load.backward);
  if (fields.Has("captured")) load.captured = fields.Bool("captured");
  load.copy = CurveOf(fields.ValueOf("copy"));
  if (fields.Has("update")) load.update = CurveOf(fields.ValueOf("update"));
  if (fields.Has("transfers")) {
    for (const auto& [kind, entry] : fields.ValueOf("transfers").Entries(kMaxProfileEntries))
      load.transfers[kind] = CurveOf(entry);
  }
  if (fields.Has("kernels")) {
    for (const auto& [dtype, entry] : fields.ValueOf("kernels").Entries(kMaxProfileEntries))
      load.kernels[dtype] = KernelsOf(entry);
  }
  return load;
}

Json ToJson(const TimeCurve& curve) {
  Json json = Json::array();
  for (const TimePoint& point : curve.points) json.push_back({point.size, point.seconds});
  return json;
}

Json ToJson(const KernelTimes& kernels) {
  Json json = Json::object();
  for (size_t t = 0; t < kTimeTableNames.size(); ++t) {
    const RateTable& table = kernels.tables[t];
    if (table.empty()) continue;
    json[std::string(kTimeTableNames[t])] = {
        {"m", table.m}, {"n", table.n}, {"k", table.k}, {"rates", table.rates}};
  }
  Json& ops = json["ops"] = Json::object();
  for (const auto& [op, times] : kernels.ops) {
    Json& entry = ops[op] = Json::object();
    if (!times.forward.empty()) entry["forward"] = ToJson(times.forward);
    if (!times.backward.empty()) entry["backward"] = ToJson(times.backward);
  }
  return json;
}

}  // namespace

std::vector<LoadTimes> LoadsFromJson(const Json& json, std::string_view what) {
  std::vector<LoadTimes> loads;
  for (const JsonValue& at : JsonValue(json, what, "loads").List(kMaxProfileEntries)) {
    loads.push_back(LoadOf(at));
    if (loads.size() > 1 && loads.back().ranks <= loads[loads.size() - 2].ranks)
      at.Refuse("numbers of ranks must ascend");
  }
  return loads;
}

Json ToJson(const std::vector<LoadTimes>& loads) {
  Json json = Json::array();
  for (const LoadTimes& load : loads) {
    Json at = {{"ranks", load.ranks},
               {"launch", load.launch},
               {"view", load.view},
               {"backward", load.backward},
               {"copy", ToJson(load.copy)}};
    if (load.share < 1) at["share"] = load.share;
    if (load.captured) at["captured"] = true;
    if (load.host > 0) at["host"] = load.host;
    if (!load.update.empty()) at["update"] = ToJson(load.update);
    if (!load.transfers.empty()) {
      Json& transfers = at["transfers"] = Json::object();
      for (const auto& [kind, curve] : load.transfers) transfers[kind] = ToJson(curve);
    }
    Json& kernels = at["kernels"] = Json::object();
    for (const auto& [dtype, times] : load.kernels) kernels[dtype] = ToJson(times);
    json.push_back(std::move(at));
  }
  return json;
}

}  // namespace heddle
