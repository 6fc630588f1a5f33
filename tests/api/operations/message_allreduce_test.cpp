// HORO_ALLREDUCE and HORO_LINK_FILE, over nodes of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "horo/context.h"
#include "horo/runtime/job_agreement.h"
#include "horo/testing.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The averages of `count` elements over `ranks` on rank 0.
std::vector<float> averages(int ranks, std::size_t count, std::vector<std::string> environment) {
  std::vector<float> result;
  testing::RunOptions options;
  options.environment = std::move(environment);
  testing::run_ranks(
      ranks,
      [&](Context& ctx) {
        std::vector<float> x(count);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = std::sin(static_cast<float>(i * 13 + static_cast<std::size_t>(ctx.rank()) * 5));
        ctx.allreduce(TensorView(x), {.name = "x"});
        if (ctx.rank() == 0) result = x;
      },
      options);
  return result;
}

TEST(MessageAllreduce, TreesAgreeAndRingDiffers) {
  for (const char* per_node : {"HORO_RANKS_PER_NODE=1", "HORO_RANKS_PER_NODE=2"}) {
    const auto of = [&](const std::string& allreduce) {
      return averages(5, 3001, {per_node, "HORO_ALLREDUCE=" + allreduce});
    };
    const std::vector<float> expected = of("exchange");
    for (const char* allreduce : {"doubling", "halving", "auto"})
      EXPECT_EQ(of(allreduce), expected) << allreduce << " " << per_node;
    EXPECT_NE(of("ring"), expected) << per_node;
  }
}

class LinkFile : public ::testing::Test {
 protected:
  ~LinkFile() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> environment() const {
    return {"HORO_RANKS_PER_NODE=1", "HORO_LINK_FILE=" + path_};
  }

  const std::string path_ = ::testing::TempDir() + "horo_link_file_" + std::to_string(getpid());
};

TEST_F(LinkFile, IsWrittenOncePerShape) {
  const std::vector<float> first = averages(3, 100, environment());
  const std::string text = read();
  EXPECT_THAT(text, HasSubstr("nodes=3 ranks=3 alpha="));
  EXPECT_EQ(averages(3, 100, environment()), first);
  EXPECT_EQ(read(), text);
  averages(4, 100, environment());
  EXPECT_THAT(read(), AllOf(StartsWith(text), HasSubstr("nodes=4 ranks=4 ")));
}

TEST_F(LinkFile, MovesBoundaryToRing) {
  const std::vector<float> tree = averages(4, 3001, {"HORO_RANKS_PER_NODE=1"});
  write("nodes=4 ranks=4 alpha=1e-15 beta=1e-6 gamma=1e-6\n");  // bytes alone cost: the ring
  const std::vector<float> ring =
      averages(4, 3001, {"HORO_RANKS_PER_NODE=1", "HORO_ALLREDUCE=ring"});
  EXPECT_NE(tree, ring);
  EXPECT_EQ(averages(4, 3001, environment()), ring);
}

TEST_F(LinkFile, MalformedFileFailsAllRanks) {
  write("nodes=3 ranks=3 alpha=fast\n");
  Settings settings;
  settings.link_file = path_;
  collectives::InProcessJob job(3, {.ranks_per_node = 1});
  std::vector<std::string> texts(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const auto transport = job.transport(rank);
      const auto peers = transport->make_point_to_point();
      collectives::RingCollectives ring(*peers, 1024);
      try {
        agree_on_allreduce(settings, *peers, ring, transport->topology());
      } catch (const InvalidArgument& error) {
        texts[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  threads.clear();
  EXPECT_THAT(
      texts, ::testing::Each(AllOf(HasSubstr("HORO_LINK_FILE: " + path_ + ":1: "),
                                   HasSubstr("alpha must be a number of at least 0, not 'fast'"))));
}

TEST_F(LinkFile, RejectsUnwritableFile) {
  try {
    averages(2, 10, {"HORO_RANKS_PER_NODE=1", "HORO_LINK_FILE=/nowhere/links"});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("HORO_LINK_FILE: /nowhere/links cannot be written"));
  }
}

}  // namespace
}  // namespace horo
