// Signs of life: a file in shared memory with a slot per rank, which the rank writes and its supervisor reads.
//
//   RankTable table = RankTable::Create(path, {.ranks = 4});       // the supervisor
//   RankTable mine = RankTable::Open(path);                        // a rank
//   mine.slot(rank).At(step, instruction);
//
// Only a few stores, no system calls: a slot is written at every instruction and in every turn of a loop that
// waits. One thread writes a slot. The file belongs to its user and lies in a folder nobody else can enter.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

enum class RankPhase : int32_t {
  kAbsent,    // not heard of yet
  kStarting,  // until its first instruction
  kWorking,   // on something that has no steps
  kTraining,
  kSaving,  // a checkpoint
  kEnding,  // after the last step
  kDone,    // what it had to do is done
};

// Whose fault an error is that a rank reports.
enum class RankError : int32_t {
  kRun,     // something failed: another attempt may succeed
  kCommon,  // as kRun, but on all ranks alike and every time (the loss is not finite)
  kInput,   // the user's
};

struct alignas(64) RankSlot {
  std::atomic<int64_t> pid;
  std::atomic<int64_t> beats;  // grows while the rank lives
  std::atomic<int64_t>
      first_step;  // that it runs: those before are in the checkpoint it goes on from
  std::atomic<int64_t> step;
  std::atomic<int64_t> instruction;  // of the device's list
  std::atomic<RankPhase> phase;
  std::atomic<int64_t> saving_nanoseconds;  // spent on checkpoints so far
  std::atomic<int64_t> failed_at;           // nanoseconds of the steady clock; 0: it has not
  std::atomic<RankError> error;             // these two are complete once it has
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
  // Cut where it is too long.
  void Fail(RankError kind, std::string_view why);
  std::string ErrorText() const;
};

// In `slot`, if there is one, what is done in this scope is a checkpoint.
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
    int64_t supervisor = 0;  // its process
    int64_t attempt = 0;     // 0: the first; later ones go on from the last checkpoint
  };

  // The file must not be there. Throws RunError where it cannot be made.
  static RankTable Create(const std::string& path, Header header);
  // Throws InputError for what is not a table.
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
