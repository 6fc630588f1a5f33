// The C interface on ranks that are threads. tests/c/c_job.c uses the shared library under mpirun.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "horo/c/objects.h"
#include "horo/horo_c.h"
#include "horo/testing.h"

namespace {

void on_ranks(int ranks, const std::function<void(horo_context*)>& function) {
  horo::testing::run_ranks(ranks, [&](horo::Context& job) {
    horo_context context{&job};
    function(&context);
  });
}

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(100 * rank) + static_cast<float>(i);
  return values;
}

float sum_at(int ranks, std::size_t i) {
  return static_cast<float>(100 * ranks * (ranks - 1) / 2) +
         static_cast<float>(ranks) * static_cast<float>(i);
}

class CApi : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CApi, testing::Values(1, 2, 3, 5, 8));

TEST_P(CApi, BlockingOperationsOfVectors) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](horo_context* job) {
    const int rank = horo_rank(job);
    ASSERT_EQ(horo_size(job), ranks);
    EXPECT_EQ(horo_local_rank(job), rank);
    EXPECT_EQ(horo_local_size(job), ranks);
    EXPECT_EQ(horo_node(job), 0);
    EXPECT_EQ(horo_node_count(job), 1);

    std::vector<float> x = values_of(rank, 37);
    ASSERT_EQ(horo_allreduce(job, x.data(), x.size(), HORO_FLOAT32, HORO_SUM, "x"), HORO_OK);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], sum_at(ranks, i));

    std::vector<float> root = values_of(rank, 5);
    ASSERT_EQ(horo_broadcast(job, root.data(), 5, HORO_FLOAT32, ranks - 1, nullptr), HORO_OK);
    EXPECT_EQ(root, values_of(ranks - 1, 5));

    // Rank r has r + 1 values.
    const std::vector<float> own = values_of(rank, static_cast<std::size_t>(rank) + 1);
    std::vector<float> all(static_cast<std::size_t>(ranks * (ranks + 1) / 2)), expected;
    for (int r = 0; r < ranks; ++r)
      for (const float value : values_of(r, static_cast<std::size_t>(r) + 1))
        expected.push_back(value);
    ASSERT_EQ(
        horo_allgather(job, own.data(), own.size(), all.data(), all.size(), HORO_FLOAT32, "g"),
        HORO_OK);
    EXPECT_EQ(all, expected);

    const std::vector<float> whole = values_of(rank, 23);
    std::vector<float> share(horo_shard_rows(job, 23));
    ASSERT_EQ(horo_reduce_scatter(job, whole.data(), 23, share.data(), HORO_FLOAT32, HORO_SUM, "s"),
              HORO_OK);
    std::size_t first = 0;
    for (int r = 0; r < rank; ++r)
      first += 23 / static_cast<std::size_t>(ranks) + (r < 23 % ranks ? 1 : 0);
    for (std::size_t i = 0; i < share.size(); ++i) ASSERT_EQ(share[i], sum_at(ranks, first + i));

    EXPECT_EQ(horo_barrier(job, "end"), HORO_OK);
    int last = -1;
    EXPECT_EQ(horo_join(job, &last), HORO_OK);
    EXPECT_GE(last, 0);
    EXPECT_LT(last, ranks);
  });
}

TEST_P(CApi, ObjectsOfDifferentSizes) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](horo_context* job) {
    const std::string own(static_cast<std::size_t>(3 * horo_rank(job)),
                          static_cast<char>('a' + horo_rank(job)));
    void* result = nullptr;
    std::size_t bytes = 0;
    ASSERT_EQ(horo_broadcast_object(job, own.data(), own.size(), ranks - 1, "o", &result, &bytes),
              HORO_OK);
    EXPECT_EQ(
        std::string(static_cast<char*>(result), bytes),
        std::string(static_cast<std::size_t>(3 * (ranks - 1)), static_cast<char>('a' + ranks - 1)));
    horo_free(result);

    std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks));
    ASSERT_EQ(horo_allgather_object(job, own.data(), own.size(), "g", &result, sizes.data()),
              HORO_OK);
    std::string expected;
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(sizes[static_cast<std::size_t>(r)], static_cast<std::size_t>(3 * r));
      expected += std::string(static_cast<std::size_t>(3 * r), static_cast<char>('a' + r));
    }
    EXPECT_EQ(std::string(static_cast<char*>(result), expected.size()), expected);
    horo_free(result);
  });
}

