#include "horo/device/gpu_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "horo/base/error.h"

namespace horo::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Gpus = std::vector<std::string>;

// Ranks of `hosts`, host by host in rank order, as `rank` sees them.
Topology on_hosts(const std::vector<std::string>& host_of_rank, int rank = 0) {
  return make_topology(rank, host_of_rank, host_of_rank);
}

std::string error_of(const Topology& topology, const std::vector<Gpus>& gpus_of, bool may_share) {
  try {
    assign_gpus(topology, gpus_of, may_share);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(GpuAssignment, GivesNextGpuToEachRankOfNode) {
  const Topology topology = on_hosts({"a", "a", "a", "b", "b"});
  const Gpus four = {"01", "02", "03", "04"};
  const GpuAssignment assignment = assign_gpus(topology, std::vector<Gpus>(5, four), false);
  EXPECT_THAT(assignment.gpu_of, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(assignment.lap_of, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_FALSE(assignment.is_shared());
  EXPECT_TRUE(sharing_variables(topology, assignment).empty());
}

TEST(GpuAssignment, CountsInterleavedRanksByNode) {
  const Topology topology = on_hosts({"a", "b", "a", "b"});
  const GpuAssignment assignment = assign_gpus(topology, std::vector<Gpus>(4, {"01", "02"}), false);
  EXPECT_THAT(assignment.gpu_of, ElementsAre(0, 0, 1, 1));
}

TEST(GpuAssignment, UsesOnlyVisibleGpuOfRank) {
  const Topology topology = on_hosts({"a", "a", "a"});
  const GpuAssignment assignment = assign_gpus(topology, {{"01"}, {"02"}, {"03"}}, false);
  EXPECT_THAT(assignment.gpu_of, ElementsAre(0, 0, 0));
  EXPECT_FALSE(assignment.is_shared());
}

TEST(GpuAssignment, SharesGpusInLapsIfAllowed) {
  const Topology topology = on_hosts({"a", "a", "a", "a", "a", "b"});
  const GpuAssignment assignment = assign_gpus(topology, std::vector<Gpus>(6, {"01", "02"}), true);
  EXPECT_THAT(assignment.gpu_of, ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_THAT(assignment.lap_of, ElementsAre(0, 0, 1, 1, 2, 0));
  EXPECT_TRUE(assignment.is_shared());
}

TEST(GpuAssignment, RejectsSharingWithRanksAndRemedy) {
  const Topology topology = on_hosts({"a", "b", "b", "b"});
  const std::string text =
      error_of(topology, {{"01"}, {"01", "02"}, {"01", "02"}, {"01", "02"}}, false);
  EXPECT_THAT(text, HasSubstr("3 ranks on host b would share 2 GPU(s)"));
  EXPECT_THAT(text, HasSubstr("HORO_GPU_OVERSUBSCRIBE=on"));
  EXPECT_THAT(text, HasSubstr("on that host: rank 1 GPU 0 (01), rank 3 GPU 0 (01)"));
  EXPECT_THAT(text, Not(HasSubstr("(02)")));  // only rank 2 uses that GPU
  EXPECT_EQ(error_of(on_hosts({"a", "a"}), {{"01", "02"}, {"02", "01"}}, true), "not refused");
}

TEST(GpuAssignment, GpusOfEqualAddressAreShared) {
  // The second GPU of rank 1 is the first GPU of rank 0.
  EXPECT_THAT(error_of(on_hosts({"a", "a"}), {{"01", "02"}, {"02", "01"}}, false),
              HasSubstr("(01)"));
}

TEST(GpuAssignment, TruncatesLongTable) {
  const std::vector<std::string> hosts(40, "a");
  EXPECT_THAT(error_of(on_hosts(hosts), std::vector<Gpus>(40, {"01"}), false),
              testing::EndsWith("rank 15 GPU 0 (01) and 24 more"));
}

TEST(GpuAssignment, NamesRankWithoutGpu) {
  for (const bool may_share : {false, true})
    EXPECT_THAT(error_of(on_hosts({"a", "b"}), {{"01"}, {}}, may_share),
                HasSubstr("rank 1 (host b) sees no GPU"));
}

std::map<std::string, std::string> variables_of(const std::vector<std::string>& hosts, int rank) {
  const Topology topology = on_hosts(hosts, rank);
  const auto list = sharing_variables(
      topology, assign_gpus(topology, std::vector<Gpus>(hosts.size(), {"01", "02"}), true));
  return {list.begin(), list.end()};
}

TEST(SharingVariables, EveryLapIsOneHost) {
  const std::vector<std::string> hosts = {"a", "a", "a", "b"};
  const std::string first = variables_of(hosts, 0)["NCCL_HOSTID"];
  EXPECT_EQ(variables_of(hosts, 1)["NCCL_HOSTID"], first);
  EXPECT_NE(variables_of(hosts, 2)["NCCL_HOSTID"], first);
  EXPECT_NE(variables_of(hosts, 3)["NCCL_HOSTID"], first);
  EXPECT_NE(variables_of(hosts, 3)["NCCL_HOSTID"], variables_of(hosts, 2)["NCCL_HOSTID"]);
}

TEST(SharingVariables, UseLoopbackWithinOneHostOnly) {
  EXPECT_EQ(variables_of({"a", "a", "a"}, 2)["NCCL_SOCKET_IFNAME"], "lo");
  EXPECT_FALSE(variables_of({"a", "a", "a", "b"}, 2).contains("NCCL_SOCKET_IFNAME"));
}

TEST(SharingVariables, CommonValuesAreEqualOnAllRanks) {
  auto a = variables_of({"a", "a", "a", "b"}, 0), b = variables_of({"a", "a", "a", "b"}, 3);
  a.erase("NCCL_HOSTID");
  b.erase("NCCL_HOSTID");
  EXPECT_EQ(a, b);
  EXPECT_EQ(a["NCCL_PROTO"], "Simple");
}

TEST(SharingVariables, KeepValuesOfUser) {
  setenv("HORO_TEST_SHARING_SET", "users", 1);
  unsetenv("HORO_TEST_SHARING_UNSET");
  set_missing({{"HORO_TEST_SHARING_SET", "own"}, {"HORO_TEST_SHARING_UNSET", "own"}});
  EXPECT_STREQ(getenv("HORO_TEST_SHARING_SET"), "users");
  EXPECT_STREQ(getenv("HORO_TEST_SHARING_UNSET"), "own");
}

}  // namespace
}  // namespace horo::device
