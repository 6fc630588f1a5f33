// horo_cxx17.h on ranks that are threads. tests/c/cxx17_job.cpp is compiled as C++17 and uses the
// shared library under mpirun.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "horo/c/objects.h"
#include "horo/horo_cxx17.h"
#include "horo/testing.h"

namespace {

namespace cxx17 = horo::cxx17;
using cxx17::ReduceOp;

void on_ranks(int ranks, const std::function<void(cxx17::Context&)>& function) {
  horo::testing::run_ranks(ranks, [&](horo::Context& job) {
    cxx17::Context context(new horo_context{&job});
    function(context);
  });
}

/// Element i of rank r is 10 r + i.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(10 * rank) + static_cast<float>(i);
  return values;
}

std::vector<float> sums(int ranks, std::size_t count, float factor = 1) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = factor * (static_cast<float>(5 * ranks * (ranks - 1)) +
                          static_cast<float>(ranks) * static_cast<float>(i));
  return values;
}

template <typename Error, typename Function>
std::string text_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error of this class";
}

class Cxx17 : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Cxx17, testing::Values(1, 2, 3, 5));

TEST_P(Cxx17, ReducesVectorsAndTensors) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](cxx17::Context& job) {
    const int rank = job.rank();
    ASSERT_EQ(job.size(), ranks);
    EXPECT_EQ(job.local_rank(), rank);
    EXPECT_EQ(job.local_size(), ranks);
    EXPECT_EQ(job.node(), 0);
    EXPECT_EQ(job.node_count(), 1);

    // A vector without factors, and the same as a matrix, with factors, and in flight.
    std::vector<float> x = values_of(rank, 12);
    job.allreduce(x, {"x", ReduceOp::kSum});
    EXPECT_EQ(x, sums(ranks, 12));
    x = values_of(rank, 12);
    job.allreduce(cxx17::TensorView(x.data(), {3, 4}), {"x", ReduceOp::kSum, 1, 0.5});
    EXPECT_EQ(x, sums(ranks, 12, 0.5F));
    const std::vector<float> input = values_of(rank, 7);
    std::vector<float> output(7), other = values_of(rank, 5);
    cxx17::Handle first = job.allreduce_async(other, {"other", ReduceOp::kSum});
    job.allreduce(input, output, {"into", ReduceOp::kSum});
    first.wait();
    first.wait();
    EXPECT_TRUE(first.is_done());
    EXPECT_EQ(output, sums(ranks, 7));
    EXPECT_EQ(other, sums(ranks, 5));
    EXPECT_EQ(input, values_of(rank, 7));

    std::vector<float> a = values_of(rank, 3);
    std::vector<double> b{static_cast<double>(rank)};
    job.allreduce_group({{"a", a}, {"b", b}}, {"group", ReduceOp::kMax});
    EXPECT_EQ(a, values_of(ranks - 1, 3));
    EXPECT_EQ(b[0], ranks - 1);
    job.barrier({"end"});
    EXPECT_GE(job.counters().collectives, 1U);
    const int last = job.join();
    EXPECT_TRUE(last >= 0 && last < ranks) << last;
  });
}

TEST_P(Cxx17, MovesValuesBetweenRanks) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](cxx17::Context& job) {
    const int rank = job.rank();
    std::vector<float> root = values_of(rank, 6), in_matrix = values_of(rank, 6);
    job.broadcast(root, {"root", ranks - 1});
    job.broadcast(cxx17::TensorView(in_matrix.data(), {2, 3}), {"matrix", ranks - 1});
    EXPECT_EQ(root, values_of(ranks - 1, 6));
    EXPECT_EQ(in_matrix, root);
    std::vector<float> g = values_of(rank, 2), h = values_of(rank, 1);
    job.broadcast_group({{"g", g}, {"h", h}}, {"both", 0});
    EXPECT_EQ(g, values_of(0, 2));

    const auto n = static_cast<std::size_t>(ranks);
    const std::vector<float> own = values_of(rank, 2);
    std::vector<float> all(2 * n), expected;
    for (int r = 0; r < ranks; ++r)
      for (const float value : values_of(r, 2)) expected.push_back(value);
    job.allgather(own, all, {"all"});
    EXPECT_EQ(all, expected);

    std::vector<float> share(job.shard_rows(n));
    const std::vector<float> whole = values_of(rank, n);
    job.reduce_scatter(whole, share, {"share", ReduceOp::kSum});
    EXPECT_EQ(share, std::vector<float>(1, sums(ranks, n)[static_cast<std::size_t>(rank)]));

    std::vector<float> ring(4);
    const std::vector<float> sent = values_of(rank, 4);
    cxx17::Handle sending = job.send_async(sent, {"ring", (rank + 1) % ranks});
    job.recv(ring, {"ring", (rank + ranks - 1) % ranks});
    sending.wait();
    EXPECT_EQ(ring, values_of((rank + ranks - 1) % ranks, 4));

    // Rank r sends r + 1 rows to every rank.
    const auto rows = static_cast<std::size_t>(rank) + 1;
    const std::vector<float> to_all = values_of(rank, n * rows);
    std::vector<float> from_all(n * (n + 1) / 2);
    const std::vector<std::size_t> received =
        job.alltoall(to_all, from_all, {"t", std::vector<std::size_t>(n, rows)});
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(received[r], r + 1);
    EXPECT_EQ(from_all[0], static_cast<float>(rank));

    std::vector<std::byte> object(static_cast<std::size_t>(3 * rank), std::byte(rank));
    const auto objects = job.allgather_object(object, {"objects"});
    ASSERT_EQ(objects.size(), n);
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(objects[static_cast<std::size_t>(r)],
                std::vector<std::byte>(static_cast<std::size_t>(3 * r), std::byte(r)));
    job.broadcast_object(object, {"object", ranks - 1});
    EXPECT_EQ(object, objects.back());
  });
}

