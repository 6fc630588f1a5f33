#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/compression/bucket_compressor.h"
#include "horo/base/compression.h"
#include "horo/base/compression_report.h"
#include "horo/base/topology.h"
#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/compression_state.h"

namespace horo::coordinator {

/// Which buckets of a plan are compressed, and what compression keeps from step to step. The
/// buckets of a step are exchanged by one thread at a time; everything else is for between steps.
class CompressedPlan {
 public:
  /// Of float32 gradients; a bucket in which nothing is worth compressing is left to others.
  CompressedPlan(std::span<const NamedTensor> gradients, const BucketPlan& plan,
                 const Compression& compression, const Topology& topology);

  bool covers(std::size_t bucket) const { return compressors_[bucket] != nullptr; }
  /// Reduces a bucket that is covered; `buffer` is the whole of it. Collective.
  void allreduce(std::size_t bucket, const collectives::ScatteredBuffer& buffer,
                 collectives::Collectives& collectives, ReduceOp op);
  /// Every bucket of the step has been exchanged.
  void end_step();
  /// Counts on from `former`, which packs the same gradients otherwise. Where nothing is
  /// compressed.
  void go_on_from(const CompressedPlan& former);

  const CompressionReport& report() const { return report_; }
  std::vector<std::byte> save_state() const;
  /// Collective. Throws on every rank alike, and changes nothing on any, if a rank's bytes are not
  /// its state (InvalidArgument, naming the rank) or the states are not of one step
  /// (MismatchError).
  void load_state(std::span<const std::byte> bytes, collectives::Collectives& collectives,
                  const Topology& topology);

 private:
  std::size_t value_count() const;
  std::uint64_t shared_signature(const CompressionState& state) const;
  // The parts of each gradient's memory, in the order of registration.
  std::vector<collectives::BucketCompressor::Memory> memories() const;

  std::uint64_t start_step_;
  int ranks_;
  std::vector<std::string> identity_;
  BucketPlan plan_;
  std::vector<std::size_t> bucket_bytes_;
  std::vector<std::unique_ptr<collectives::BucketCompressor>> compressors_;  // null: not covered
  bool covers_any_ = false;
  CompressionFigures uncompressed_step_;  // of a step in which nothing is compressed
  std::uint64_t step_ = 0;
  CompressionReport report_;
};

}  // namespace horo::coordinator
