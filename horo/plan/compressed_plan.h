#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/compression/bucket_compressor.h"
#include "horo/base/compression.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/compression_state.h"

namespace horo::plan {

/// Compresses the buckets of a plan, keeps residuals and factors from step to step, and counts
/// bytes (CompressionReport). If the options request no compression, the object covers no bucket
/// and only counts bytes.
class CompressedPlan {
 public:
  /// A bucket is covered if its gradients are float32, the bucket has at least one value, and the
  /// compression applies to at least one of the gradients. Top-k and int8 apply to every gradient,
  /// and PowerSGD to those for which PowerSgd::compresses() returns true.
  CompressedPlan(std::span<const NamedTensor> gradients, const BucketPlan& plan,
                 const Compression& compression, const Topology& topology);

  bool covers(std::size_t bucket) const { return compressors_[bucket] != nullptr; }
  /// Reduces a covered bucket, without compression in the first compression.start_step steps.
  /// `buffer` must consist of the gradients of the bucket. Collective.
  void allreduce(std::size_t bucket, const collectives::ScatteredBuffer& buffer,
                 collectives::Collectives& collectives, ReduceOp op);

  // The caller must call report(), save_state() and load_state() while no bucket is exchanged.
  const CompressionReport& report() const { return report_; }
  /// Returns the encoded state of this rank. Not collective.
  std::vector<std::byte> save_state() const;
  /// Continues from a saved state. Collective. If a rank passes `bytes` that are not a state of
  /// this plan on that rank, throws InvalidArgument with the name of the lowest such rank. If the
  /// steps or the factors in the states differ between ranks, throws MismatchError. Every rank
  /// throws the same error, and these errors leave the state of every rank unchanged.
  void load_state(std::span<const std::byte> bytes, collectives::Collectives& collectives,
                  const Topology& topology);

  /// Counts a step whose buckets have been reduced.
  void count_step();
  /// Replaces the plan from the next step on. Requires that no bucket is covered, because
  /// residuals and factors would be lost.
  void repack(const BucketPlan& plan);

 private:
  std::size_t value_count() const;
  std::uint64_t shared_signature(const CompressionState& state) const;
  std::vector<collectives::BucketCompressor::Memory> memories() const;

  std::vector<NamedTensor> gradients_;
  Compression compression_;
  int rank_;
  int ranks_;
  std::vector<std::string> identity_;
  BucketPlan plan_;
  std::vector<std::size_t> bucket_bytes_;
  std::vector<std::unique_ptr<collectives::BucketCompressor>> compressors_;  // null if not covered
  bool covers_any_ = false;
  CompressionFigures uncompressed_step_;  // the figures of a step without compression
  std::uint64_t step_ = 0;
  CompressionReport report_;
};

}  // namespace horo::plan
