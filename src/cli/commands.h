// The commands of heddle: each adds itself to the application and runs when it is the one given.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "frontend/import_options.h"

namespace heddle {

void AddInspect(CLI::App& app);
void AddExport(CLI::App& app);
void AddTrain(CLI::App& app);

// The MODEL argument and the flags that go with it, the same for every command.
struct ModelArgs {
  std::string model;
  std::vector<std::string> dims;
  std::vector<std::string> frozen;
  bool no_fuse = false;
  bool json = false;

  void Add(CLI::App& command);
  // Throws InputError for a malformed --dim.
  ImportOptions Options() const;
};

// The whole program: parses, runs, reports errors in one line. Returns the exit status: 0 done, 1 failed,
// 2 bad usage or bad input, 3 infeasible.
int RunMain(int argc, const char* const* argv, const std::string& version);

}  // namespace heddle
