#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>

#include "base/error.h"
#include "cli/commands.h"
#include "frontend/load.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

int Fail(int status, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "heddle: {}\n", OneLine(message));
  return status;
}

// What was printed must have arrived: a full disk or a closed pipe is a failure.
int Done() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout.good()) return 0;
  return Fail(1, fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

// CLI11 ends its help requests by exceptions, too.
int OnParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return Done();
  }
  return Fail(2, fmt::format("{} (see 'heddle --help')", error.what()));
}

// CLI11 says only that a command is required.
void RequireKnownCommand(CLI::App& app, const std::string& given) {
  if (given.empty() || given[0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), given) == names.end()) {
    ThrowInput("unknown command '{}'; there are {}", given, fmt::join(names, ", "));
  }
}

}  // namespace

void ModelArgs::Add(CLI::App& command) {
  command
      .add_option("MODEL", model,
                  "an .onnx file (also gzipped), a .heddle file, a Hugging Face config.json, or a "
                  "built-in such as gpt3-175b (see 'heddle models')")
      ->required();
  command
      .add_option("--dim", dims,
                  "size of a symbolic dimension, or a built-in model's key: --dim batch=8")
      ->type_name("NAME=N");
  command.add_option("--batch", batch, "samples per step, if not the model's own")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command.add_option("--frozen", frozen, "do not train parameters whose name matches (* and ?)")
      ->type_name("PATTERN");
  command.add_flag("--no-fuse", no_fuse,
                   "keep attention, normalisations and GELU apart as the file has them");
  command.add_flag("--json", json, "print one JSON object on standard output");
}

ImportOptions ModelArgs::Options() const {
  ImportOptions options;
  for (const std::string& text : dims) {
    size_t equals = text.find('=');
    int64_t size = 0;
    const char* end = text.data() + text.size();
    bool number = equals != std::string::npos && equals > 0 &&
                  std::from_chars(text.data() + equals + 1, end, size).ptr == end;
    if (!number || size < 1) ThrowInput("--dim {}: expected NAME=N with N at least 1", text);
    options.dims[text.substr(0, equals)] = size;
  }
  options.frozen = frozen;
  options.fuse = !no_fuse;
  return options;
}

Graph ModelArgs::Load() const {
  Graph graph = LoadModel(model, Options());
  if (batch == 0) return graph;
  try {
    return Rebatch(graph, batch);
  } catch (const InputError& error) {
    ThrowInput("{}: --batch {}: {}", model, batch, error.what());
  }
}

void PrintJson(const Json& json) {
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
}

const std::vector<AddCommand>& CoreCommands() {
  static const std::vector<AddCommand> commands = {
      AddInspect, AddModels,   AddCluster, AddDiscover, AddPlan,   AddExplain,
      AddSpace,   AddSimulate, AddFleet,   AddValidate, AddExport, AddCheckpoint};
  return commands;
}

int RunMain(int argc, const char* const* argv, const std::string& version,
            const std::vector<AddCommand>& commands) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of write(), not our death
  CLI::App app{"heddle plans, simulates and runs model-parallel training.", "heddle"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  for (AddCommand add : commands) add(app);
  try {
    RequireKnownCommand(app, argc > 1 ? argv[1] : "");
    app.parse(argc, argv);
    return Done();
  } catch (const CLI::ParseError& error) {
    return OnParseError(app, error);
  } catch (const InputError& error) {
    return Fail(2, error.what());
  } catch (const Infeasible& error) {
    return Fail(3, error.what());
  } catch (const RunError& error) {
    return Fail(1, error.what());
  } catch (const std::bad_alloc&) {
    return Fail(1, "out of memory");
  } catch (const std::exception& error) {
    return Fail(1, error.what());
  }
}

}  // namespace heddle