TEST_P(CApi, OperationsInFlight) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](horo_context* job) {
    const int rank = horo_rank(job);
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<float> a = values_of(rank, 12), b = values_of(rank, 7), into(7);
    const std::size_t dimensions[] = {3, 4};
    const horo_tensor in_place{"a", a.data(), HORO_FLOAT32, 12, dimensions, 2, nullptr};
    const horo_tensor from{"b", b.data(), HORO_FLOAT32, 7, nullptr, 0, nullptr};
    const horo_tensor to{nullptr, into.data(), HORO_FLOAT32, 7, nullptr, 0, nullptr};
    horo_options options = HORO_OPTIONS;
    options.op = HORO_SUM;
    options.postscale = 0.5;
    horo_handle *first = nullptr, *second = nullptr;
    ASSERT_EQ(horo_allreduce_async(job, &in_place, &options, &first), HORO_OK);
    ASSERT_EQ(horo_allreduce_into_async(job, &from, &to, &options, &second), HORO_OK);
    ASSERT_EQ(horo_wait(second), HORO_OK);
    ASSERT_EQ(horo_wait(first), HORO_OK);
    for (std::size_t i = 0; i < 12; ++i) ASSERT_EQ(a[i], sum_at(ranks, i) / 2);
    for (std::size_t i = 0; i < 7; ++i) ASSERT_EQ(into[i], sum_at(ranks, i) / 2);
    EXPECT_EQ(b, values_of(rank, 7));

    // Rank r sends r + 1 rows to every rank.
    std::vector<std::size_t> splits(n, static_cast<std::size_t>(rank) + 1), received(n);
    std::vector<float> rows = values_of(rank, n * (static_cast<std::size_t>(rank) + 1)),
                       output(n * (n + 1) / 2);
    const horo_tensor send{"t", rows.data(), HORO_FLOAT32, rows.size(), nullptr, 0, nullptr};
    const horo_tensor receive{nullptr, output.data(), HORO_FLOAT32, output.size(), nullptr,
                              0,       nullptr};
    horo_handle* exchange = nullptr;
    ASSERT_EQ(horo_alltoall_async(job, &send, splits.data(), &receive, nullptr, &exchange),
              HORO_OK);
    ASSERT_EQ(horo_received_splits(exchange, received.data(), n), HORO_OK);
    ASSERT_EQ(horo_wait(exchange), HORO_OK);
    std::size_t at = 0;
    for (std::size_t r = 0; r < n; ++r) {
      ASSERT_EQ(received[r], r + 1);
      for (std::size_t i = 0; i <= r; ++i, ++at)
        ASSERT_EQ(output[at], static_cast<float>(100 * r) +
                                  static_cast<float>(static_cast<std::size_t>(rank) * (r + 1) + i));
    }
  });
}

TEST_P(CApi, RanksSendToTheNextRank) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](horo_context* job) {
    const int rank = horo_rank(job), next = (rank + 1) % ranks,
              previous = (rank + ranks - 1) % ranks;
    std::vector<float> own = values_of(rank, 9), received(9);
    const horo_tensor out{"ring", own.data(), HORO_FLOAT32, 9, nullptr, 0, nullptr};
    const horo_tensor in{"ring", received.data(), HORO_FLOAT32, 9, nullptr, 0, nullptr};
    horo_handle *sent = nullptr, *got = nullptr;
    ASSERT_EQ(horo_send_async(job, &out, next, &sent), HORO_OK);
    ASSERT_EQ(horo_recv_async(job, &in, previous, &got), HORO_OK);
    ASSERT_EQ(horo_wait(got), HORO_OK);
    ASSERT_EQ(horo_wait(sent), HORO_OK);
    EXPECT_EQ(received, values_of(previous, 9));
    EXPECT_EQ(horo_send_async(job, &out, ranks, &sent), HORO_INVALID_ARGUMENT);
  });
}

