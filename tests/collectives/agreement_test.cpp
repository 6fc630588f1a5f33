#include "collectives/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using Check = std::function<void(Collectives&, const Topology&)>;

void on_ranks(int ranks, const Check& check) {
  contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int) {
    const auto peers = transport.make_point_to_point();
    RingCollectives collectives(*peers, 64 * 1024);
    check(collectives, transport.topology());
  });
}

/// The text of the exception of exactly this type; empty if none is thrown.
template <typename Exception>
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return typeid(error) == typeid(Exception) ? error.what() : "another exception";
  }
  return {};
}

TEST(Agreement, AllEqualFindsOneDifferentRank) {
  for (const int ranks : {1, 2, 5})
    on_ranks(ranks, [&](Collectives& collectives, const Topology& topology) {
      EXPECT_TRUE(all_equal(~std::uint64_t{0} / 3, collectives));
      const bool differs = topology.rank == ranks - 1 && ranks > 1;
      EXPECT_EQ(all_equal(differs ? 1 : 0, collectives), ranks == 1);
    });
}

TEST(Agreement, GathersBytesOfDifferentLengths) {
  on_ranks(3, [](Collectives& collectives, const Topology& topology) {
    const std::vector<std::byte> own(static_cast<std::size_t>(topology.rank) * 5,
                                     std::byte(topology.rank));
    const auto all = gather_all(own, collectives, topology);
    ASSERT_EQ(all.size(), 3u);
    for (std::size_t rank = 0; rank < 3; ++rank)
      EXPECT_EQ(all[rank], std::vector<std::byte>(rank * 5, std::byte(rank)));
  });
}

TEST(Agreement, ProblemOfFirstRankIsThrownOnEveryRank) {
  on_ranks(3, [](Collectives& collectives, const Topology& topology) {
    require_no_problem("", collectives, topology);
    const std::string problem = topology.rank == 0 ? "" : "bad " + std::to_string(topology.rank);
    EXPECT_EQ(text_of<InvalidArgument>([&] { require_no_problem(problem, collectives, topology); }),
              topology.describe(1) + ": bad 1");
  });
}

TEST(Agreement, ResultOrAnyErrorOfRank0ReachesEveryRank) {
  on_ranks(3, [](Collectives& collectives, const Topology& topology) {
    const auto run = [&](const std::function<std::string()>& work) {
      return from_rank_0(work, collectives, topology);
    };
    EXPECT_EQ(run([&] { return "from " + std::to_string(topology.rank); }), "from 0");
    EXPECT_EQ(run([] { return std::string(); }), "");
    EXPECT_EQ(text_of<InvalidArgument>(
                  [&] { run([]() -> std::string { throw InvalidArgument("bad line 3"); }); }),
              "bad line 3");
    EXPECT_EQ(text_of<Error>(
                  [&] { run([]() -> std::string { throw std::runtime_error("disk full"); }); }),
              "disk full");
    EXPECT_EQ(run([] { return std::string("later"); }), "later");
  });
}

}  // namespace
}  // namespace horo::collectives
