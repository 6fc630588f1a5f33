// send() and recv() between ranks that are threads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

// Values that differ by sender, receiver, message and index.
std::vector<float> message_values(int from, int to, std::size_t count, int message = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(from * 1000 + to * 100 + message) + static_cast<float>(i) / 1024;
  return values;
}

// Below, at and above the size that travels with the header; see Context::send().
const std::vector<std::size_t> kMessageCounts = {0, 1, 7, 511, 512, 513, 70001};

RunOptions messages_on_nodes(int per_node, std::chrono::microseconds delay = 0us) {
  RunOptions options;
  options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(per_node)};
  options.max_delay = delay;
  return options;
}

TEST(Messages, ArriveBetweenAllPairsWithEverySize) {
  for (const int ranks : tested_rank_counts({1, 2, 3, 4, 5, 6, 7, 8}))
    run_ranks(
        ranks,
        [](Context& ctx) {
          for (const std::size_t count : kMessageCounts) {
            std::vector<Handle> handles;
            std::vector<std::vector<float>> sent, received;
            for (int peer = 0; peer < ctx.size(); ++peer) {
              sent.push_back(message_values(ctx.rank(), peer, count));
              received.emplace_back(count, -1.0f);
            }
            for (int peer = 0; peer < ctx.size(); ++peer) {
              const auto p = static_cast<std::size_t>(peer);
              handles.push_back(ctx.send_async(TensorView(sent[p]), {.name = "x", .to = peer}));
              handles.push_back(
                  ctx.recv_async(TensorView(received[p]), {.name = "x", .from = peer}));
            }
            for (const Handle& handle : handles) handle.wait();
            for (int peer = 0; peer < ctx.size(); ++peer)
              ASSERT_EQ(received[static_cast<std::size_t>(peer)],
                        message_values(peer, ctx.rank(), count));
          }
          const std::uint64_t calls =
              kMessageCounts.size() * static_cast<std::uint64_t>(ctx.size());
          EXPECT_EQ(ctx.counters().messages_sent, calls);
          EXPECT_EQ(ctx.counters().messages_received, calls);
        },
        messages_on_nodes(ranks % 2 == 0 ? 2 : 0));
}

// The other ranks make no call at all, so they cannot have taken part.
TEST(Messages, BlockingFormsNeedOnlyTheTwoRanks) {
  run_ranks(4, [](Context& ctx) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> x = message_values(0, 1, 5000, round);
      if (ctx.rank() == 0) {
        ctx.send(TensorView(x), {.name = "ping", .to = 3});
        ctx.recv(TensorView(x), {.name = "pong", .from = 3});
        ASSERT_EQ(x, message_values(3, 0, 5000, round));
      }
      if (ctx.rank() == 3) {
        ctx.recv(TensorView(x), {.name = "ping", .from = 0});
        ASSERT_EQ(x, message_values(0, 1, 5000, round));
        x = message_values(3, 0, 5000, round);
        ctx.send(TensorView(x), {.name = "pong", .to = 0});
      }
    }
    if (ctx.rank() == 1) {
      EXPECT_EQ(ctx.counters().messages_sent + ctx.counters().messages_received, 0u);
    }
  });
}

// 60 messages of each of 3 names between two ranks. Each side submits the names in another order,
// with several sizes, some above the limit of inline values.
TEST(Messages, MatchByNameAndOrderWithManyInFlight) {
  for (const int per_node : {0, 1})
    run_ranks(
        2,
        [](Context& ctx) {
          constexpr int kNames = 3;
          constexpr int kEach = 60;
          const auto count_of = [](int name, int k) {
            return static_cast<std::size_t>((k * 977 + name * 31) % 6000);
          };
          std::vector<std::pair<int, int>> calls;  // name and k, in order of k within a name
          std::vector<int> left(kNames, kEach);
          std::mt19937 random(static_cast<unsigned>(ctx.rank()) + 1);
          while (calls.size() < kNames * kEach) {
            const auto name = random() % kNames;
            if (left[name] == 0) continue;
            calls.emplace_back(static_cast<int>(name), kEach - left[name]--);
          }
          std::vector<std::vector<float>> tensors;
          std::vector<Handle> handles;
          for (const auto& [name, k] : calls)
            tensors.push_back(ctx.rank() == 0 ? message_values(name, 1, count_of(name, k), k)
                                              : std::vector<float>(count_of(name, k)));
          for (std::size_t i = 0; i < calls.size(); ++i) {
            const std::string name = "n" + std::to_string(calls[i].first);
            handles.push_back(
                ctx.rank() == 0
                    ? ctx.send_async(TensorView(tensors[i]), {.name = name, .to = 1})
                    : ctx.recv_async(TensorView(tensors[i]), {.name = name, .from = 0}));
          }
          std::reverse(handles.begin(), handles.end());
          for (const Handle& handle : handles) handle.wait();
          if (ctx.rank() == 0) return;
          for (std::size_t i = 0; i < calls.size(); ++i) {
            const auto [name, k] = calls[i];
            ASSERT_EQ(tensors[i], message_values(name, 1, count_of(name, k), k));
          }
        },
        messages_on_nodes(per_node, 200us));
}