TEST_P(Cxx17, AveragesGradientsInEachStep) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](cxx17::Context& job) {
    cxx17::Arena arena = job.allocate(4096);
    ASSERT_GE(arena.size(), 4096U);
    auto* const in_arena = reinterpret_cast<float*>(arena.data());
    std::vector<float> w = values_of(job.rank(), 6);
    cxx17::GradientSyncOptions options;
    options.weighted = true;
    options.check_finite = true;
    cxx17::GradientSync sync(
        job, {{"w", cxx17::TensorView(w.data(), {2, 3})}, {"b", cxx17::TensorView(in_arena, {4})}},
        options);
    EXPECT_GE(sync.bucket_count(), 1U);
    sync.set_weight(1);
    {
      const auto pause = sync.no_sync();
      sync.ready(0);
      sync.ready(1);
      EXPECT_FALSE(sync.wait().was_exchanged);
    }
    EXPECT_EQ(w, values_of(job.rank(), 6));
    sync.ready(1);
    sync.ready(0);
    const cxx17::StepReport report = sync.wait();
    EXPECT_TRUE(report.was_exchanged);
    EXPECT_EQ(report.total_weight, ranks);
    EXPECT_TRUE(report.is_finite);
    EXPECT_EQ(w, sums(ranks, 6, 1 / static_cast<float>(ranks)));
    EXPECT_THROW(sync.ready(2), cxx17::InvalidArgument);

    // Rank 0 makes one step more than the others, which join.
    int steps = 0;
    if (job.rank() == 0) {
      w.assign(6, 5);
      sync.exchange();
      EXPECT_EQ(w, std::vector<float>(6, 5));
    }
    const int last = sync.join([&](const cxx17::StepReport& step) {
      ++steps;
      EXPECT_EQ(step.total_weight, 1);
      EXPECT_EQ(w, std::vector<float>(6, 5));
    });
    EXPECT_EQ(last, 0);
    EXPECT_EQ(steps, job.rank() == 0 ? 0 : 1);

    std::vector<float> v(2, static_cast<float>(job.rank()));
    sync.update({{"v", v}});
    sync.exchange();
    EXPECT_EQ(v[1], static_cast<float>(ranks - 1) / 2);
  });
}

TEST(Cxx17Errors, HaveTheClassesOfTheStatus) {
  static_assert(std::is_base_of_v<std::runtime_error, cxx17::Error>);
  const std::pair<horo_status, const char*> none{HORO_ERROR, "text"};
  EXPECT_EQ(text_of<cxx17::Error>([&] { cxx17::detail::throw_error(none.first, none.second); }),
            "text");
  const auto is = [](horo_status status, auto error) {
    using Class = decltype(error);
    EXPECT_EQ(text_of<Class>([&] { cxx17::detail::throw_error(status, "t"); }), "t") << status;
  };
  is(HORO_INVALID_ARGUMENT, cxx17::InvalidArgument(""));
  is(HORO_MISMATCH, cxx17::MismatchError(""));
  is(HORO_COMMUNICATION_ERROR, cxx17::CommunicationError(""));
  is(HORO_SHARED_MEMORY_ERROR, cxx17::SharedMemoryError(""));
  is(HORO_DEVICE_ERROR, cxx17::DeviceError(""));
  is(HORO_SHUT_DOWN, cxx17::ShutdownError(""));

  on_ranks(3, [](cxx17::Context& job) {
    std::vector<float> x(4), y(1, static_cast<float>(job.rank()));
    const std::size_t count = job.rank() == 1 ? 3 : 4;
    const auto text = text_of<cxx17::MismatchError>(
        [&] { job.allreduce(cxx17::TensorView(x.data(), {count}), {"uneven"}); });
    EXPECT_NE(text.find("uneven"), std::string::npos) << text;
    EXPECT_THROW(job.broadcast(x, {"w", 3}), cxx17::InvalidArgument);
    EXPECT_THROW(job.check_equal({{"x", x}, {"y", y}}, {"parameters"}), cxx17::MismatchError);
    EXPECT_EQ(text_of<cxx17::InvalidArgument>([&] {
                job.alltoall(x, x, {"t", {1, 2}});
              }),
              "alltoall 't': 2 splits were given for 3 ranks");
    job.allreduce(x, {"even"});  // the job continues
    job.shutdown();
    EXPECT_EQ(job.rank(), -1);
    EXPECT_THROW(job.barrier(), cxx17::InvalidArgument);
    job.shutdown();
  });
}

