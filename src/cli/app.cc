#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/option_types.h"
#include "cli/shared_options.h"
#include "cli/standard_files.h"
#include "frontend/load.h"
#include "ops/rebatch.h"

namespace heddle {
namespace {

int Fail(int status, std::string_view message) {
  std::fflush(stdout);
  // fmt::print is not used because it throws if standard error cannot be written.
  std::fputs(fmt::format("heddle: {}\n", OneLine(message)).c_str(), stderr);
  return status;
}

// Fails if the output could not be written, as on a full disk or a closed pipe.
int Done() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout.good()) return 0;
  return Fail(1, fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Returns ": did you mean '--steps'?", or nothing if no option is similar, because the list of all options is long.
std::string NearestOption(const CLI::App& command, const std::string& given) {
  std::string name = given.substr(0, given.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
  }
  std::vector<std::string_view> names(known.begin(), known.end());
  return Nearest(name, names).empty() ? "" : ": " + DidYouMean(name, names);
}

// The mistake in the arguments, and which command's help to see.
std::string ParseMistake(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<CLI::App*> given = app.get_subcommands();
  if (given.empty()) return fmt::format("{} (see 'heddle --help')", error.what());
  const CLI::App& command = *given.front();
  std::string help = fmt::format("(see 'heddle {} --help')", command.get_name());
  std::vector<std::string> extra = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || extra.empty()) {
    return fmt::format("{} {}", error.what(), help);
  }
  // The value of an unknown option is left over, too, so the first leftover option is the mistake.
  auto option = std::find_if(extra.begin(), extra.end(),
                             [](const std::string& text) { return text.starts_with('-'); });
  if (option == extra.end()) {
    return fmt::format("{}: unexpected argument '{}' {}", command.get_name(), extra.front(), help);
  }
  return fmt::format("{}: unknown option '{}'{} {}", command.get_name(), *option,
                     NearestOption(command, *option), help);
}

// CLI11 also reports requests for help as exceptions.
int OnParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return Done();
  }
  return Fail(2, ParseMistake(app, error));
}

// CLI11 would only say that a command is required.
void RequireKnownCommand(CLI::App& app, const std::string& given) {
  if (given.empty()) return;
  std::vector<std::string> names = CommandNames(app);
  if (given[0] == '-') {
    std::string name = given.substr(0, given.find('='));
    if (app.get_option_no_throw(name) != nullptr) return;
    std::string near = NearestOption(app, given);
    ThrowInput(
        "unknown option '{}'{} the command comes first, as in 'heddle {} ...' (see 'heddle "
        "--help')",
        given, near.empty() ? ":" : near, names.front());
  }
  if (std::find(names.begin(), names.end(), given) == names.end()) {
    std::vector<std::string_view> known(names.begin(), names.end());
    ThrowInput("unknown command '{}'; {}", given, DidYouMean(given, known));
  }
}

// CLI11 would take the next argument as the value of `--data=`, even if that is an option.
void RequireValues(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view text = argv[i];
    if (text.starts_with("--") && text.size() > 3 && text.find('=') == text.size() - 1) {
      ThrowInput("{}: the value is empty: give one, or leave the option out", text);
    }
  }
}

}  // namespace

void ModelArgs::Add(CLI::App& command) {
  command.add_option("MODEL", model, ModelHelp())->required();
  command
      .add_option("--dim", dims,
                  "size of a symbolic dimension, or a built-in model's key: --dim batch=8")
      ->type_name("NAME=N");
  command.add_option("--batch", batch, "samples per step (default: the batch of the model)")
      ->transform(IntegerIn(1, int64_t{1} << 40));
  command.add_option("--frozen", frozen, "do not train parameters whose name matches (* and ?)")
      ->type_name("PATTERN");
  command.add_flag("--no-fuse", no_fuse,
                   "do not fuse attention, normalisations and GELU: keep the ops of the file");
  AddJsonFlag(command, json);
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
    auto [known, first] = options.dims.emplace(text.substr(0, equals), size);
    if (!first && known->second != size) {
      ThrowInput("--dim {}: --dim {}={} says otherwise: give one of them", text, known->first,
                 known->second);
    }
  }
  auto dim = options.dims.find("batch");
  if (batch != 0 && dim != options.dims.end() && dim->second != batch) {
    ThrowInput("--batch {}: --dim batch={} says otherwise: give one of them", batch, dim->second);
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
  std::signal(SIGXFSZ,
              SIG_IGN);  // a limit on file sizes makes write() fail and does not end the process
  CLI::App app{"heddle plans, simulates and runs model-parallel training.", "heddle"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  for (AddCommand add : commands) add(app);
  RefuseEmptyValues(app);
  try {
    if (!OpenStandardFiles()) {
      ThrowRun(
          "standard output is closed, but results are written to it; use >/dev/null to discard "
          "them");
    }
    RequireKnownCommand(app, argc > 1 ? argv[1] : "");
    RequireValues(argc, argv);
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
  } catch (const std::system_error& error) {
    // fmt::print throws if the output is larger than the buffer of standard output and cannot be written.
    bool output = std::ferror(stdout) != 0;
    return Fail(
        1, output ? fmt::format("standard output cannot be written: {}", error.code().message())
                  : error.what());
  } catch (const std::bad_alloc&) {
    return Fail(1, "out of memory");
  } catch (const std::exception& error) {
    return Fail(1, error.what());
  }
}

}  // namespace heddle
