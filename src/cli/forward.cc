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
    {"prune", "choose the weights of a model to keep, as a mask"},
    {"learn", "train the network that guides the search on clusters of unlike devices or links"},
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
    BecomeTorch();  // returns only if there is no such program; the command then fails with a message
}

void BecomeTorch() {
  if (arguments == nullptr) return;
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = (self.parent_path() / "heddle-torch").string();
  // OpenMP threads that spin while waiting would take the cores of BLAS threads. The variable is read at program start.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  execv(program.c_str(), arguments);
}

}  // namespace heddle
