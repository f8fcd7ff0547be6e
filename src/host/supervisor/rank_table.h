// Signs of life of ranks: a file in shared memory with a slot per rank, which the rank writes and its supervisor reads.
//
//   RankTable table = RankTable::Create(path, {.ranks = 4});       // the supervisor
//   RankTable mine = RankTable::Open(path);                        // a rank
//   mine.slot(rank).At(step, instruction);
//
// A rank writes its slot at every instruction and in every turn of a loop that waits; that takes a few stores and no
// system call. Only one thread writes a slot. The file lies in a folder that no other user can enter.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

enum class RankPhase : int32_t {
  kAbsent,    // has not opened the table yet
  kStarting,  // until its first instruction
  kWorking,   // does work that has no steps
  kTraining,
  kSaving,  // writes a checkpoint
  kEnding,  // after the last step
  kDone,    // has finished all its work
};

// The kind of an error that a rank reports.
enum class RankError : int32_t {
  kRun,     // a failure: another attempt may succeed
  kCommon,  // a failure that occurs on all ranks and in every attempt (the loss is not finite)
  kInput,   // a mistake of the user
};

struct alignas(64) RankSlot {
  std::atomic<int64_t> pid;
  std::atomic<int64_t> beats;  // grows while the rank lives
  std::atomic<int64_t>
      first_step;  // of this attempt; earlier steps are in the checkpoint it resumes from
  std::atomic<int64_t> step;
  std::atomic<int64_t> instruction;  // index in the device's list
  std::atomic<RankPhase> phase;
  std::atomic<int64_t> saving_nanoseconds;  // spent on checkpoints so far
  std::atomic<int64_t> failed_at;           // nanoseconds of the steady clock; 0: has not failed
  std::atomic<RankError> error;             // valid, as `text` is, once failed_at is set
  char text[1024];

  void Beat() { beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void At(int64_t at_step, size_t at_instruction) {
    step.store(at_step, std::memory_order_relaxed);
    instruction.store(static_cast<int64_t>(at_instruction), std::memory_order_relaxed);
    Enter(RankPhase::kTraining);
  }
  void Enter(RankPhase next) {
    Beat();
    phase.store(next, std::memory_order_release);
  }
  bool HasFailed() const { return failed_at.load(std::memory_order_acquire) != 0; }
  // Stores an error; a text that is too long is cut.
  void Fail(RankError kind, std::string_view why);
  std::string ErrorText() const;
};

// Marks the rank as saving a checkpoint for the time of a scope. Does nothing where `slot` is null.
class SavingScope {
 public:
  explicit SavingScope(RankSlot* slot);
  ~SavingScope();
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;

 private:
  RankSlot* slot_;
  RankPhase before_ = RankPhase::kTraining;
  int64_t began_ = 0;
};

class RankTable {
 public:
  struct Header {
    int64_t magic = 0;
    int64_t ranks = 1;
    int64_t supervisor = 0;  // its process id
    int64_t attempt = 0;     // 0: the first; later ones resume from the last checkpoint
  };

  // The file must not exist. Throws RunError where it cannot be made.
  static RankTable Create(const std::string& path, Header header);
  // Throws InputError where the file is not a table.
  static RankTable Open(const std::string& path);

  RankTable(RankTable&& other) noexcept;
  RankTable& operator=(RankTable&& other) noexcept;
  ~RankTable();

  const Header& header() const;
  int ranks() const { return static_cast<int>(header().ranks); }
  RankSlot& slot(int rank) const;

 private:
  RankTable(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace heddle