TEST(Cxx17Errors, OfACallbackLeaveJoin) {
  on_ranks(2, [](cxx17::Context& job) {
    std::vector<float> w(2, 1);
    cxx17::GradientSyncOptions options;
    options.weighted = true;
    cxx17::GradientSync sync(job, {{"w", w}}, options);
    if (job.rank() == 0)
      sync.exchange();
    else
      EXPECT_THROW(sync.join([](const cxx17::StepReport&) { throw std::out_of_range("planted"); }),
                   std::out_of_range);
    job.barrier();
  });
}

TEST(Cxx17Handles, CallbacksGetTheError) {
  on_ranks(2, [](cxx17::Context& job) {
    std::vector<float> x(job.rank() == 0 ? 1 : 2);
    std::atomic<int> good = 0, mismatches = 0;
    const auto count = [&](const std::exception_ptr& error) {
      if (error == nullptr) {
        ++good;
        return;
      }
      try {
        std::rethrow_exception(error);
      } catch (const cxx17::MismatchError&) {
        ++mismatches;
      }
    };
    cxx17::Handle uneven = job.allreduce_async(x, {"uneven"});
    uneven.then(count);
    EXPECT_THROW(uneven.wait(), cxx17::MismatchError);
    cxx17::Handle even = job.allreduce_async(cxx17::TensorView(x.data(), {1}), {"even"});
    even.then(count);
    even.wait();
    while (good + mismatches < 2) std::this_thread::yield();
    EXPECT_EQ(good, 1);
    EXPECT_EQ(mismatches, 1);
    EXPECT_THROW(even.then(count), cxx17::InvalidArgument);
    EXPECT_TRUE(cxx17::Handle().is_done());
  });
}

TEST(Cxx17Sets, HaveOperationsOfTheirOwn) {
  on_ranks(3, [](cxx17::Context& job) {
    cxx17::ProcessSet set = job.new_process_set({0, 2});
    EXPECT_EQ(set.size(), 2);
    EXPECT_EQ(set.includes_me(), job.rank() != 1);
    float x = 1;
    if (set.includes_me()) {
      set.allreduce(cxx17::TensorView(&x, {1}), {"x", ReduceOp::kSum});
      EXPECT_EQ(x, 2);
      EXPECT_EQ(set.rank(), job.rank() / 2);
    } else {
      EXPECT_THROW(set.barrier(), cxx17::InvalidArgument);
    }
    set.close();
    cxx17::TraceScope phase = job.phase("forward");
    { const cxx17::TraceScope pause = job.pause("checkpoint"); }
    phase.end();
    phase.end();
  });
}

TEST(Cxx17Views, HaveTheTypeAndShapeOfTheirMemory) {
  std::vector<std::int16_t> values(6);
  const std::vector<double> constant(2);
  const cxx17::TensorView vector(values), matrix(values.data(), {2, 3});
  EXPECT_EQ(vector.type(), cxx17::DataType::kInt16);
  EXPECT_EQ(vector.shape(), cxx17::Shape{6});
  EXPECT_EQ(matrix.count(), 6U);
  EXPECT_EQ(matrix.data(), values.data());
  EXPECT_EQ(cxx17::ConstTensorView(constant).type(), cxx17::DataType::kFloat64);
  EXPECT_EQ(cxx17::TensorView(values.data(), cxx17::DataType::kFloat16, {6}).c_type(),
            HORO_FLOAT16);
  EXPECT_EQ(cxx17::TensorView().count(), 0U);
  // Views of constant memory are read only, and views of temporaries do not compile.
  static_assert(!std::is_constructible_v<cxx17::TensorView, const std::vector<double>&>);
  static_assert(!std::is_constructible_v<cxx17::ConstTensorView, std::vector<double>>);
  static_assert(!std::is_constructible_v<cxx17::TensorView, std::vector<bool>&>);
  static_assert(!std::is_copy_constructible_v<cxx17::Context>);
}

}  // namespace
