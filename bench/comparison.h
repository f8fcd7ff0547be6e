// Our solver beside another one, case by case: a table that grows as they are solved, or one JSON object.
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

// measure(case) gives a row, of which Line(row) is the text, ToJson(row) the object, row.ratio() how many times as fast
// we are and row.wrong() whether we are wrong. `about` is what the JSON object says besides its cases. The exit code is
// 1 where a row is wrong.
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

// Parses the arguments of `app` and runs; an error is one line, and 2 the exit code.
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
