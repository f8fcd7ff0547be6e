#include "host/supervisor/rank_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace heddle {
namespace {

constexpr int64_t kMagic = 0x3130656c64646568;  // "heddle01"
constexpr int64_t kMostRanks = 1 << 20;
constexpr size_t kHeaderBytes = 64;

// Two processes map the slots, so the atomics must not use locks, which belong to one process.
static_assert(std::atomic<int64_t>::is_always_lock_free);
static_assert(std::atomic<RankPhase>::is_always_lock_free);
static_assert(sizeof(RankTable::Header) <= kHeaderBytes);

size_t BytesFor(int64_t ranks) {
  return kHeaderBytes + static_cast<size_t>(ranks) * sizeof(RankSlot);
}

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Maps the file and closes it.
void* Map(int file, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int error = errno;
  close(file);
  errno = error;
  return memory;
}

}  // namespace

void RankSlot::Fail(RankError kind, std::string_view why) {
  size_t length = std::min(why.size(), sizeof(text) - 1);
  std::memcpy(text, why.data(), length);
  text[length] = '\0';
  error.store(kind, std::memory_order_relaxed);
  failed_at.store(Nanoseconds(), std::memory_order_release);
  Beat();
}

std::string RankSlot::ErrorText() const {
  return OneLine(std::string_view(text, strnlen(text, sizeof(text))));
}

SavingScope::SavingScope(RankSlot* slot) : slot_(slot) {
  if (slot_ == nullptr) return;
  before_ = slot_->phase.load();
  began_ = Nanoseconds();
  slot_->Enter(RankPhase::kSaving);
}

SavingScope::~SavingScope() {
  if (slot_ == nullptr) return;
  slot_->saving_nanoseconds.fetch_add(Nanoseconds() - began_);
  slot_->Enter(before_);
}

RankTable RankTable::Create(const std::string& path, Header header) {
  HEDDLE_CHECK(header.ranks >= 1 && header.ranks <= kMostRanks, "{} ranks", header.ranks);
  header.magic = kMagic;
  header.supervisor = getpid();
  size_t bytes = BytesFor(header.ranks);
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) ThrowRun("{}: {}", path, std::strerror(errno));
  // Allocates the blocks now: if the disk were full later, a store would kill the process (SIGBUS).
  int full = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  if (full != 0) {
    close(file);
    ThrowRun("{}: {}", path, std::strerror(full));
  }
  void* memory = Map(file, bytes);
  if (memory == MAP_FAILED) ThrowRun("{}: {}", path, std::strerror(errno));
  std::memcpy(memory, &header, sizeof(header));
  return RankTable(memory, bytes);
}

RankTable RankTable::Open(const std::string& path) {
  auto refuse = [&](const char* why) { ThrowInput("{}: {}; unset HEDDLE_SUPERVISOR", path, why); };
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) refuse(std::strerror(errno));
  struct stat status {};
  bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  size_t bytes = regular ? static_cast<size_t>(status.st_size) : 0;
  if (bytes < BytesFor(1)) {
    close(file);
    refuse("not a table of ranks");
  }
  void* memory = Map(file, bytes);
  if (memory == MAP_FAILED) refuse(std::strerror(errno));
  RankTable table(memory, bytes);
  const Header& header = table.header();
  if (header.magic != kMagic || header.ranks < 1 || header.ranks > kMostRanks ||
      BytesFor(header.ranks) != bytes)
    refuse("not a table of ranks");
  return table;
}

RankTable::RankTable(RankTable&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

RankTable& RankTable::operator=(RankTable&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

RankTable::~RankTable() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

const RankTable::Header& RankTable::header() const { return *static_cast<const Header*>(memory_); }

RankSlot& RankTable::slot(int rank) const {
  HEDDLE_CHECK(rank >= 0 && rank < header().ranks, "rank {} of {}", rank, header().ranks);
  auto* first = static_cast<std::byte*>(memory_) + kHeaderBytes;
  return reinterpret_cast<RankSlot*>(first)[rank];
}

}  // namespace heddle