TEST(Messages, RunBesideCollectivesAndOnSeveralThreads) {
  run_ranks(3, [](Context& ctx) {
    const int next = (ctx.rank() + 1) % 3;
    const int previous = (ctx.rank() + 2) % 3;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        const std::string name = "t" + std::to_string(thread);
        for (int k = 0; k < 10; ++k) {
          std::vector<float> out = message_values(ctx.rank(), next, 3000, k);
          std::vector<float> in(out.size());
          const Handle sent = ctx.send_async(TensorView(out), {.name = name, .to = next});
          ctx.recv(TensorView(in), {.name = name, .from = previous});
          sent.wait();
          EXPECT_EQ(in, message_values(previous, ctx.rank(), 3000, k));
        }
      });
    for (int k = 0; k < 10; ++k) {
      std::vector<float> sum(100, 1.0f);
      ctx.allreduce(TensorView(sum), {.name = "t0", .op = ReduceOp::kSum});
      EXPECT_EQ(sum[99], 3.0f);
    }
  });
}

// The errors of the two ranks with the ranks in order.
std::vector<std::string> texts_of_pair(const std::function<void(Context&)>& call) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](Context& ctx) {
    texts[static_cast<std::size_t>(ctx.rank())] = error_text<MismatchError>([&] { call(ctx); });
    std::vector<double> x(3, ctx.rank() + 1.0);
    if (ctx.rank() == 0) ctx.send(TensorView(x), {.name = "x", .to = 1});
    if (ctx.rank() == 1) ctx.recv(TensorView(x), {.name = "x", .from = 0});
    EXPECT_EQ(x[2], 1.0);  // the context is still usable
  });
  return texts;
}

TEST(Messages, MismatchFailsBothRanksAndNextMessageWorks) {
  for (const std::size_t rows : {std::size_t{3}, std::size_t{90000}}) {
    const auto shapes = texts_of_pair([&](Context& ctx) {
      std::vector<float> x(rows * 4);
      if (ctx.rank() == 0) ctx.send(TensorView(x.data(), {rows, 4}), {.name = "x", .to = 1});
      if (ctx.rank() == 1) ctx.recv(TensorView(x.data(), {rows * 4}), {.name = "x", .from = 0});
    });
    EXPECT_EQ(shapes[0], shapes[1]);
    const std::string r = std::to_string(rows), all = std::to_string(rows * 4);
    EXPECT_THAT(shapes[0], AllOf(HasSubstr("'x' from rank 0 (host thread-node-0) to rank 1"),
                                 HasSubstr("sends float32 [" + r + ", 4]"),
                                 HasSubstr("receives float32 [" + all + "]")));
  }
  const auto types = texts_of_pair([](Context& ctx) {
    std::vector<float> f(2);
    std::vector<std::int32_t> i(2);
    if (ctx.rank() == 0) ctx.send(TensorView(f), {.name = "x", .to = 1});
    if (ctx.rank() == 1) ctx.recv(TensorView(i), {.name = "x", .from = 0});
  });
  EXPECT_EQ(types[0], types[1]);
  EXPECT_THAT(types[0], AllOf(HasSubstr("sends float32 [2]"), HasSubstr("receives int32 [2]")));
}

TEST(Messages, RejectInvalidArguments) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(3);
    for (const int peer : {-1, 2}) {
      EXPECT_THAT(
          error_text<InvalidArgument>([&] { ctx.send(TensorView(x), {.name = "x", .to = peer}); }),
          HasSubstr("send 'x': options.to is " + std::to_string(peer)));
      EXPECT_THAT(error_text<InvalidArgument>(
                      [&] { ctx.recv(TensorView(x), {.name = "x", .from = peer}); }),
                  HasSubstr("recv 'x': options.from is " + std::to_string(peer)));
    }
    float* const none = nullptr;
    EXPECT_THAT(error_text<InvalidArgument>(
                    [&] { ctx.send(TensorView(none, {3}), {.name = "x", .to = 0}); }),
                HasSubstr("has no memory"));
  });
}

