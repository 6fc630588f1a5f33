#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/compression/bucket_compressor.h"

namespace horo::collectives {

/// 8-bit quantisation in blocks. A tensor is divided into blocks of kBlock values, its last block
/// may be shorter, and a block is sent as its largest magnitude / 127 and one int8 per value. The
/// blocks of a tensor are owned by the ranks in turn. A step has two parts:
///   1. alltoall: each rank sends its blocks, each with its own scale, to their owners. The owner
///      adds the values in float32, in rank order, and divides by the number of ranks for an
///      average.
///   2. allgather: the owner quantises the results again, with one scale that all ranks use, and
///      sends them to all ranks.
/// With error feedback, the residual of a rank is what rounding has removed from its values, and on
/// the owner also what it has removed from the result. The mean of the results over many steps
/// therefore converges to that of the exact results. Results do not depend on how tensors are
/// packed into buckets. Sources: error feedback of Karimireddy et al.,
/// "Error feedback fixes SignSGD" (2019); the two parts of Tang et al., "DoubleSqueeze" (2019).
///
/// Cost per bucket of N values on n ranks: each rank sends about 2 (n-1)/n N bytes, and 4 bytes for
/// each block, instead of 8 (n-1)/n N bytes in a ring; two messages to each other rank; four passes
/// over the values. Memory: 2 N bytes for messages and, with error feedback, the residual.
///
/// If a value of any rank is not finite, the result of its block is NaN on all ranks, and the
/// residuals of the bucket stay unchanged on all ranks.
class BlockInt8 final : public BucketCompressor {
 public:
  static constexpr std::size_t kBlock = 256;

  BlockInt8(std::vector<BucketTensor> tensors, bool error_feedback, int rank, int ranks);

  void allreduce(Collectives& collectives, ReduceOp op, std::uint64_t step) override;
  Memory memory_of(std::size_t tensor) override;

 private:
  struct Block {
    float* values;
    float* residual;  ///< null without error feedback
    std::size_t count;
    int owner;
    std::size_t at = 0;  ///< of its bytes in a message with all blocks
  };
  std::span<const Block> owned_by(int rank) const;
  void quantise_own();
  void reduce_owned(ReduceOp op);
  void keep_lost(ReduceOp op);
  bool is_all_finite() const;
  void keep_rest(const Block& block);
  void use_result(const Block& block);

  const bool error_feedback_;
  const int rank_, ranks_;
  std::vector<std::vector<float>> residuals_;  // of each tensor
  std::vector<Block> blocks_;                  // by owner
  std::vector<std::size_t> first_of_;  // [rank]: the first block that it owns; [ranks]: the end
  std::size_t value_bytes_ = 0;
  std::vector<std::byte> own_;       // all blocks of this rank
  std::vector<std::byte> received_;  // the owned blocks of all ranks, by rank
  std::vector<std::byte> result_;    // all blocks
  std::vector<float> lost_;          // of the owned results: what rounding removed
};

}  // namespace horo::collectives
