// Runs the built program and collects its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace heddle {

struct RunOutput {
  int status = -1;  // exit code; 128 + signal if it was killed
  std::string out, err;
};

// A folder for one test, which is deleted at its end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  bool IsEmpty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline std::string Slurp(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The shell parses `arguments`. Standard output goes to the file `out` if it is not empty.
inline RunOutput RunHeddle(const std::string& arguments, const std::string& out = "") {
  TempFolder folder;
  std::string command = std::string(HEDDLE_BINARY) + " " + arguments + " >'" +
                        (out.empty() ? folder / "out" : out) + "' 2>'" + folder / "err" +
                        "' </dev/null";
  int status = std::system(command.c_str());
  RunOutput output;
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  output.out = Slurp(folder / "out");
  output.err = Slurp(folder / "err");
  return output;
}

// Expects exit code 2 for bad usage or input: one line with all of `parts` on standard error, nothing on standard
// output.
inline void ExpectRefused(const std::string& arguments, const std::vector<std::string>& parts) {
  RunOutput run = RunHeddle(arguments);
  EXPECT_EQ(run.status, 2) << arguments << "\n" << run.err;
  EXPECT_EQ(run.out, "") << arguments;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  for (const std::string& part : parts) {
    EXPECT_NE(run.err.find(part), std::string::npos) << "no '" << part << "' in: " << run.err;
  }
}

}  // namespace heddle