// The texts of the CommunicationErrors, by rank.
std::vector<std::string> failure_texts(int ranks, const std::function<void(Context&)>& function,
                                       const RunOptions& options) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  EXPECT_THROW(run_ranks(
                   ranks,
                   [&](Context& ctx) {
                     try {
                       function(ctx);
                     } catch (const CommunicationError& error) {
                       texts[static_cast<std::size_t>(ctx.rank())] = error.what();
                       throw;
                     }
                   },
                   options),
               CommunicationError);
  return texts;
}

// Matches the report of the watchdog that `missing` has not made its call of a message, or the
// error of the call of the other rank, which comes first if the watchdog gets no CPU time.
auto names_missing_call(const std::string& name, int from, int to, int missing) {
  const std::string rank = fmt::format("rank {} \\(host [^)]*\\)", missing);
  const char* const call = missing == to ? "recv" : "send";
  return AnyOf(
      ContainsRegex(fmt::format("{} never called {}\\(\\) for '{} \\(rank {} to rank {}\\)'", rank,
                                call, name, from, to)),
      ContainsRegex(
          fmt::format("'{}' from rank {} .*for {} to call {}\\(\\)", name, from, rank, call)));
}

// Rank 1 computes and does not call recv().
TEST(Messages, MissingPeerIsNamedAfterTimeout) {
  for (const char* per_node : {"0", "1"}) {
    RunOptions options;
    options.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off",
                           std::string("HORO_RANKS_PER_NODE=") + per_node};
    const auto texts = failure_texts(
        2,
        [](Context& ctx) {
          std::vector<float> x(30000, 1.0f);
          if (ctx.rank() == 0) ctx.send(TensorView(x), {.name = "activation", .to = 1});
          std::this_thread::sleep_for(1200ms);
          if (ctx.rank() == 1) ctx.allreduce(TensorView(x), {.name = "too late"});
        },
        options);
    EXPECT_THAT(texts[0], names_missing_call("activation", 0, 1, 1)) << per_node;
    EXPECT_THAT(texts[0], HasSubstr("HORO_TIMEOUT is 500 ms")) << per_node;
    EXPECT_THAT(texts[1], HasSubstr("activation")) << per_node;
  }
}

TEST(Messages, MissingSendIsNamedBesideOtherRanksThatWork) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  const auto texts = failure_texts(
      3,
      [](Context& ctx) {
        std::vector<float> x(3, 1.0f);
        if (ctx.rank() == 2) ctx.recv(TensorView(x), {.name = "grad", .from = 0});
        std::this_thread::sleep_for(1200ms);
        if (ctx.rank() != 2) ctx.barrier();
      },
      options);
  EXPECT_THAT(texts[2], names_missing_call("grad", 0, 2, 0));
  EXPECT_THAT(texts[2], ::testing::Not(HasSubstr("rank 1 (")));
}

// Two blocking sends in opposite directions are a deadlock of the program.
TEST(Messages, CrossedBlockingSendsAreReported) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=400ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  const auto texts = failure_texts(
      2,
      [](Context& ctx) {
        std::vector<float> x(3, 1.0f);
        const std::string name = ctx.rank() == 0 ? "up" : "down";
        ctx.send(TensorView(x), {.name = name, .to = 1 - ctx.rank()});
      },
      options);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THAT(texts[0],
              AnyOf(AllOf(HasSubstr("ranks wait for each other in different operations"),
                          HasSubstr("send 'up (rank 0 to rank 1)'"),
                          HasSubstr("send 'down (rank 1 to rank 0)'")),
                    names_missing_call("up", 0, 1, 1), names_missing_call("down", 1, 0, 0)));
}

TEST(Messages, ShutdownOfPeerEndsCallsThatItDoesNotMatch) {
  for (const int per_node : {0, 1})
    run_ranks(
        3,
        [](Context& ctx) {
          std::vector<float> x(9000, 1.0f), y(9000, 2.0f), z(3);
          if (ctx.rank() != 0) return;  // returns to shutdown()
          EXPECT_THAT(
              error_text<ShutdownError>([&] { ctx.send(TensorView(x), {.name = "x", .to = 1}); }),
              HasSubstr("rank 1 (host thread-node-"));
          const Handle late = ctx.recv_async(TensorView(y), {.name = "y", .from = 2});
          EXPECT_THAT(error_text<ShutdownError>([&] { late.wait(); }),
                      AllOf(HasSubstr("'y' from rank 2"),
                            HasSubstr("has shut down without calling send()")));
          EXPECT_THROW(ctx.recv(TensorView(z), {.name = "z", .from = 1}), ShutdownError);
        },
        messages_on_nodes(per_node, per_node == 0 ? 0us : 200us));
}

