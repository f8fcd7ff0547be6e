#include "cluster/profile_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace heddle {
namespace {

constexpr double kMaxNumber = 1e30;

// Reads one value and knows where it stands.
class JsonReader {
 public:
  JsonReader(const Json& json, std::string_view what, std::string path)
      : json_(json), what_(what), path_(std::move(path)) {}

  [[noreturn]] void Fail(std::string_view remedy) const {
    std::string shown = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    ThrowInput("{}: {}: {}: {}", what_, path_, OneLine(shown), remedy);
  }

  double Number() const {
    double value = json_.is_number() ? json_.get<double>() : NAN;
    if (!(value > 0 && value <= kMaxNumber)) Fail("expected a number above 0");
    return value;
  }
  double NumberOrZero() const {
    return json_.is_number() && json_.get<double>() == 0 ? 0 : Number();
  }
  bool Flag() const {
    if (!json_.is_boolean()) Fail("expected true or false");
    return json_.get<bool>();
  }
  // Calls use(reader, index) for every entry.
  template <typename Use>
  void EachOfList(Use&& use) const {
    if (!json_.is_array() || json_.size() > kMaxProfileEntries)
      Fail(fmt::format("expected a list of at most {}", kMaxProfileEntries));
    for (size_t i = 0; i < json_.size(); ++i)
      use(JsonReader(json_[i], what_, fmt::format("{}[{}]", path_, i)));
  }
  // Calls use(key, reader) for every field.
  template <typename Use>
  void EachField(Use&& use) const {
    if (!json_.is_object() || json_.size() > kMaxProfileEntries)
      Fail(fmt::format("expected an object of at most {} fields", kMaxProfileEntries));
    for (const auto& [key, value] : json_.items())
      use(key, JsonReader(value, what_, fmt::format("{}.{}", path_, key)));
  }
  std::vector<double> Numbers() const {
    std::vector<double> numbers;
    if (json_.is_array() && json_.size() <= kMaxProfileEntries) numbers.reserve(json_.size());
    EachOfList([&](const JsonReader& at) { numbers.push_back(at.Number()); });
    return numbers;
  }
  std::vector<double> Rising() const {
    std::vector<double> numbers = Numbers();
    for (size_t i = 1; i < numbers.size(); ++i) {
      if (numbers[i] <= numbers[i - 1]) Fail("expected numbers that rise");
    }
    if (numbers.empty()) Fail("expected at least one number");
    return numbers;
  }
  [[noreturn]] void Unknown() const { Fail("no field of a profile is called so"); }

 private:
  const Json& json_;
  std::string_view what_;
  std::string path_;
};

TimeCurve CurveOf(const JsonReader& at) {
  TimeCurve curve;
  at.EachOfList([&](const JsonReader& entry) {
    std::vector<double> pair = entry.Numbers();
    if (pair.size() != 2) entry.Fail("expected [size, seconds]");
    if (!curve.empty() && pair[0] <= curve.points.back().size) entry.Fail("sizes must rise");
    curve.points.push_back({pair[0], pair[1]});
  });
  if (curve.empty()) at.Fail("expected at least one point");
  return curve;
}

RateTable TableOf(const JsonReader& at) {
  RateTable table;
  at.EachField([&](const std::string& key, const JsonReader& field) {
    if (key == "m") {
      table.m = field.Rising();
    } else if (key == "n") {
      table.n = field.Rising();
    } else if (key == "k") {
      table.k = field.Rising();
    } else if (key == "rates") {
      table.rates = field.Numbers();
    } else {
      field.Unknown();
    }
  });
  size_t cells = table.m.size() * table.n.size() * table.k.size();
  if (cells == 0 || cells != table.rates.size())
    at.Fail(fmt::format("{} rates for {} places of the grid m x n x k", table.rates.size(), cells));
  return table;
}

OpTimes OpOf(const JsonReader& at) {
  OpTimes times;
  at.EachField([&](const std::string& key, const JsonReader& field) {
    if (key == "forward") {
      times.forward = CurveOf(field);
    } else if (key == "backward") {
      times.backward = CurveOf(field);
    } else {
      field.Unknown();
    }
  });
  return times;
}

KernelTimes KernelsOf(const JsonReader& at) {
  KernelTimes kernels;
  at.EachField([&](const std::string& key, const JsonReader& field) {
    if (key == "ops") {
      field.EachField(
          [&](const std::string& op, const JsonReader& entry) { kernels.ops[op] = OpOf(entry); });
      return;
    }
    auto found = std::find(kTimeTableNames.begin(), kTimeTableNames.end(), key);
    if (found == kTimeTableNames.end()) field.Unknown();
    kernels.tables[static_cast<size_t>(found - kTimeTableNames.begin())] = TableOf(field);
  });
  return kernels;
}

LoadTimes LoadOf(const JsonReader& at) {
  LoadTimes load;
  load.ranks = 0;
  bool view = false;
  at.EachField([&](const std::string& key, const JsonReader& field) {
    if (key == "ranks") {
      double ranks = field.Number();
      if (ranks != std::floor(ranks) || ranks > 1 << 20) field.Fail("expected a number of ranks");
      load.ranks = static_cast<int64_t>(ranks);
    } else if (key == "share") {
      load.share = field.Number();
      if (load.share > 1) field.Fail("expected a number above 0 and at most 1");
    } else if (key == "launch") {
      load.launch = field.NumberOrZero();
    } else if (key == "view") {
      load.view = field.NumberOrZero();
      view = true;
    } else if (key == "host") {
      load.host = field.NumberOrZero();
    } else if (key == "captured") {
      load.captured = field.Flag();
    } else if (key == "backward") {
      load.backward = field.NumberOrZero();
    } else if (key == "copy") {
      load.copy = CurveOf(field);
    } else if (key == "update") {
      load.update = CurveOf(field);
    } else if (key == "transfers") {
      field.EachField([&](const std::string& kind, const JsonReader& entry) {
        load.transfers[kind] = CurveOf(entry);
      });
    } else if (key == "kernels") {
      field.EachField([&](const std::string& dtype, const JsonReader& entry) {
        load.kernels[dtype] = KernelsOf(entry);
      });
    } else {
      field.Unknown();
    }
  });
  if (load.ranks == 0) at.Fail("ranks is missing");
  if (load.copy.empty()) at.Fail("copy is missing");
  if (!view) at.Fail("view is missing: calibrate again");
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
  JsonReader(json, what, "loads").EachOfList([&](const JsonReader& at) {
    loads.push_back(LoadOf(at));
    if (loads.size() > 1 && loads.back().ranks <= loads[loads.size() - 2].ranks)
      at.Fail("numbers of ranks must rise");
  });
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
