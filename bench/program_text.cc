// Prints the program of a plan: the list of the first device of every run, as src/program/text.h writes it.
//
//   build/bench/program_text plan.json [MODEL]
//
// scripts/compare-builds compares those of two builds.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/plan_args.h"
#include "program/lower.h"
#include "program/text.h"

int main(int argc, char** argv) {
  using namespace heddle;
  if (argc < 2) {
    fmt::print(stderr, "usage: {} PLAN.json [MODEL]\n", argv[0]);
    return 2;
  }
  try {
    LoadedPlan loaded = LoadPlan(argv[1], argc > 2 ? argv[2] : "");
    Program program = Lower(loaded.model, loaded.plan);
    for (const DeviceProgram& run : program.runs) {
      fmt::print("{}", ToText(program, run.devices.front()));
    }
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
