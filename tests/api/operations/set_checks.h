#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "horo/horo.h"

namespace horo {

// A value that differs by job rank and index. Its sums over ranks are exact in float32.
inline float set_value(int job_rank, std::size_t i, int salt = 0) {
  return static_cast<float>((job_rank + 1) * 5 + static_cast<int>(i % 97) + salt);
}

inline float sum_over(const std::vector<int>& ranks, std::size_t i, int salt = 0) {
  float sum = 0;
  for (const int rank : ranks) sum += set_value(rank, i, salt);
  return sum;
}

inline void check_reductions(ProcessSet& set, int salt) {
  const int own = set.ranks()[static_cast<std::size_t>(set.rank())];
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{30001}}) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = set_value(own, i, salt);
    set.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(x[i], sum_over(set.ranks(), i, salt)) << i;
  }
  const std::size_t rows = 101;
  std::vector<float> input(rows * 3);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = set_value(own, i, salt);
  std::vector<float> shard(set.shard_rows(rows) * 3);
  set.reduce_scatter(TensorView(input.data(), {rows, 3}),
                     TensorView(shard.data(), {shard.size() / 3, 3}),
                     {.name = "shard", .op = ReduceOp::kSum});
  const auto ranks = static_cast<std::size_t>(set.size());
  const auto position = static_cast<std::size_t>(set.rank());
  const std::size_t first = 3 * (position * (rows / ranks) + std::min(position, rows % ranks));
  for (std::size_t i = 0; i < shard.size(); ++i)
    ASSERT_EQ(shard[i], sum_over(set.ranks(), first + i, salt)) << i;
}

inline void check_copies(ProcessSet& set, int salt) {
  const int own = set.ranks()[static_cast<std::size_t>(set.rank())];
  for (int root = 0; root < set.size(); ++root) {
    std::vector<std::int64_t> x(103, own * 1000 + salt);
    set.broadcast(TensorView(x), {.name = "w", .root = root});
    ASSERT_EQ(x.back(), set.ranks()[static_cast<std::size_t>(root)] * 1000 + salt);
  }
  std::vector<std::int32_t> input(static_cast<std::size_t>(own % 3 + 1), own * 100 + salt);
  std::vector<std::int32_t> expected;
  for (const int rank : set.ranks())
    expected.insert(expected.end(), static_cast<std::size_t>(rank % 3 + 1), rank * 100 + salt);
  std::vector<std::int32_t> output(expected.size());
  set.allgather(TensorView(input), TensorView(output), {.name = "g"});
  ASSERT_EQ(output, expected);

  std::vector<std::int32_t> to, from;
  std::vector<std::size_t> splits;
  for (const int peer : set.ranks()) {
    splits.push_back(static_cast<std::size_t>((own + peer) % 4));
    to.insert(to.end(), splits.back(), own * 10 + peer);
    from.insert(from.end(), splits.back(), peer * 10 + own);
  }
  std::vector<std::int32_t> received(from.size());
  ASSERT_EQ(set.alltoall(TensorView(to), TensorView(received), {.name = "t", .splits = splits}),
            splits);
  ASSERT_EQ(received, from);
  set.barrier();
}

inline void check_gradients(ProcessSet& set, int salt, bool in_arena) {
  const int own = set.ranks()[static_cast<std::size_t>(set.rank())];
  const Arena arena = set.allocate(1 << 17);
  std::pmr::memory_resource* const memory =
      in_arena ? arena.resource() : std::pmr::get_default_resource();
  std::pmr::vector<float> a(12345, memory);
  std::pmr::vector<float> b(7, memory);
  const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
  GradientSync sync(set, gradients, {.op = ReduceOp::kSum, .bucket_bytes = 4096});
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = set_value(own, i, salt + step);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = set_value(own, i, salt - step);
    sync.ready(1);
    sync.ready(0);
    sync.wait();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(a[i], sum_over(set.ranks(), i, salt + step)) << i;
    for (std::size_t i = 0; i < b.size(); ++i)
      ASSERT_EQ(b[i], sum_over(set.ranks(), i, salt - step)) << i;
  }
}

/// Checks every function of a set, if this rank is a member. `salt` differs between sets.
inline void check_set(ProcessSet& set, int salt) {
  if (!set.includes_me()) return;
  check_reductions(set, salt);
  check_copies(set, salt);
  check_gradients(set, salt, false);
  check_gradients(set, salt, true);
}

/// The ranks of a job of `size` for which `is_in(rank)`.
template <typename Predicate>
std::vector<int> ranks_where(int size, Predicate is_in) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (is_in(rank)) ranks.push_back(rank);
  return ranks;
}

}  // namespace horo
