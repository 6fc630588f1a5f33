#include "examples/benchmarks/collective_trial.h"

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <numeric>

#include "examples/benchmarks/bench_values.h"

namespace horo::bench {
namespace {

constexpr int kRoot = 0;

std::vector<std::uint64_t> words_for(std::size_t bytes) {
  return std::vector<std::uint64_t>((bytes + 7) / 8 + 1);
}

}  // namespace

CollectiveTrial::CollectiveTrial(AlgorithmContexts& contexts, const CollectiveCase& what)
    : what_(what),
      rank_(contexts.context(0).rank()),
      size_(contexts.context(0).size()),
      operation_(what.type, what.op) {
  for (int r = 0; r < size_; ++r) {
    counts_.push_back(static_cast<int>(share(r)));
    offsets_.push_back(static_cast<int>(offset(r)));
  }
  switch (what_.kind) {
    case CollectiveKind::kAllreduce:
    case CollectiveKind::kBroadcast:
      in_count_ = what_.count;
      break;
    case CollectiveKind::kReduceScatter:
      in_count_ = what_.count;
      out_count_ = share(rank_);
      break;
    case CollectiveKind::kAllgather:
      in_count_ = share(rank_);
      out_count_ = what_.count;
      break;
    case CollectiveKind::kAlltoall:
      in_count_ = what_.count;
      out_count_ = share(rank_) * static_cast<std::size_t>(size_);
      break;
    case CollectiveKind::kBarrier:
      break;
  }
  in_ = words_for(in_count_ * size_of(what_.type));
  out_ = words_for(out_count_ * size_of(what_.type));
  for (std::size_t i = 0; i < contexts.size(); ++i) add_horo(contexts.context(i), contexts.name(i));
  contenders_.push_back({"mpi", [this] { run_mpi(); }});
}

std::size_t CollectiveTrial::share(int rank) const {
  const auto size = static_cast<std::size_t>(size_);
  return what_.count / size + (static_cast<std::size_t>(rank) < what_.count % size ? 1 : 0);
}

std::size_t CollectiveTrial::offset(int rank) const {
  std::size_t before = 0;
  for (int r = 0; r < rank; ++r) before += share(r);
  return before;
}

TensorView CollectiveTrial::in() { return {in_.data(), what_.type, {in_count_}}; }
TensorView CollectiveTrial::out() { return {out_.data(), what_.type, {out_count_}}; }

void CollectiveTrial::add_horo(Context& context, const std::string& name) {
  Context* ctx = &context;
  switch (what_.kind) {
    case CollectiveKind::kAllreduce: {
      const std::vector<NamedTensor> tensors = {{"x", in()}};
      plans_.push_back(
          std::make_unique<GradientSync>(context, tensors, GradientSyncOptions{.op = what_.op}));
      contenders_.push_back({name, [plan = plans_.back().get()] { plan->exchange(); }});
      return;
    }
    case CollectiveKind::kReduceScatter:
      contenders_.push_back({name, [this, ctx] {
                               ctx->reduce_scatter(in(), out(), {.name = "bench", .op = what_.op});
                             }});
      return;
    case CollectiveKind::kAllgather:
      contenders_.push_back(
          {name, [this, ctx] { ctx->allgather(in(), out(), {.name = "bench"}); }});
      return;
    case CollectiveKind::kBroadcast:
      contenders_.push_back(
          {name, [this, ctx] { ctx->broadcast(in(), {.name = "bench", .root = kRoot}); }});
      return;
    case CollectiveKind::kAlltoall:
      contenders_.push_back({name, [this, ctx] { ctx->alltoall(in(), out(), {.name = "bench"}); }});
      return;
    case CollectiveKind::kBarrier:
      contenders_.push_back({name, [ctx] { ctx->barrier({.name = "bench"}); }});
      return;
  }
}

void CollectiveTrial::run_mpi() {
  const MPI_Datatype type = mpi_type_of(what_.type);
  const int count = static_cast<int>(what_.count);
  switch (what_.kind) {
    case CollectiveKind::kAllreduce:
      MPI_Allreduce(MPI_IN_PLACE, in_.data(), count, type, operation_.get(), MPI_COMM_WORLD);
      return;
    case CollectiveKind::kReduceScatter:
      MPI_Reduce_scatter(in_.data(), out_.data(), counts_.data(), type, operation_.get(),
                         MPI_COMM_WORLD);
      return;
    case CollectiveKind::kAllgather:
      MPI_Allgatherv(in_.data(), static_cast<int>(in_count_), type, out_.data(), counts_.data(),
                     offsets_.data(), type, MPI_COMM_WORLD);
      return;
    case CollectiveKind::kBroadcast:
      MPI_Bcast(in_.data(), count, type, kRoot, MPI_COMM_WORLD);
      return;
    case CollectiveKind::kAlltoall: {
      const int mine = counts_[static_cast<std::size_t>(rank_)];
      const std::vector<int> received(counts_.size(), mine);
      std::vector<int> places(counts_.size());
      for (std::size_t r = 1; r < places.size(); ++r) places[r] = places[r - 1] + mine;
      MPI_Alltoallv(in_.data(), counts_.data(), offsets_.data(), type, out_.data(), received.data(),
                    places.data(), type, MPI_COMM_WORLD);
      return;
    }
    case CollectiveKind::kBarrier:
      MPI_Barrier(MPI_COMM_WORLD);
      return;
  }
}

void CollectiveTrial::fill() {
  fill_zeros(out());
  if (is_reducing(what_.kind))
    fill_values(in(), rank_, what_.op);
  else
    fill_bytes(in(), rank_, 0);
}

void CollectiveTrial::check(const std::string& who) {
  const std::string what =
      fmt::format("{} of {} by {}", name_of(what_.kind), horo::name_of(what_.type), who);
  const ReduceOp op = who == "mpi" && what_.op == ReduceOp::kAverage ? ReduceOp::kSum : what_.op;
  const std::size_t width = size_of(what_.type);
  switch (what_.kind) {
    case CollectiveKind::kAllreduce:
      return check_values(in(), 0, size_, op, what);
    case CollectiveKind::kReduceScatter:
      return check_values(out(), offset(rank_), size_, op, what);
    case CollectiveKind::kAllgather:
      for (int r = 0; r < size_; ++r)
        check_bytes(out(), offset(r) * width, share(r) * width, r, 0, what);
      return;
    case CollectiveKind::kBroadcast:
      return check_bytes(in(), 0, in().bytes(), kRoot, 0, what);
    case CollectiveKind::kAlltoall: {
      const std::size_t block = share(rank_) * width;
      for (int r = 0; r < size_; ++r)
        check_bytes(out(), static_cast<std::size_t>(r) * block, block, r, offset(rank_) * width,
                    what);
      return;
    }
    case CollectiveKind::kBarrier:
      return;
  }
}

void CollectiveTrial::check_all() {
  for (const Contender& contender : contenders_) {
    fill();
    contender.run();
    check(contender.name);
  }
  fill_zeros(in());
}

}  // namespace horo::bench
