// The hostile table: inputs, options, environments, descriptors and signals for which heddle must print one line on
// standard error and return the right exit code, without leaving anything behind. The rows are in hostile/*.txt
// (hostile/torch/*.txt for commands that need libtorch); a row is one line:
//
//   CODE MARKS | PART ... PART | PREPARATION ;; COMMAND
//   2          | no such preset ... dgx-h100 | heddle cluster dgx-h10
//   2          | c.yaml:1: ... name          | echo 'name: []' > c.yaml ;; heddle cluster c.yaml
//
// COMMAND runs in bash, in a folder that holds only what PREPARATION made. Standard error must be exactly one line that
// begins with "heddle: " and has the parts in this order; "-" means that standard error is empty. Standard output must
// be empty if CODE is not 0. No file, temporary file, shared memory or process may be left. Variables: $DATA is
// tests/data, $FIXTURES a folder with the files of hostile/fixtures.txt that the table mentions, $SMALL a file system
// of 256 KiB (these rows are skipped if the test may not mount one), $GPT a small model. Marks:
//
//   long     the message repeats a long argument
//   nosan    not under sanitizers, which need more memory, address space or descriptors
//   output   standard output need not be empty
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/testing.h"
#include "sandbox.h"

namespace heddle {
namespace {

constexpr double kRowSeconds = 60 * kSlowdown;  // long, because other tests run at the same time
constexpr size_t kLongestMessage = 600;         // bytes
constexpr size_t kLeastRows = 300;              // of all tables

const std::string kHostileData = HEDDLE_TEST_DATA;
const std::string kTables = std::filesystem::path(kHostileData).parent_path() / "hostile";

struct HostileRow {
  int line = 0;
  int code = 0;
  std::set<std::string> marks;
  std::vector<std::string> parts;  // of the message; empty: standard error must be empty
  std::string preparation, command;
};

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at; (at = text.find(separator, begin)) != std::string::npos;
       begin = at + separator.size()) {
    parts.push_back(text.substr(begin, at - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string Trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// nullopt if the line is not a row.
std::optional<HostileRow> ParseRow(const std::string& text) {
  size_t first = text.find('|');
  size_t second = first == std::string::npos ? first : text.find(" | ", first + 1);
  if (second == std::string::npos) return std::nullopt;
  HostileRow row;
  std::istringstream head(text.substr(0, first));
  if (!(head >> row.code)) return std::nullopt;
  for (std::string mark; head >> mark;) {
    if (mark != "long" && mark != "nosan" && mark != "output") return std::nullopt;
    row.marks.insert(mark);
  }
  std::string parts = Trimmed(text.substr(first + 1, second - first - 1));
  if (parts.empty()) return std::nullopt;
  if (parts != "-") row.parts = SplitAt(parts, " ... ");
  std::string shell = text.substr(second + 3);
  if (size_t middle = shell.find(" ;; "); middle != std::string::npos) {
    row.preparation = Trimmed(shell.substr(0, middle));
    shell = shell.substr(middle + 4);
  }
  row.command = Trimmed(shell);
  return row;
}

std::vector<std::string> TablePaths() {
  std::vector<std::string> paths;
  for (const char* folder : {"", "torch"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kTables + "/" + folder)) {
      if (entry.path().extension() == ".txt" && entry.path().stem() != "fixtures")
        paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<HostileRow> ReadTable(const std::string& path) {
  std::vector<HostileRow> rows;
  std::ifstream file(path);
  int line = 0;
  for (std::string text; std::getline(file, text);) {
    ++line;
    if (text.empty() || text[0] == '#') continue;
    std::optional<HostileRow> row = ParseRow(text);
    if (!row) {
      ADD_FAILURE_AT(path.c_str(), line) << "not a row: CODE MARKS | PARTS | COMMAND\n" << text;
      continue;
    }
    row->line = line;
    rows.push_back(std::move(*row));
  }
  return rows;
}

bool IsPlainText(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// The mistake in standard error, or "".
std::string WrongMessage(const std::vector<std::string>& parts, const std::string& err) {
  if (parts.empty()) return err.empty() ? "" : "standard error should be empty";
  if (err.empty() || err.back() != '\n' || std::count(err.begin(), err.end(), '\n') != 1)
    return "standard error should be one line";
  std::string message = err.substr(0, err.size() - 1);
  if (!message.starts_with("heddle: ")) return "the message should begin with 'heddle: '";
  if (!IsPlainText(message)) return "the message has control characters";
  if (message.find("bug in heddle") != std::string::npos) return "a mistake of ours";
  size_t at = 0;
  for (const std::string& part : parts) {
    at = message.find(part, at);
    if (at == std::string::npos) return "the message should say '" + part + "'";
    at += part.size();
  }
  return "";
}

std::string WrongResult(const HostileRow& row, const SandboxResult& result) {
  if (result.timed_out) return "still running after a while";
  if (result.status != row.code) {
    return "exit code " + std::to_string(result.status) + ", expected " + std::to_string(row.code);
  }
  if (std::string wrong = WrongMessage(row.parts, result.err); !wrong.empty()) return wrong;
  if (!row.marks.contains("long") && result.err.size() > kLongestMessage)
    return "the message is too long";
  if (row.code != 0 && !row.marks.contains("output") && !result.out.empty())
    return "standard output should be empty";
  return result.left.empty() ? "" : "left behind: " + testing::PrintToString(result.left);
}

// The environment without variables that heddle reads, so that the caller cannot change the result of a row.
Sandbox::Environment PlainEnvironment() {
  std::string programs = std::filesystem::path(HEDDLE_BINARY).parent_path();
  Sandbox::Environment environment = {
      "PATH=" + programs + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "LC_ALL=C",
      "DATA=" + kHostileData, "GPT=gpt:layers=2,hidden=32,heads=2,seq=16,vocab=64,batch=4"};
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name))
      environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

// Makes the files of fixtures.txt that `table` or its fixtures mention, in $FIXTURES. A line is "NAME | COMMAND"; lines
// run in order.
void MakeFixtures(Sandbox& sandbox, const std::string& folder, std::string table,
                  const Sandbox::Environment& environment) {
  std::vector<std::string> commands;
  std::vector<std::string> lines = SplitAt(Slurp(kTables + "/fixtures.txt"), "\n");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->empty() || line->front() == '#') continue;
    size_t bar = line->find(" | ");
    ASSERT_NE(bar, std::string::npos) << "not a fixture: NAME | COMMAND: " << *line;
    if (table.find("$FIXTURES/" + Trimmed(line->substr(0, bar))) == std::string::npos) continue;
    commands.push_back(line->substr(bar + 3));
    table += *line;
  }
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    SandboxResult made =
        sandbox.Run("", "cd '" + folder + "' && " + *command, environment, 4 * kRowSeconds);
    ASSERT_EQ(made.status, 0) << *command << "\n" << made.err;
  }
}

class Hostile : public testing::TestWithParam<std::string> {};

TEST_P(Hostile, RowsEndInOneLineAndLeaveNothing) {
  const std::string& path = GetParam();
  bool needs_torch = std::filesystem::path(path).parent_path().filename() == "torch";
  if (needs_torch && !std::filesystem::exists(std::string(HEDDLE_BINARY) + "-torch"))
    GTEST_SKIP() << "built without libtorch";
  Sandbox sandbox;
  std::string fixtures = sandbox / "fixtures";
  std::filesystem::create_directory(fixtures);
  Sandbox::Environment environment = PlainEnvironment();
  environment.push_back("FIXTURES=" + fixtures);
  ASSERT_NO_FATAL_FAILURE(MakeFixtures(sandbox, fixtures, Slurp(path), environment));
  int mount_rows = 0;
  for (const HostileRow& row : ReadTable(path)) {
    if (row.marks.contains("nosan") && kInstrumented) continue;
    bool mounts = (row.preparation + row.command).find("$SMALL") != std::string::npos;
    if (mounts && !sandbox.has_private_mounts()) {
      ++mount_rows;
      continue;
    }
    SandboxResult result = sandbox.Run(row.preparation, row.command, environment, kRowSeconds);
    if (std::string wrong = WrongResult(row, result); !wrong.empty()) {
      ADD_FAILURE_AT(path.c_str(), row.line)
          << wrong << "\n  " << row.command << "\n  exit code " << result.status
          << "\n  standard error: " << result.err.substr(0, 1000)
          << "\n  standard output: " << result.out.substr(0, 200);
    }
  }
  if (mount_rows > 0)
    std::printf("%d rows skipped: no file system may be mounted here\n", mount_rows);
}

INSTANTIATE_TEST_SUITE_P(Tables, Hostile, testing::ValuesIn(TablePaths()), [](const auto& info) {
  std::filesystem::path path(info.param);
  bool torch = path.parent_path().filename() == "torch";
  return (torch ? "torch_" : "") + path.stem().string();
});

TEST(HostileTables, HaveManyRows) {
  size_t rows = 0;
  for (const std::string& path : TablePaths()) rows += ReadTable(path).size();
  EXPECT_GE(rows, kLeastRows);
  RecordProperty("rows", std::to_string(rows));
}

// Tests the checks: they detect every kind of misbehaviour.
TEST(HostileTables, ChecksSeeMisbehaviour) {
  Sandbox sandbox;
  struct Case {
    std::string row, wrong;  // expected mistake; "": none
  };
  const std::string good = "2 | a: ... b | ";
  for (const auto& [row, wrong] : std::vector<Case>{
           {good + "echo 'heddle: a: no b' >&2; exit 2", ""},
           {good + "echo 'heddle: a: no b' >&2; exit 1", "exit code 1"},
           {good + "echo 'heddle: a: no b' >&2; kill -SEGV $$", "exit code 139"},
           {good + "echo 'heddle: no b in a: ' >&2; exit 2", "should say 'b'"},
           {good + "echo 'a: b' >&2; exit 2", "should begin"},
           {good + "printf 'heddle: a:\\nb\\n' >&2; exit 2", "one line"},
           {good + "printf 'heddle: a: \\033[1mb\\n' >&2; exit 2", "control characters"},
           {good + "printf 'heddle: a: b%01000d\\n' 0 >&2; exit 2", "too long"},
           {good + "echo 'heddle: a: b' >&2; echo x; exit 2", "standard output"},
           {good + "echo 'heddle: a: b' >&2; touch new; exit 2", "left behind"},
           {good + "touch old ;; echo 'heddle: a: b' >&2; exit 2", ""},
           {good + "touch old ;; echo 'heddle: a: b' >&2; echo more > old; exit 2", "left behind"},
           {good + "echo 'heddle: a: b' >&2; mkdir $TMPDIR/new; exit 2", "left behind"},
           {good + "echo 'heddle: a: b' >&2; setsid sleep 100 & exit 2", "process"},
           {"0 | - | echo x", ""},
           {"0 | - | echo x >&2", "should be empty"},
       }) {
    std::optional<HostileRow> parsed = ParseRow(row);
    ASSERT_TRUE(parsed) << row;
    std::string found = WrongResult(*parsed, sandbox.Run(parsed->preparation, parsed->command,
                                                         PlainEnvironment(), kRowSeconds));
    if (wrong.empty()) {
      EXPECT_EQ(found, "") << row;
    } else {
      EXPECT_THAT(found, testing::HasSubstr(wrong)) << row;
    }
  }
  EXPECT_FALSE(ParseRow("heddle cluster dgx-h10"));
  EXPECT_FALSE(ParseRow("2 tood | no such preset | heddle cluster dgx-h10"));
}

}  // namespace
}  // namespace heddle
