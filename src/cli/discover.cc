#include "cluster/discover.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/shared_options.h"
#include "cluster/picture.h"
#include "cluster/yaml.h"

namespace heddle {
namespace {

struct DiscoverArgs {
  std::string out;
  int64_t ranks = 0;
  bool json = false;
};

void RunDiscover(const DiscoverArgs& args) {
  Discovery found = Discover(args.ranks);
  std::string text;
  for (const std::string& remark : found.remarks) text += fmt::format("# {}\n", remark);
  text += ToYaml(found.cluster);
  if (!args.out.empty()) WriteFileAtomically(args.out, text);
  if (args.json) {
    PrintJson({{"cluster", ToJson(found.cluster)},
               {"remarks", found.remarks},
               {"file", args.out.empty() ? Json(nullptr) : Json(args.out)}});
  } else if (args.out.empty()) {
    fmt::print("{}", text);
  } else {
    fmt::print("{}", DrawCluster(found.cluster));
    for (const std::string& remark : found.remarks) fmt::print("{}\n", remark);
    fmt::print("written to {}: give it to plan and train as --cluster {}\n", args.out, args.out);
  }
}

}  // namespace

void AddDiscover(CLI::App& app) {
  CLI::App* command = app.add_subcommand("discover", "describe this machine as a cluster file");
  auto args = std::make_shared<DiscoverArgs>();
  command->add_option("-o,--output", args->out, "the file to write (default: standard output)");
  AddRanksOption(*command, args->ranks,
                 "ranks that share the machine (default: one per core, or one per GPU)");
  AddJsonFlag(*command, args->json);
  command->footer(
      "Example:\n"
      "  heddle discover --ranks 2 -o here.yaml\n"
      "  heddle calibrate --ranks 2 --cluster here.yaml -o here.json\n"
      "  heddle plan gpt2 --cluster here.yaml --profile here.json");
  command->callback([args] { RunDiscover(*args); });
}

}  // namespace heddle
