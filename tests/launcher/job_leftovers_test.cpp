#include "launcher/job/job_leftovers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/flight_recorder/temporary_directory.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

TEST(JobLeftovers, RecognizesSegmentsOfJobAndUser) {
  const MpiJob job{.id = 0x37d30001, .size = 2, .nodes = 1, .session_directories = {}};
  const auto name = [](const std::string& host, unsigned user, const std::string& rest) {
    return fmt::format("vader_segment.{}.{}.{}", host, user, rest);
  };
  const unsigned user = geteuid();
  EXPECT_TRUE(is_segment_of(job, name("vm", user, "37d30001.0")));
  EXPECT_TRUE(is_segment_of(job, name("a.example.org", user, "37d30001.12")));
  EXPECT_TRUE(is_segment_of(job, name("vm", user, "37d30002.0")));  // a spawned job
  EXPECT_FALSE(is_segment_of(job, name("vm", user, "38150001.0")));
  EXPECT_FALSE(is_segment_of(job, name("vm", user + 1, "37d30001.0")));
  EXPECT_FALSE(is_segment_of(job, name("vm", user, "37d30001.x")));
  EXPECT_FALSE(is_segment_of(job, name("vm", user, "")));
  EXPECT_FALSE(is_segment_of(job, "vader_segment"));
  EXPECT_FALSE(is_segment_of(job, fmt::format("horo.vm.{}.37d30001.0", user)));
}

TEST(JobLeftovers, RecognizesSessionDirectories) {
  const fs::path top = fmt::format("/tmp/ompi.vm.{}", geteuid());
  EXPECT_TRUE(is_session_directory(top / "pid.4711"));
  EXPECT_TRUE(is_session_directory(top / "jf.9"));
  EXPECT_FALSE(is_session_directory(top));
  EXPECT_FALSE(is_session_directory(top / "pid."));
  EXPECT_FALSE(is_session_directory("/tmp/pid.4711"));
  EXPECT_FALSE(is_session_directory("/tmp/ompi.vm.99999/pid.4711"));
  EXPECT_FALSE(is_session_directory("/"));
}

TEST(JobLeftovers, RemovesOnlyFilesOfJob) {
  const observe::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  const auto segment = [&](const char* job) {
    return directory / fmt::format("vader_segment.vm.{}.{}.0", geteuid(), job);
  };
  const fs::path top = directory / fmt::format("ompi.vm.{}", geteuid());
  for (const char* job : {"37d30001", "38150001"}) std::ofstream(segment(job)) << "x";
  fs::create_directories(top / "pid.1" / "0");
  fs::create_directories(top / "pid.2");
  MpiJob job{.id = 0x37d30001, .size = 1, .nodes = 1, .session_directories = {}};
  job.session_directories = {top / "pid.1", directory};
  remove_leftovers(job, directory);
  EXPECT_FALSE(fs::exists(segment("37d30001")));
  EXPECT_TRUE(fs::exists(segment("38150001")));
  EXPECT_FALSE(fs::exists(top / "pid.1"));
  EXPECT_TRUE(fs::exists(top / "pid.2"));
}

TEST(JobLeftovers, RemovesOnlySegmentOfOneRank) {
  const observe::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  const auto segment = [&](const char* end) {
    return directory / fmt::format("vader_segment.vm.{}.{}", geteuid(), end);
  };
  for (const char* end : {"37d30001.1", "37d30001.11", "37d30002.1", "37d30001.0"})
    std::ofstream(segment(end)) << "x";
  remove_segment_of_rank({"PMIX_NAMESPACE=x", "OMPI_COMM_WORLD_LOCAL_RANK=0"}, directory);
  remove_segment_of_rank({"PMIX_NAMESPACE=936574977"}, directory);
  EXPECT_TRUE(fs::exists(segment("37d30001.0")));
  remove_segment_of_rank(
      {fmt::format("PMIX_NAMESPACE={}", 0x37d30001), "OMPI_COMM_WORLD_LOCAL_RANK=1"}, directory);
  EXPECT_FALSE(fs::exists(segment("37d30001.1")));
  for (const char* end : {"37d30001.11", "37d30002.1", "37d30001.0"})
    EXPECT_TRUE(fs::exists(segment(end))) << end;
}

}  // namespace
}  // namespace horo
