#include "examples/benchmarks/collective_trial.h"

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "examples/benchmarks/bench_values.h"
#include "horo/mpi.h"

namespace horo::bench {

namespace {

constexpr const char* kVariable = "HORO_ALGORITHM";

// Sets a variable of the environment and restores its previous value.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

// All algorithms run in one job, each with its own context, so that they can be measured in turn.
AlgorithmContexts::AlgorithmContexts(Context& first, const std::vector<std::string>& algorithms)
    : first_(first) {
  if (algorithms.empty()) names_ = {"horo"};
  for (const std::string& algorithm : algorithms) {
    // A context reads its settings when it is made, and no other thread reads the environment.
    const ScopedVariable setting(kVariable, algorithm);
    contexts_.push_back(init(MPI_COMM_WORLD));
    names_.push_back("horo_" + algorithm);
  }
}

namespace {

float sum(float a, float b) { return a + b; }
float product(float a, float b) { return a * b; }
float least(float a, float b) { return std::min(a, b); }
float greatest(float a, float b) { return std::max(a, b); }

template <typename Half, float (*Combine)(float, float)>
void combine_halves(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* from = static_cast<const Half*>(in);
  auto* to = static_cast<Half*>(inout);
  for (int i = 0; i < *count; ++i)
    to[i] = Half(Combine(static_cast<float>(from[i]), static_cast<float>(to[i])));
}

template <typename Half>
MPI_User_function* half_function(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return combine_halves<Half, least>;
    case ReduceOp::kMax:
      return combine_halves<Half, greatest>;
    case ReduceOp::kProduct:
      return combine_halves<Half, product>;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:  // not offered
      break;
  }
  return combine_halves<Half, sum>;
}

MPI_Op built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
    case ReduceOp::kProduct:
      return MPI_PROD;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum:  // not offered
      break;
  }
  return MPI_SUM;
}

}  // namespace

MPI_Datatype mpi_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return MPI_DOUBLE;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return MPI_UINT16_T;
    case DataType::kInt8:
      return MPI_INT8_T;
    case DataType::kUInt8:
    case DataType::kBool:
      return MPI_UINT8_T;
    case DataType::kInt16:
      return MPI_INT16_T;
    case DataType::kUInt16:
      return MPI_UINT16_T;
    case DataType::kInt32:
      return MPI_INT32_T;
    case DataType::kInt64:
      return MPI_INT64_T;
    case DataType::kFloat32:
      break;
  }
  return MPI_FLOAT;
}

// MPI has no 16-bit floats, so their operations are user-defined functions. MPI has no average
// either: its sum is compared with the average of horo.
MpiOperation::MpiOperation(DataType type, ReduceOp op) : op_(built_in(op)) {
  is_own_ = type == DataType::kFloat16 || type == DataType::kBFloat16;
  if (!is_own_) return;
  MPI_Op_create(
      type == DataType::kFloat16 ? half_function<Float16>(op) : half_function<BFloat16>(op), 1,
      &op_);
}

MpiOperation::~MpiOperation() {
  if (is_own_) MPI_Op_free(&op_);
}

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"allreduce", "reduce_scatter", "allgather",
                                         "broadcast", "alltoall",       "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_reducing(CollectiveKind kind) {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kReduceScatter;
}

double bus_factor(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::kAllreduce:
      return 2 * others;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllgather:
    case CollectiveKind::kAlltoall:
      return others;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kBarrier:
      break;
  }
  return 1;
}

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

// The checks run before the measurement, and the values are zero during it: repeated sums of other
// values would overflow.
void CollectiveTrial::check_all() {
  for (const Contender& contender : contenders_) {
    fill();
    contender.run();
    check(contender.name);
  }
  fill_zeros(in());
}

}  // namespace horo::bench
