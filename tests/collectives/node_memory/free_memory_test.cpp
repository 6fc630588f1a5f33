#include "collectives/node_memory/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/flight_recorder/temporary_directory.h"

namespace horo::collectives {
namespace {

/// A folder with files in the format of /proc and /sys.
class Root {
 public:
  Root& write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((path() / file).parent_path());
    std::ofstream(path() / file) << text;
    return *this;
  }
  void link(const std::string& file, const std::string& target) {
    std::filesystem::create_directories((path() / file).parent_path());
    std::filesystem::create_symlink(target, path() / file);
  }
  FreeMemory find() const { return find_free_memory(path()); }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  observe::TemporaryDirectory directory_;
};

constexpr const char* kMemInfo = "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree: 7 kB\n";

TEST(FreeMemory, MatchesMemAvailable) {
  Root root;
  EXPECT_EQ(root.find().bytes, std::numeric_limits<std::size_t>::max());
  root.write("proc/meminfo", kMemInfo).write("proc/self/cgroup", "0::/job\nnonsense\n");
  EXPECT_EQ(root.find().bytes, 4000u * 1024);
  EXPECT_EQ(root.find().limit, "this host");
}

TEST(FreeMemory, IsLimitedByEveryAncestorGroup) {
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

TEST(FreeMemory, ReadsCgroupVersion1) {
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

TEST(FreeMemory, SumsDemandPerLimit) {
  Root first, second;
  for (Root* root : {&first, &second})
    root->write("proc/meminfo", kMemInfo)
        .write("sys/fs/cgroup/job/memory.max", "9000")
        .write("sys/fs/cgroup/job/memory.current", "1000");
  first.write("proc/self/cgroup", "0::/job/a\n")
      .write("sys/fs/cgroup/job/a/memory.max", "700")
      .write("sys/fs/cgroup/job/a/memory.current", "100");
  second.write("proc/self/cgroup", "0::/job/b\n");
  const auto limits = find_memory_limits(first.path()), others = find_memory_limits(second.path());
  ASSERT_EQ(limits.size(), 3u);
  ASSERT_EQ(others.size(), 2u);
  const auto demand_on = [](const std::vector<FreeMemory>& all, std::size_t bytes) {
    MemoryDemand demand{bytes, {}};
    for (const FreeMemory& limit : all) demand.limits.push_back(limit.id);
    return demand;
  };
  const std::vector<MemoryDemand> demands = {demand_on(limits, 10), demand_on(others, 300)};
  EXPECT_EQ(limits[0].limit, "this host");
  EXPECT_EQ(bytes_demanded_of(limits[0].id, demands), 310u);
  EXPECT_EQ(limits[1].limit, "the memory limit of cgroup /job/a");
  EXPECT_EQ(limits[1].bytes, 600u);
  EXPECT_EQ(bytes_demanded_of(limits[1].id, demands), 10u);
  EXPECT_EQ(limits[2].limit, "the memory limit of cgroup /job");
  EXPECT_EQ(bytes_demanded_of(limits[2].id, demands), 310u);
}

TEST(FreeMemory, SeparatesGroupsOfContainers) {
  Root first, second;
  for (Root* root : {&first, &second})
    root->write("proc/self/cgroup", "0::/\n")
        .write("sys/fs/cgroup/memory.max", "9000")
        .write("sys/fs/cgroup/memory.current", "1000");
  EXPECT_EQ(find_memory_limits(first.path())[0].id, find_memory_limits(second.path())[0].id);
  second.link("proc/self/ns/cgroup", "cgroup:[4026532999]");
  EXPECT_NE(find_memory_limits(first.path())[0].id, find_memory_limits(second.path())[0].id);
}

TEST(FreeMemory, ReadsThisMachine) {
  EXPECT_GT(find_free_memory().bytes, 0u);
  EXPECT_LT(find_free_memory().bytes, std::size_t{1} << 50);
}

}  // namespace
}  // namespace horo::collectives
