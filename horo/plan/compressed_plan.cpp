#include "horo/plan/compressed_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/agreement.h"
#include "collectives/compression/block_int8.h"
#include "collectives/compression/power_sgd.h"
#include "collectives/compression/top_k.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"

namespace horo::plan {
namespace {

using collectives::BlockInt8;
using collectives::BucketCompressor;
using collectives::BucketTensor;
using collectives::PowerSgd;
using collectives::TopK;

// See BucketTensor. A scalar has one row. The key depends only on the name of the gradient, so it
// is the same on all ranks.
BucketTensor as_matrix(const NamedTensor& gradient) {
  const std::vector<std::size_t>& dimensions = gradient.tensor.shape().dimensions();
  const std::size_t rows = dimensions.empty() ? 1 : dimensions[0];
  return {static_cast<float*>(gradient.tensor.data()), rows,
          rows == 0 ? 0 : gradient.tensor.count() / rows, Hash().add(gradient.name).value()};
}

// Returns null if PowerSGD would compress none of the tensors. Whether the result is null depends
// only on shapes and options, so all ranks cover the same buckets.
std::unique_ptr<BucketCompressor> make_compressor(std::vector<BucketTensor> tensors,
                                                  const Compression& compression, int rank,
                                                  int ranks) {
  if (compression.kind == Compression::Kind::kTopK)
    return std::make_unique<TopK>(std::move(tensors), compression.fraction,
                                  compression.error_feedback, rank, ranks);
  if (compression.kind == Compression::Kind::kInt8)
    return std::make_unique<BlockInt8>(std::move(tensors), compression.error_feedback, rank, ranks);
  const PowerSgd::Options options{compression.rank, compression.min_compression_rate,
                                  compression.warm_start, compression.error_feedback,
                                  compression.seed};
  if (std::ranges::none_of(tensors, [&](const BucketTensor& tensor) {
        return PowerSgd::compresses(tensor.rows, tensor.columns, options);
      }))
    return nullptr;
  return std::make_unique<PowerSgd>(std::move(tensors), options, ranks);
}

// Returns the identity of a state (CompressionState). It contains the rank, because residuals
// differ between ranks. It does not contain the buckets, because the state does not depend on them.
std::vector<std::string> identify(std::span<const NamedTensor> gradients,
                                  const Compression& compression, const Topology& topology) {
  std::vector<std::string> identity = describe_compression(compression);
  identity.push_back(fmt::format("rank {} of {}", topology.rank, topology.size));
  for (const NamedTensor& gradient : gradients)
    identity.push_back(fmt::format("gradient {} {} {}", gradient.name,
                                   horo::name_of(gradient.tensor.type()),
                                   gradient.tensor.shape().to_string()));
  return identity;
}

}  // namespace

CompressedPlan::CompressedPlan(std::span<const NamedTensor> gradients, const BucketPlan& plan,
                               const Compression& compression, const Topology& topology)
    : gradients_(gradients.begin(), gradients.end()),
      compression_(compression),
      rank_(topology.rank),
      ranks_(topology.size),
      identity_(identify(gradients, compression, topology)) {
  repack(plan);
}

// The constructor also calls this function.
void CompressedPlan::repack(const BucketPlan& plan) {
  plan_ = plan;
  bucket_bytes_.clear();
  compressors_.clear();
  uncompressed_step_ = {};
  for (const std::vector<std::size_t>& members : plan_.buckets) {
    std::vector<BucketTensor> tensors;
    std::size_t bytes = 0;
    for (const std::size_t i : members) {
      tensors.push_back(as_matrix(gradients_[i]));
      bytes += gradients_[i].tensor.bytes();
    }
    const bool may_compress = compression_.kind != Compression::Kind::kNone && bytes > 0 &&
                              gradients_[members.front()].tensor.type() == DataType::kFloat32;
    compressors_.push_back(
        may_compress ? make_compressor(std::move(tensors), compression_, rank_, ranks_) : nullptr);
    bucket_bytes_.push_back(bytes);
    covers_any_ = covers_any_ || compressors_.back() != nullptr;
    const std::uint64_t sent = collectives::ring_bytes(bytes, ranks_);
    uncompressed_step_ += {.bytes_sent = sent, .bytes_uncompressed = sent};
  }
}

// step_ is equal on all ranks, so all ranks start to compress in the same step.
void CompressedPlan::allreduce(std::size_t bucket, const collectives::ScatteredBuffer& buffer,
                               collectives::Collectives& collectives, ReduceOp op) {
  if (step_ < compression_.start_step)
    collectives.allreduce(buffer, op);
  else
    compressors_[bucket]->allreduce(collectives, op, step_);
}

// Called once per step, after the last bucket, so step_ is the same for all buckets of a step. Not
// called in a skipped step. For an uncompressed bucket, adds the bytes that a ring would send,
// because the compressors also count bytes as a ring sends them.
void CompressedPlan::count_step() {
  if (!covers_any_ || step_ < compression_.start_step) {
    report_.latest_step = uncompressed_step_;
    report_.total.bytes_sent += uncompressed_step_.bytes_sent;
    report_.total.bytes_uncompressed += uncompressed_step_.bytes_uncompressed;
    ++step_;
    return;
  }
  report_.latest_step = {};
  for (std::size_t b = 0; b < compressors_.size(); ++b) {
    if (covers(b)) {
      report_.latest_step += compressors_[b]->figures();
    } else {
      const std::uint64_t bytes = collectives::ring_bytes(bucket_bytes_[b], ranks_);
      report_.latest_step += {.bytes_sent = bytes, .bytes_uncompressed = bytes};
    }
  }
  report_.total += report_.latest_step;
  ++step_;
}

// Returns the residual and the factor of each gradient. The order is that of registration, so saved
// states do not depend on the buckets. Both spans of a gradient that is not compressed are empty.
std::vector<BucketCompressor::Memory> CompressedPlan::memories() const {
  std::vector<BucketCompressor::Memory> memories(plan_.bucket_of.size());
  for (std::size_t b = 0; b < compressors_.size(); ++b)
    for (std::size_t t = 0; covers(b) && t < plan_.buckets[b].size(); ++t)
      memories[plan_.buckets[b][t]] = compressors_[b]->memory_of(t);
  return memories;
}

std::size_t CompressedPlan::value_count() const {
  std::size_t count = 0;
  for (const auto& [residual, factor] : memories()) count += residual.size() + factor.size();
  return count;
}

std::vector<std::byte> CompressedPlan::save_state() const {
  CompressionState state{.identity = identity_, .step = step_};
  state.values.reserve(value_count());
  const auto append = [&state](std::span<const float> part) {
    state.values.insert(state.values.end(), part.begin(), part.end());
  };
  for (const auto& [residual, factor] : memories()) {
    append(residual);
    append(factor);
  }
  return encode_state(state);
}

// The signature covers the values that must be equal on all ranks: the step and the factors, but
// not the residuals.
std::uint64_t CompressedPlan::shared_signature(const CompressionState& state) const {
  Hash hash;
  hash.add(state.step);
  const float* at = state.values.data();
  for (const auto& [residual, factor] : memories()) {
    hash.add_bytes(at + residual.size(), factor.size_bytes());
    at += residual.size() + factor.size();
  }
  return hash.value();
}

// No rank changes its state before every rank has checked its bytes and all ranks have compared
// their states. A rank whose bytes are invalid still takes part in gather_all(), so that all ranks
// throw the same error.
void CompressedPlan::load_state(std::span<const std::byte> bytes,
                                collectives::Collectives& collectives, const Topology& topology) {
  CompressionState loaded;
  std::string problem;
  try {
    loaded = decode_state(bytes, identity_, value_count());
  } catch (const InvalidArgument& error) {
    problem = error.what();
  }
  const auto problems =
      collectives::gather_all(std::as_bytes(std::span(problem)), collectives, topology);
  for (std::size_t r = 0; r < problems.size(); ++r)
    if (!problems[r].empty())
      throw InvalidArgument(fmt::format(
          "load_compression_state: {}: {}", topology.describe(static_cast<int>(r)),
          std::string_view(reinterpret_cast<const char*>(problems[r].data()), problems[r].size())));
  if (!collectives::all_equal(shared_signature(loaded), collectives))
    throw MismatchError(
        "load_compression_state: the states of the ranks are from different steps or runs; load "
        "the states that all ranks saved in the same step");
  const float* at = loaded.values.data();
  for (const auto& [residual, factor] : memories()) {
    std::copy_n(at, residual.size(), residual.begin());
    std::copy_n(at + residual.size(), factor.size(), factor.begin());
    at += residual.size() + factor.size();
  }
  step_ = loaded.step;
}

}  // namespace horo::plan
