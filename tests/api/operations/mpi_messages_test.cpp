// send() and recv() between processes, on one node and on emulated nodes.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <cstring>

#include "horo/horo.h"
#include "horo/mpi.h"

namespace horo {
namespace {

class MpiMessages : public ::testing::TestWithParam<const char*> {
 protected:
  MpiMessages() { setenv("HORO_RANKS_PER_NODE", GetParam(), 1); }
  ~MpiMessages() override { unsetenv("HORO_RANKS_PER_NODE"); }
};
INSTANTIATE_TEST_SUITE_P(Nodes, MpiMessages, ::testing::Values("0", "1", "2"));

std::vector<double> mpi_message_values(int from, int to, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = from * 1e6 + to * 1e5 + static_cast<double>(i);
  return values;
}

TEST_P(MpiMessages, ArriveBetweenAllPairsInAnyOrder) {
  Context ctx = init(MPI_COMM_WORLD);
  const auto size = static_cast<std::size_t>(ctx.size());
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{257}, std::size_t{300001}}) {
    std::vector<std::vector<double>> sent, received(size, std::vector<double>(count, -1));
    std::vector<Handle> handles;
    for (std::size_t p = 0; p < size; ++p)
      sent.push_back(mpi_message_values(ctx.rank(), static_cast<int>(p), count));
    for (std::size_t p = 0; p < size; ++p) {
      const std::size_t back = size - 1 - p;
      handles.push_back(ctx.send_async(TensorView(sent[p]), {.to = static_cast<int>(p)}));
      handles.push_back(
          ctx.recv_async(TensorView(received[back]), {.from = static_cast<int>(back)}));
    }
    for (const Handle& handle : handles) handle.wait();
    for (std::size_t p = 0; p < size; ++p)
      ASSERT_EQ(received[p], mpi_message_values(static_cast<int>(p), ctx.rank(), count));
  }
}

TEST_P(MpiMessages, PassAroundARing) {
  Context ctx = init(MPI_COMM_WORLD);
  std::vector<double> x(5000, 0);
  const int previous = (ctx.rank() + ctx.size() - 1) % ctx.size();
  const Handle received = ctx.recv_async(TensorView(x), {.name = "ring", .from = previous});
  std::vector<double> own(5000);
  if (ctx.rank() != 0) {
    received.wait();
    own = x;
  }
  own[4999] += ctx.rank() + 1;
  ctx.send(TensorView(own), {.name = "ring", .to = (ctx.rank() + 1) % ctx.size()});
  received.wait();
  if (ctx.rank() == 0) {
    EXPECT_EQ(x[4999], ctx.size() * (ctx.size() + 1) / 2);
  }
}

TEST_P(MpiMessages, MismatchIsTheSameOnBothRanks) {
  Context ctx = init(MPI_COMM_WORLD);
  if (ctx.size() == 1) return;
  std::vector<double> x(20000), y(3);
  std::string text;
  try {
    if (ctx.rank() == 0) ctx.send(TensorView(x), {.name = "x", .to = 1});
    if (ctx.rank() == 1) ctx.recv(TensorView(y), {.name = "x", .from = 0});
  } catch (const MismatchError& error) {
    text = error.what();
  }
  EXPECT_EQ(text.empty(), ctx.rank() > 1);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  const auto texts = ctx.allgather_object(bytes);
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_P(MpiMessages, WorkInProcessSets) {
  Context ctx = init(MPI_COMM_WORLD);
  const int last = ctx.size() - 1;
  if (last == 0) return;
  ProcessSet ends = ctx.new_process_set({0, last});
  if (!ends.includes_me()) return;
  const int peer = 1 - ends.rank();
  std::vector<double> out = mpi_message_values(ends.rank(), peer, 40000), in(out.size());
  const Handle sent = ends.send_async(TensorView(out), {.name = "x", .to = peer});
  ends.recv(TensorView(in), {.name = "x", .from = peer});
  sent.wait();
  EXPECT_EQ(in, mpi_message_values(peer, ends.rank(), 40000));
}

}  // namespace
}  // namespace horo
