#include "collectives/mpi/free_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace horo::collectives {
namespace {

/// A folder with files that say what those of /proc and /sys would.
class Root {
 public:
  Root() {
    std::string name = (std::filesystem::temp_directory_path() / "free_memory.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Root() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  Root& write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
    return *this;
  }
  FreeMemory find() const { return find_free_memory(path_); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kMemInfo = "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 7 kB\n";

TEST(FreeMemory, IsWhatTheHostHasAvailable) {
  Root root;
  EXPECT_EQ(root.find().bytes, std::numeric_limits<std::size_t>::max());
  root.write("proc/meminfo", kMemInfo).write("proc/self/cgroup", "0::/job\nnonsense\n");
  EXPECT_EQ(root.find().bytes, 4000u * 1024);
  EXPECT_EQ(root.find().limit, "this host");
}

TEST(FreeMemory, IsLimitedByEveryGroupAboveTheProcess) {
  Root root;
  root.write("proc/meminfo", kMemInfo).write("proc/self/cgroup", "1:cpu:/\n0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n")
      .write("sys/fs/cgroup/a/b/memory.current", "5");
  EXPECT_EQ(root.find().limit, "this host");
  root.write("sys/fs/cgroup/a/memory.max", "1000000")
      .write("sys/fs/cgroup/a/memory.current", "700000");
  EXPECT_EQ(root.find().bytes, 300000u);
  EXPECT_EQ(root.find().limit, "the memory limit of cgroup /a");
  root.write("sys/fs/cgroup/a/memory.stat",
             "anon 1\nactive_file 50000\ninactive_file 150000\nfile 600000\n");
  EXPECT_EQ(root.find().bytes, 500000u) << "the kernel drops the page cache first";
  root.write("sys/fs/cgroup/a/memory.current", "1300000");
  EXPECT_EQ(root.find().bytes, 0u);
}

TEST(FreeMemory, ReadsGroupsOfVersion1) {
  Root root;
  root.write("proc/meminfo", kMemInfo).write("proc/self/cgroup", "5:hugetlb,memory:/job\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000")
      .write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000");
  EXPECT_EQ(root.find().bytes, 2000000u) << "in a container, whose path the kernel names /job";
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "900000")
      .write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800000")
      .write("sys/fs/cgroup/memory/job/memory.stat", "active_file 9\ntotal_active_file 100000\n");
  EXPECT_EQ(root.find().bytes, 200000u);
  EXPECT_EQ(root.find().limit, "the memory limit of cgroup /job");
}

TEST(FreeMemory, IsKnownOnThisMachine) {
  EXPECT_GT(find_free_memory().bytes, 0u);
  EXPECT_LT(find_free_memory().bytes, std::size_t{1} << 50);
}

}  // namespace
}  // namespace horo::collectives
