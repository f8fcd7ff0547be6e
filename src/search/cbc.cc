#include "search/cbc.h"

#include "base/error.h"

#ifdef HEDDLE_WITH_CBC

#include <Cbc_C_Interface.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

namespace heddle {
namespace {

struct Deleter {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
using CbcModel = std::unique_ptr<Cbc_Model, Deleter>;

CbcModel Load(const IntegerProgram& program, double seconds) {
  CbcModel model(Cbc_newModel());
  Cbc_setLogLevel(model.get(), 0);
  std::vector<double> lower(program.costs.size(), 0), upper(program.costs.size(), 1);
  Cbc_loadProblem(model.get(), static_cast<int>(program.costs.size()),
                  static_cast<int>(program.row_lower.size()), program.starts.data(),
                  program.rows.data(), program.entries.data(), lower.data(), upper.data(),
                  program.costs.data(), program.row_lower.data(), program.row_upper.data());
  for (int c = 0; c < program.binaries; ++c) Cbc_setInteger(model.get(), c);
  Cbc_setObjSense(model.get(), 1);
  Cbc_setParameter(model.get(), "timeMode", "elapsed");
  Cbc_setParameter(model.get(), "seconds", fmt::format("{}", seconds).c_str());
  Cbc_setParameter(model.get(), "ratioGap", "0");
  Cbc_setParameter(model.get(), "allowableGap", "1e-9");
  return model;
}

}  // namespace

bool HasCbc() { return true; }
void RequireCbc() {}

CbcResult SolveCbc(const IntegerProgram& program, double seconds) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  CbcModel model = Load(program, seconds);
  Cbc_solve(model.get());
  // Out of time inside the first relaxation, CBC calls a program infeasible.
  bool in_time = std::chrono::duration<double>(Clock::now() - start).count() < seconds;
  CbcResult result;
  result.infeasible = in_time && Cbc_isProvenInfeasible(model.get());
  const double* values = Cbc_bestSolution(model.get());
  if (result.infeasible || values == nullptr) return result;
  result.values.assign(values, values + program.costs.size());
  result.proven = Cbc_isProvenOptimal(model.get()) != 0;
  result.bound = Cbc_getBestPossibleObjValue(model.get());
  return result;
}

}  // namespace heddle

#else

namespace heddle {

bool HasCbc() { return false; }

void RequireCbc() {
  throw InputError(
      "heddle was built without CBC; install it (Debian: coinor-libcbc-dev), configure and build "
      "again");
}

CbcResult SolveCbc(const IntegerProgram&, double) {
  RequireCbc();
  return {};
}

}  // namespace heddle

#endif
