// Gives invalid values to the options of all commands, so that no option can lack its checks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/option_types.h"

namespace heddle {

// The error of parsing the arguments, without running the command. Empty if they are accepted.
inline std::string MistakeIn(const std::vector<AddCommand>& commands,
                             std::vector<std::string> arguments) {
  CLI::App app{"", "heddle"};
  for (AddCommand add : commands) add(app);
  RefuseEmptyValues(app);
  struct Parsed {
  };  // ends parsing before the command runs; the command's own callback owns the variables of its options
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->parse_complete_callback([] { throw Parsed(); });
  }
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  try {
    app.parse(std::move(arguments));
    return "";
  } catch (const Parsed&) {
    return "";
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

// A command with its required arguments and one option, whose value is the last argument.
struct OptionCase {
  std::string name, type;
  std::vector<std::string> arguments;
};

inline std::vector<OptionCase> OptionCases(const std::vector<AddCommand>& commands) {
  CLI::App app{"", "heddle"};
  for (AddCommand add : commands) add(app);
  std::vector<OptionCase> cases;
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    std::vector<std::string> required = {command->get_name()};
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_required()) continue;
      if (!option->get_positional()) required.push_back(option->get_name());
      required.push_back("x");
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_expected_max() == 0 || option->get_positional() || option->get_required()) {
        continue;  // a flag, or already given
      }
      OptionCase one{command->get_name() + " " + option->get_name(), option->get_type_name(),
                     required};
      one.arguments.push_back(option->get_name());
      one.arguments.push_back("");
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

// Values that are not numbers, and numbers that no option accepts.
inline void ExpectBadNumbersRefused(const std::vector<AddCommand>& commands) {
  size_t numbers = 0;
  for (OptionCase one : OptionCases(commands)) {
    bool whole = one.type.starts_with("INT") || one.type.starts_with("UINT");
    bool number = whole || one.type.starts_with("FLOAT") || one.name == "train --betas" ||
                  one.name.ends_with("--memory-limit") || one.name.ends_with("--mtbf");
    if (!number) continue;
    ++numbers;
    std::vector<std::string> bad = {"nan", "-nan", "inf",  "-inf", "1e999", "-1e999",
                                    "0x2", "1x",   "1 2 ", " 1",   "-7",    ""};
    if (whole) {
      bad.insert(bad.end(), {"99999999999999999999999", "9223372036854775808",
                             "18446744073709551616", "1.5", "1e0", "-99999999999999999999"});
    }
    for (const std::string& value : bad) {
      one.arguments.back() = value;
      std::string mistake = MistakeIn(commands, one.arguments);
      EXPECT_NE(mistake, "") << one.name << " takes '" << value << "'";
      EXPECT_LT(mistake.size(), 200u) << one.name << " '" << value << "': " << mistake;
      EXPECT_NE(mistake.find(value), std::string::npos) << one.name << ": " << mistake;
      EXPECT_EQ(mistake.find("Could not convert"), std::string::npos)
          << one.name << " has no range: " << mistake;
    }
  }
  EXPECT_GT(numbers, 5u);
}

inline void ExpectEmptyValuesRefused(const std::vector<AddCommand>& commands) {
  for (const OptionCase& one : OptionCases(commands)) {
    EXPECT_NE(MistakeIn(commands, one.arguments), "") << one.name << " takes an empty value";
  }
}

}  // namespace heddle