TEST(CApiHandles, CallbacksGetStatusAndUser) {
  on_ranks(2, [](horo_context* job) {
    float x = 1;
    const horo_tensor tensor{"x", &x, HORO_FLOAT32, 1, nullptr, 0, nullptr};
    horo_handle* handle = nullptr;
    ASSERT_EQ(horo_allreduce_async(job, &tensor, nullptr, &handle), HORO_OK);
    std::atomic<int> calls = 0;
    ASSERT_EQ(horo_then(
                  handle,
                  [](horo_status status, const char* error, void* user) {
                    if (status == HORO_OK && *error == '\0')
                      ++*static_cast<std::atomic<int>*>(user);
                  },
                  &calls),
              HORO_OK);
    ASSERT_EQ(horo_wait(handle), HORO_OK);
    horo_barrier(job, nullptr);
    while (calls == 0) std::this_thread::yield();
    EXPECT_EQ(calls, 1);
  });
}

TEST(CApiErrors, HaveStatusAndTextOnEveryRank) {
  on_ranks(3, [](horo_context* job) {
    std::vector<float> x(4);
    // Ranks disagree about the number of elements.
    const std::size_t count = horo_rank(job) == 1 ? 3 : 4;
    EXPECT_EQ(horo_allreduce(job, x.data(), count, HORO_FLOAT32, HORO_SUM, "uneven"),
              HORO_MISMATCH);
    EXPECT_NE(std::string(horo_last_error()).find("uneven"), std::string::npos)
        << horo_last_error();
    // The job continues.
    EXPECT_EQ(horo_allreduce(job, x.data(), 4, HORO_FLOAT32, HORO_SUM, "even"), HORO_OK);
    EXPECT_EQ(horo_broadcast(job, x.data(), 4, HORO_FLOAT32, 3, "w"), HORO_INVALID_ARGUMENT);
    EXPECT_EQ(horo_allreduce(job, x.data(), 4, static_cast<horo_data_type>(11), HORO_SUM, "x"),
              HORO_INVALID_ARGUMENT);
    EXPECT_STREQ(horo_last_error(),
                 "11 is not a horo_data_type; choose HORO_FLOAT32 (0) to HORO_BOOL (10)");
    const std::size_t dimensions[] = {2, 3};
    const horo_tensor wrong{"w", x.data(), HORO_FLOAT32, 4, dimensions, 2, nullptr};
    horo_handle* handle = nullptr;
    EXPECT_EQ(horo_allreduce_async(job, &wrong, nullptr, &handle), HORO_INVALID_ARGUMENT);
    EXPECT_STREQ(horo_last_error(),
                 "tensor 'w' has the dimensions [2, 3], which are 6 elements, and count 4");
    EXPECT_EQ(handle, nullptr);
  });
}

TEST(CApiErrors, NullPointersAreNamed) {
  float x = 0;
  EXPECT_EQ(horo_allreduce(nullptr, &x, 1, HORO_FLOAT32, HORO_SUM, "x"), HORO_INVALID_ARGUMENT);
  EXPECT_STREQ(horo_last_error(), "horo_allreduce: the argument 'context' is null");
  EXPECT_EQ(horo_init(nullptr), HORO_INVALID_ARGUMENT);
  EXPECT_EQ(horo_wait(nullptr), HORO_INVALID_ARGUMENT);
  EXPECT_EQ(horo_gradient_sync_wait(nullptr), HORO_INVALID_ARGUMENT);
  EXPECT_STREQ(horo_last_error(), "horo_gradient_sync_wait: the argument 'sync' is null");
  EXPECT_EQ(horo_rank(nullptr), -1);
  EXPECT_EQ(horo_size(nullptr), -1);
  EXPECT_EQ(horo_shutdown(nullptr), HORO_OK);
  horo_gradient_sync_destroy(nullptr);
  horo_arena_destroy(nullptr);
  horo_free(nullptr);
}

TEST(CApiErrors, TextsBelongToTheThread) {
  on_ranks(2, [](horo_context* job) {
    float x = 0;
    const bool fails = horo_rank(job) == 0;
    if (fails) {
      EXPECT_EQ(horo_broadcast(job, &x, 1, HORO_FLOAT32, 9, "w"), HORO_INVALID_ARGUMENT);
    }
    EXPECT_EQ(horo_barrier(job, nullptr), HORO_OK);
    EXPECT_EQ(std::string(horo_last_error()).empty(), !fails);
  });
}

