// Compares our solver with another one, case by case. Prints a table line by line, or one JSON object.
//
//   return Compare(Cases(), json, TableHead(), [&](const Case& at) { return Measure(at); });
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>

#include "base/json.h"

namespace heddle {

// measure(case) returns a row. Line(row) is its text, ToJson(row) its object, row.ratio() the speedup of our solver,
// and row.wrong() whether our result is wrong. `about` has the other keys of the JSON object. The exit code is 1 if a
// row is wrong.
template <class Cases, class Measure>
int Compare(const Cases& cases, bool json, const std::string& head, const Measure& measure,
            Json about = Json::object()) {
  if (!json) fmt::print("{}", head);
  Json rows = Json::array();
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double least = kNone;
  bool wrong = false;
  for (const auto& at : cases) {
    const auto row = measure(at);
    least = std::min(least, row.ratio());
    wrong = wrong || row.wrong();
    if (json) {
      rows.push_back(ToJson(row));
    } else {
      fmt::print("{}\n", Line(row));
      std::fflush(stdout);
    }
  }
  if (json) {
    about["cases"] = std::move(rows);
    fmt::print("{}\n", about.dump(2));
  } else if (least < kNone) {
    fmt::print("the least ratio: {:.0f}\n", least);
  }
  return wrong ? 1 : 0;
}

// Parses the arguments of `app` and runs. An error prints one line and gives exit code 2.
template <class Run>
int ParseAndRun(CLI::App& app, int argc, char** argv, const Run& run) {
  CLI11_PARSE(app, argc, argv);
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}

}  // namespace heddle
