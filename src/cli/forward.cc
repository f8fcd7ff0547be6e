#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"

namespace heddle {
namespace {

struct Forwarded {
  std::string_view name;
  std::string_view summary;
};

constexpr std::array<Forwarded, 4> kForwarded = {{
    {"train", "train a model"},
    {"calibrate", "measure this machine's kernels and links, as a profile"},
    {"prune", "which weights of a model to keep, as a mask"},
    {"learn", "teach the network that guides the search where devices or links differ"},
}};

char** arguments = nullptr;  // of this program

}  // namespace

void AddForwarded(CLI::App& app) {
  for (const Forwarded& command : kForwarded) {
    CLI::App* added = app.add_subcommand(std::string(command.name), std::string(command.summary));
    added->allow_extras();
    added->callback([command] {
      ThrowInput(
          "{}: this heddle was built without libtorch (no heddle-torch beside it); build with "
          "-DHEDDLE_TORCH=ON",
          command.name);
    });
  }
}

void ForwardToTorch(int argc, char** argv) {
  arguments = argv;
  bool wanted = false;
  for (const Forwarded& command : kForwarded) wanted |= argc > 1 && argv[1] == command.name;
  if (wanted)
    BecomeTorch();  // comes back only where there is no such program; the command then says so
}

void BecomeTorch() {
  if (arguments == nullptr) return;
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = (self.parent_path() / "heddle-torch").string();
  // Threads of OpenMP that spin while they wait take the core from those of BLAS; read when the program starts.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  execv(program.c_str(), arguments);
}

}  // namespace heddle