TEST_P(CApi, GradientSyncAveragesAndReports) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](horo_context* job) {
    const int rank = horo_rank(job);
    horo_arena* arena = nullptr;
    ASSERT_EQ(horo_arena_create(job, 64 * sizeof(float), &arena), HORO_OK);
    ASSERT_GE(horo_arena_bytes(arena), 64 * sizeof(float));
    auto* const in_arena = static_cast<float*>(horo_arena_data(arena));
    std::vector<float> own(13);
    const horo_tensor gradients[] = {{"a", in_arena, HORO_FLOAT32, 64, nullptr, 0, nullptr},
                                     {"b", own.data(), HORO_FLOAT32, 13, nullptr, 0, nullptr}};
    horo_gradient_sync_options options = HORO_GRADIENT_SYNC_OPTIONS;
    options.weighted = 1;
    options.check_finite = 1;
    options.op = HORO_AVERAGE;
    horo_gradient_sync* sync = nullptr;
    ASSERT_EQ(horo_gradient_sync_create(job, gradients, 2, &options, &sync), HORO_OK);
    EXPECT_GE(horo_gradient_sync_bucket_count(sync), 1u);
    // Rank r has the weight r + 1 and gradients of value r.
    ASSERT_EQ(horo_gradient_sync_set_weight(sync, rank + 1), HORO_OK);
    std::fill_n(in_arena, 64, static_cast<float>(rank));
    std::ranges::fill(own, static_cast<float>(rank));
    ASSERT_EQ(horo_gradient_sync_ready(sync, 1), HORO_OK);
    EXPECT_EQ(horo_gradient_sync_ready(sync, 2), HORO_INVALID_ARGUMENT);
    EXPECT_EQ(horo_gradient_sync_ready(sync, 1), HORO_INVALID_ARGUMENT);
    ASSERT_EQ(horo_gradient_sync_ready(sync, 0), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_wait(sync), HORO_OK);
    // sum r (r + 1) / sum (r + 1) = 2 (n - 1) / 3
    const float expected = 2 * static_cast<float>(ranks - 1) / 3;
    EXPECT_NEAR(in_arena[63], expected, 1e-6f * expected);
    EXPECT_NEAR(own[12], expected, 1e-6f * expected);
    horo_step_report report = HORO_STEP_REPORT;
    ASSERT_EQ(horo_gradient_sync_report(sync, &report), HORO_OK);
    EXPECT_EQ(report.was_exchanged, 1);
    EXPECT_EQ(report.total_weight, ranks * (ranks + 1) / 2);
    EXPECT_EQ(report.is_finite, 1);
    EXPECT_EQ(report.non_finite_rank, -1);
    EXPECT_NEAR(report.norm, std::sqrt(77.0) * static_cast<double>(expected),
                1e-5 * (1 + report.norm));

    // Two passes; the first exchanges nothing. Then the last rank contributes a NaN.
    ASSERT_EQ(horo_gradient_sync_begin_no_sync(sync), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_ready(sync, 0), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_ready(sync, 1), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_wait(sync), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_end_no_sync(sync), HORO_OK);
    EXPECT_EQ(horo_gradient_sync_end_no_sync(sync), HORO_INVALID_ARGUMENT);
    if (rank == ranks - 1) own[5] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_EQ(horo_gradient_sync_exchange(sync), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_report(sync, &report), HORO_OK);
    EXPECT_EQ(report.is_finite, 0);
    EXPECT_EQ(report.non_finite_rank, ranks - 1);
    EXPECT_EQ(report.non_finite_gradient, 1u);
    EXPECT_EQ(report.non_finite_index, 5u);

    int steps = 0, last = -2;
    ASSERT_EQ(horo_gradient_sync_join(
                  sync, [](void* user) { ++*static_cast<int*>(user); }, &steps, &last),
              HORO_OK);
    EXPECT_EQ(steps, 0);
    horo_gradient_sync_destroy(sync);
    horo_arena_destroy(arena);
  });
}