// Rank 0 is in shutdown() when rank 1 makes the matching call.
TEST(Messages, OpenCallCompletesDuringShutdown) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x = message_values(0, 1, 40000);
    if (ctx.rank() == 0) {
      const Handle sent = ctx.send_async(TensorView(x), {.name = "x", .to = 1});
      ctx.shutdown();
      sent.wait();
      EXPECT_THROW(ctx.send(TensorView(x), {.name = "x", .to = 1}), ShutdownError);
      return;
    }
    std::this_thread::sleep_for(50ms);
    std::vector<float> y(x.size());
    ctx.recv(TensorView(y), {.name = "x", .from = 0});
    EXPECT_EQ(y, x);
  });
}

TEST(Messages, ShutdownEndsCallsThatAreOpenOnBothRanks) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(5);
    const Handle open = ctx.recv_async(TensorView(x), {.name = "x", .from = 1 - ctx.rank()});
    ctx.shutdown();
    EXPECT_THROW(open.wait(), ShutdownError);
  });
}

TEST(Messages, FailureOfAnotherRankEndsOpenCall) {
  const auto texts = failure_texts(3,
                                   [](Context& ctx) {
                                     std::vector<float> x(5);
                                     if (ctx.rank() == 0)
                                       ctx.recv(TensorView(x), {.name = "x", .from = 1});
                                     if (ctx.rank() == 1) std::this_thread::sleep_for(200ms);
                                     if (ctx.rank() == 2)
                                       throw CommunicationError("the disk is full");
                                   },
                                   {});
  EXPECT_THAT(texts[0], names_failed_rank(2));
}

TEST(Messages, NumberPeersByMemberInProcessSet) {
  run_ranks(4, [](Context& ctx) {
    ProcessSet odd = ctx.new_process_set({1, 3});
    ProcessSet same = ctx.new_process_set({1, 3});
    if (odd.includes_me()) {
      const int peer = 1 - odd.rank();
      for (ProcessSet* set : {&odd, &same}) {
        std::vector<float> out = message_values(odd.rank(), set == &odd, 3000);
        std::vector<float> in(out.size());
        const Handle sent = set->send_async(TensorView(out), {.name = "x", .to = peer});
        set->recv(TensorView(in), {.name = "x", .from = peer});
        sent.wait();
        EXPECT_EQ(in, message_values(peer, set == &odd, 3000));
      }
      std::vector<float> two(2), three(3);
      const std::string text = error_text<MismatchError>([&] {
        if (odd.rank() == 0) odd.send(TensorView(two), {.name = "m", .to = 1});
        if (odd.rank() == 1) odd.recv(TensorView(three), {.name = "m", .from = 0});
      });
      EXPECT_THAT(text, HasSubstr("'m' of process set {1, 3} from rank 1"));
      if (peer == 1) {
        odd.close();
      } else {
        EXPECT_THROW(odd.recv(TensorView(two), {.name = "n", .from = 0}), ShutdownError);
      }
    } else {
      std::vector<float> x(2);
      EXPECT_THROW(odd.send(TensorView(x), {.name = "x", .to = 0}), InvalidArgument);
    }
  });
}

TEST(Messages, CallbacksRunAndMaySendButNotBlock) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> first = message_values(0, 1, 4000), second(5), third(7, 3.0f);
    if (ctx.rank() == 0) {
      std::promise<Handle> answer;
      ctx.recv_async(TensorView(second), {.name = "second", .from = 1})
          .then([&](const std::exception_ptr& error) {
            EXPECT_EQ(error, nullptr);
            EXPECT_THROW(ctx.send(TensorView(third), {.name = "third", .to = 1}), InvalidArgument);
            answer.set_value(ctx.send_async(TensorView(third), {.name = "third", .to = 1}));
          });
      ctx.send(TensorView(first), {.name = "first", .to = 1});
      // The blocking call owns the rounds while the callback is due.
      ctx.recv(TensorView(first), {.name = "fourth", .from = 1});
      answer.get_future().get().wait();
    } else {
      ctx.recv(TensorView(first), {.name = "first", .from = 0});
      ctx.send(TensorView(second), {.name = "second", .to = 0});
      ctx.recv(TensorView(third), {.name = "third", .from = 0});
      EXPECT_EQ(third[6], 3.0f);
      ctx.send(TensorView(first), {.name = "fourth", .to = 0});
    }
  });
}

}  // namespace
}  // namespace horo
