// Integer programs solved by COIN-OR's CBC, an optional library (Debian: coinor-libcbc-dev): a
// baseline for the exact solvers.
#pragma once

#include <vector>

namespace heddle {

// Minimise costs . x over 0 <= x <= 1 with row_lower <= A x <= row_upper. Rows are added first,
// then column by column:
//
//   int row = program.AddRow(1, 1);
//   program.Put(row, 1);  program.EndColumn(cost);
struct IntegerProgram {
  std::vector<int> starts = {0}, rows;
  std::vector<double> entries, costs;
  std::vector<double> row_lower, row_upper;
  int binaries = 0;  // this many first columns are binary, the others continuous

  int AddRow(double lower, double upper) {
    row_lower.push_back(lower);
    row_upper.push_back(upper);
    return static_cast<int>(row_lower.size()) - 1;
  }
  void Put(int row, double entry) {
    rows.push_back(row);
    entries.push_back(entry);
  }
  int EndColumn(double cost) {
    costs.push_back(cost);
    starts.push_back(static_cast<int>(rows.size()));
    return static_cast<int>(costs.size()) - 1;
  }
};

struct CbcResult {
  bool infeasible = false;     // proven infeasible
  bool proven = false;         // `values` are proven optimal
  std::vector<double> values;  // per column; empty where nothing was found
  double bound = 0;            // a lower bound on the objective
};

bool HasCbc();
// Throws InputError where heddle was built without CBC.
void RequireCbc();

// `seconds` of wall-clock time; CBC checks it between relaxations. Throws like RequireCbc.
CbcResult SolveCbc(const IntegerProgram& program, double seconds);

}  // namespace heddle
