#include "search/solver/cbc.h"

#include "base/error.h"

#ifdef HEDDLE_WITH_CBC

#include <Cbc_C_Interface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

namespace heddle {
namespace {

// The functions of CBC that are used here. The library is loaded on first use rather than with the
// program, because it loads OpenBLAS, which starts a spinning thread per core.
class Cbc {
 public:
  // Null where the library is not installed.
  static const Cbc* Get() {
    static const Cbc cbc;
    return cbc.loaded_ ? &cbc : nullptr;
  }

  decltype(&Cbc_newModel) new_model = nullptr;
  decltype(&Cbc_deleteModel) delete_model = nullptr;
  decltype(&Cbc_setLogLevel) set_log_level = nullptr;
  decltype(&Cbc_loadProblem) load_problem = nullptr;
  decltype(&Cbc_setInteger) set_integer = nullptr;
  decltype(&Cbc_setObjSense) set_sense = nullptr;
  decltype(&Cbc_setParameter) set_parameter = nullptr;
  decltype(&Cbc_solve) solve = nullptr;
  decltype(&Cbc_isProvenInfeasible) is_infeasible = nullptr;
  decltype(&Cbc_isProvenOptimal) is_optimal = nullptr;
  decltype(&Cbc_bestSolution) best_solution = nullptr;
  decltype(&Cbc_getBestPossibleObjValue) bound = nullptr;

 private:
  Cbc() {
    void* library = dlopen("libCbcSolver.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libCbcSolver.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    loaded_ = true;
    auto find = [&](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      loaded_ = loaded_ && function != nullptr;
    };
    find("Cbc_newModel", new_model);
    find("Cbc_deleteModel", delete_model);
    find("Cbc_setLogLevel", set_log_level);
    find("Cbc_loadProblem", load_problem);
    find("Cbc_setInteger", set_integer);
    find("Cbc_setObjSense", set_sense);
    find("Cbc_setParameter", set_parameter);
    find("Cbc_solve", solve);
    find("Cbc_isProvenInfeasible", is_infeasible);
    find("Cbc_isProvenOptimal", is_optimal);
    find("Cbc_bestSolution", best_solution);
    find("Cbc_getBestPossibleObjValue", bound);
  }

  bool loaded_ = false;
};

struct Deleter {
  void operator()(Cbc_Model* model) const { Cbc::Get()->delete_model(model); }
};
using CbcModel = std::unique_ptr<Cbc_Model, Deleter>;

CbcModel Load(const Cbc& cbc, const IntegerProgram& program, double seconds) {
  CbcModel model(cbc.new_model());
  cbc.set_log_level(model.get(), 0);
  std::vector<double> lower(program.costs.size(), 0), upper(program.costs.size(), 1);
  cbc.load_problem(model.get(), static_cast<int>(program.costs.size()),
                   static_cast<int>(program.row_lower.size()), program.starts.data(),
                   program.rows.data(), program.entries.data(), lower.data(), upper.data(),
                   program.costs.data(), program.row_lower.data(), program.row_upper.data());
  for (int c = 0; c < program.binaries; ++c) cbc.set_integer(model.get(), c);
  cbc.set_sense(model.get(), 1);
  cbc.set_parameter(model.get(), "timeMode", "elapsed");
  cbc.set_parameter(model.get(), "seconds", fmt::format("{}", seconds).c_str());
  cbc.set_parameter(model.get(), "ratioGap", "0");
  cbc.set_parameter(model.get(), "allowableGap", "1e-9");
  return model;
}

}  // namespace

bool HasCbc() { return Cbc::Get() != nullptr; }

void RequireCbc() {
  if (!HasCbc()) {
    throw InputError("CBC is not installed here (libCbcSolver.so; Debian: coinor-libcbc3)");
  }
}

CbcResult SolveCbc(const IntegerProgram& program, double seconds) {
  using Clock = std::chrono::steady_clock;
  RequireCbc();
  const Cbc& cbc = *Cbc::Get();
  Clock::time_point start = Clock::now();
  CbcModel model = Load(cbc, program, seconds);
  cbc.solve(model.get());
  // When time runs out inside the first relaxation, CBC reports a program as infeasible.
  bool in_time = std::chrono::duration<double>(Clock::now() - start).count() < seconds;
  CbcResult result;
  result.infeasible = in_time && cbc.is_infeasible(model.get());
  const double* values = cbc.best_solution(model.get());
  if (result.infeasible || values == nullptr) return result;
  result.values.assign(values, values + program.costs.size());
  result.proven = cbc.is_optimal(model.get()) != 0;
  result.bound = cbc.bound(model.get());
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
