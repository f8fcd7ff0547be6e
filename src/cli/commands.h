// The commands of heddle: each adds itself to the application and runs when it is the one given.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "frontend/import_options.h"
#include "graph/graph.h"

namespace heddle {

void AddCheckpoint(CLI::App& app);
void AddInspect(CLI::App& app);
void AddExplain(CLI::App& app);
void AddExport(CLI::App& app);
void AddCluster(CLI::App& app);
void AddDiscover(CLI::App& app);
void AddFleet(CLI::App& app);
void AddModels(CLI::App& app);
void AddPlan(CLI::App& app);
void AddSimulate(CLI::App& app);
void AddSpace(CLI::App& app);
void AddValidate(CLI::App& app);

// Those that need libtorch, in src/cli/torch/.
void AddTrain(CLI::App& app);
void AddCalibrate(CLI::App& app);
void AddLearn(CLI::App& app);
void AddPrune(CLI::App& app);
// Lets plans be searched for with the network (cli/plan_search.h).
void UseNetworkPrior();
// Lets fleets run for real.
struct FleetArgs;  // cli/fleet_args.h
using RealFleet = void (*)(const FleetArgs&);
void UseRealFleet(RealFleet run);
void RunRealFleet(const FleetArgs& args);  // in src/cli/torch/

// The MODEL argument and the flags that go with it, the same for every command.
struct ModelArgs {
  std::string model;
  std::vector<std::string> dims;
  std::vector<std::string> frozen;
  int64_t batch = 0;  // 0: the model's own
  bool no_fuse = false;
  bool json = false;

  void Add(CLI::App& command);
  // How to import it. Throws InputError where a --dim is not NAME=N.
  ImportOptions Options() const;
  // Loads the model at the batch asked for. Throws InputError.
  Graph Load() const;
};

// What --json prints; names that are not UTF-8 are mended.
void PrintJson(const Json& json);

using AddCommand = void (*)(CLI::App&);

// The whole program: parses, runs one of the commands, reports errors in one line. Returns the exit status:
// 0 done, 1 failed, 2 bad usage or bad input, 3 infeasible.
int RunMain(int argc, const char* const* argv, const std::string& version,
            const std::vector<AddCommand>& commands);

// The commands without libtorch.
const std::vector<AddCommand>& CoreCommands();

// For a program without libtorch: if the command given needs it, becomes `heddle-torch`, which lies beside
// this program; says what is missing when it does not.
void AddForwarded(CLI::App& app);
void ForwardToTorch(int argc, char** argv);
// Becomes `heddle-torch` with the arguments that ForwardToTorch was given; comes back where there is none.
void BecomeTorch();

}  // namespace heddle
