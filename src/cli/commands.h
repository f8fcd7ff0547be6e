// The commands of heddle. Each Add function adds a subcommand, which runs if it is the one on the command line.
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

// Commands that need libtorch, in src/cli/torch/.
void AddTrain(CLI::App& app);
void AddCalibrate(CLI::App& app);
void AddLearn(CLI::App& app);
void AddPrune(CLI::App& app);
// Makes the graph network available to searches (cli/plan_search.h).
void UseNetworkPrior();
// Makes real runs of fleets available to `heddle fleet`.
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
  // The options for importing the model. Throws InputError if a --dim is not NAME=N.
  ImportOptions Options() const;
  // Loads the model at the given batch. Throws InputError.
  Graph Load() const;
};

// Prints the output of --json. Invalid UTF-8 in names is replaced.
void PrintJson(const Json& json);

using AddCommand = void (*)(CLI::App&);

// The whole program: parses the arguments, runs a command and reports errors in one line. Returns the exit status:
// 0 success, 1 failure, 2 bad usage or bad input, 3 no plan fits.
int RunMain(int argc, const char* const* argv, const std::string& version,
            const std::vector<AddCommand>& commands);

// The commands without libtorch.
const std::vector<AddCommand>& CoreCommands();

// Adds the commands that need libtorch to a program without it. They replace this process by `heddle-torch`, which lies
// beside this program, or fail with a message if it does not.
void AddForwarded(CLI::App& app);
void ForwardToTorch(int argc, char** argv);
// Replaces this process by `heddle-torch` with the arguments that ForwardToTorch was given. Returns if there is none.
void BecomeTorch();

}  // namespace heddle
