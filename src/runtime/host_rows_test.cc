// Tensors in mapped files, used when the budget of host memory is spent.
#include "runtime/host_rows.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"

namespace heddle {
namespace {

class SpilledTensorTest : public testing::Test {
 protected:
  SpilledTensorTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    budget_.folder = pattern;
    host_.budget = &budget_;
  }
  ~SpilledTensorTest() override { std::filesystem::remove_all(budget_.folder); }

  std::string ErrorOf(int64_t rows) {
    try {
      NewOnHost({rows, 1 << 18}, at::kFloat, at::kCPU, host_, share_);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }

  HostBudget budget_;
  HostSide host_;
  HostShare share_;
};

TEST_F(SpilledTensorTest, HasNoNameAndItsRoomOnTheDisk) {
  at::Tensor spilled = NewOnHost({3, 1 << 18}, at::kFloat, at::kCPU, host_, share_);
  EXPECT_TRUE(std::filesystem::is_empty(budget_.folder));
  EXPECT_EQ(spilled.sum().item<float>(), 0);
  spilled[2].fill_(1);
  EXPECT_EQ(spilled.sum().item<float>(), 1 << 18);
  EXPECT_EQ(NewOnHost({0, 4}, at::kFloat, at::kCPU, host_, share_).numel(), 0);
}

// A job of a fleet that ends returns its part of the budget to later jobs.
TEST_F(SpilledTensorTest, WhatTheBudgetGaveComesBack) {
  budget_.left = 100;
  for (int job = 0; job < 3; ++job) {
    HostRows rows(2, 10, at::kCPU, host_);
    EXPECT_EQ(budget_.left, 20);
    HostRows mapped(2, 10, at::kCPU, host_);
    EXPECT_EQ(budget_.left, 20);
  }
  EXPECT_EQ(budget_.left, 100);
}

TEST_F(SpilledTensorTest, SaysWhereThereIsNoRoom) {
  struct statvfs disk {};
  ASSERT_EQ(statvfs(budget_.folder.c_str(), &disk), 0);
  // More than the disk has room for. A sparse file of that size could be made.
  auto rows =
      static_cast<int64_t>(disk.f_blocks) * static_cast<int64_t>(disk.f_frsize) / (1 << 20) * 2;
  std::string error = ErrorOf(rows);
  EXPECT_NE(error.find(budget_.folder + ": no file of "), std::string::npos) << error;
  EXPECT_NE(error.find("No space left on device"), std::string::npos) << error;
  budget_.folder += "/none";
  EXPECT_NE(ErrorOf(1).find("No such file or directory"), std::string::npos) << ErrorOf(1);
}

TEST_F(SpilledTensorTest, ALimitOnFileSizesIsAnError) {
  rlimit before{}, limit{};
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 1 << 20;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  setrlimit(RLIMIT_FSIZE, &limit);
  std::string error = ErrorOf(2);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(error.find("no file of 2.00 MiB for spilled tensors: File too large"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace heddle