TEST(CApiGradientSync, LeavesUnusedGradientsAndTakesOthers) {
  on_ranks(2, [](horo_context* job) {
    std::vector<float> a(3, 1), b(4, 1);
    const horo_tensor gradients[] = {{"a", a.data(), HORO_FLOAT32, 3, nullptr, 0, nullptr},
                                     {"b", b.data(), HORO_FLOAT32, 4, nullptr, 0, nullptr}};
    horo_gradient_sync_options options = HORO_GRADIENT_SYNC_OPTIONS;
    options.find_unused = 1;
    options.op = HORO_SUM;
    horo_gradient_sync* sync = nullptr;
    ASSERT_EQ(horo_gradient_sync_create(job, gradients, 2, &options, &sync), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_ready(sync, static_cast<std::size_t>(horo_rank(job))), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_wait(sync), HORO_OK);
    EXPECT_EQ(a, std::vector<float>(3, 1));
    EXPECT_EQ(b, std::vector<float>(4, 1));
    const std::size_t* unused = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(horo_gradient_sync_unused(sync, &unused, &count), HORO_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(*unused, static_cast<std::size_t>(1 - horo_rank(job)));
    ASSERT_EQ(horo_gradient_sync_update(sync, gradients, 1), HORO_OK);
    ASSERT_EQ(horo_gradient_sync_exchange(sync), HORO_OK);
    EXPECT_EQ(a, std::vector<float>(3, 2));
    EXPECT_EQ(b, std::vector<float>(4, 1));
    horo_gradient_sync_destroy(sync);
  });
}

TEST(CApiProcessSets, HaveOperationsOfTheirOwn) {
  on_ranks(3, [](horo_context* job) {
    const int members[] = {0, 2};
    horo_context* set = nullptr;
    ASSERT_EQ(horo_process_set_create(job, members, 2, &set), HORO_OK);
    const bool is_member = horo_rank(job) != 1;
    EXPECT_EQ(horo_process_set_includes_me(set), is_member ? 1 : 0);
    EXPECT_EQ(horo_process_set_includes_me(job), 1);
    EXPECT_EQ(horo_size(set), 2);
    EXPECT_EQ(horo_rank(set), is_member ? horo_rank(job) / 2 : -1);
    float x = static_cast<float>(horo_rank(job));
    EXPECT_EQ(horo_allreduce(set, &x, 1, HORO_FLOAT32, HORO_SUM, "x"),
              is_member ? HORO_OK : HORO_INVALID_ARGUMENT);
    EXPECT_EQ(x, is_member ? 2.0f : 1.0f);
    EXPECT_EQ(horo_shutdown(set), HORO_OK);
  });
}

TEST(CApiStructures, OlderCallersKeepDefaultsOfNewFields) {
  on_ranks(1, [](horo_context* job) {
    // As if op were the last field that the caller knows: the factors after it, here 7, are not
    // read.
    horo_options options = HORO_OPTIONS;
    options.size = offsetof(horo_options, root);
    options.op = HORO_SUM;
    options.prescale = options.postscale = 7;
    float x = 3;
    const horo_tensor tensor{"x", &x, HORO_FLOAT32, 1, nullptr, 0, nullptr};
    horo_handle* handle = nullptr;
    ASSERT_EQ(horo_allreduce_async(job, &tensor, &options, &handle), HORO_OK);
    ASSERT_EQ(horo_wait(handle), HORO_OK);
    EXPECT_EQ(x, 3);
    horo_counters counters = HORO_COUNTERS;
    counters.size = offsetof(horo_counters, tensors);
    counters.tensors = 99;
    ASSERT_EQ(horo_get_counters(job, &counters), HORO_OK);
    EXPECT_EQ(counters.tensors, 99u);
    EXPECT_EQ(counters.size, offsetof(horo_counters, tensors));
  });
}

TEST(CApiScopes, NestAndCheckEqualNamesTheTensor) {
  on_ranks(2, [](horo_context* job) {
    horo_scope *outer = nullptr, *inner = nullptr;
    ASSERT_EQ(horo_phase_begin(job, "forward", &outer), HORO_OK);
    ASSERT_EQ(horo_pause_begin(job, "checkpoint", &inner), HORO_OK);
    horo_scope_end(inner);
    horo_scope_end(outer);
    EXPECT_EQ(horo_phase_begin(job, nullptr, &outer), HORO_INVALID_ARGUMENT);
    float x = 1, y = static_cast<float>(horo_rank(job));
    const horo_tensor tensors[] = {{"x", &x, HORO_FLOAT32, 1, nullptr, 0, nullptr},
                                   {"y", &y, HORO_FLOAT32, 1, nullptr, 0, nullptr}};
    EXPECT_EQ(horo_check_equal(job, tensors, 1, "parameters", 1), HORO_OK);
    EXPECT_EQ(horo_check_equal(job, tensors, 2, "parameters", 1), HORO_MISMATCH);
    EXPECT_NE(std::string(horo_last_error()).find("'y'"), std::string::npos) << horo_last_error();
  });
}

}  // namespace
