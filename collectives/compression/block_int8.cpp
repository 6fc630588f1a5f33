#include "collectives/compression/block_int8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "collectives/compression/lane_sum.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {
namespace {

constexpr float kLargest = 127;

// The scale of a block and its values, rounded up to whole floats.
std::size_t encoded_bytes(std::size_t values) {
  return sizeof(float) + round_up(values, sizeof(float));
}

float scale_of(const std::byte* encoded) {
  float scale;
  std::memcpy(&scale, encoded, sizeof scale);
  return scale;
}

const std::int8_t* steps_of(const std::byte* encoded) {
  return reinterpret_cast<const std::int8_t*>(encoded + sizeof(float));
}

// The scale is NaN if a value is not finite. It is 0 if all values are 0 or so small that their
// scale is no float; they then count as 0.
void encode(std::span<const float> values, std::byte* encoded) {
  // The largest bits of magnitudes: an integer maximum is vectorised, and NaN counts as the
  // largest.
  std::uint32_t largest = 0;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  const float scale =
      std::isfinite(magnitude) ? magnitude / kLargest : std::numeric_limits<float>::quiet_NaN();
  std::memcpy(encoded, &scale, sizeof scale);
  auto* const steps = reinterpret_cast<std::int8_t*>(encoded + sizeof scale);
  // 1 / scale may be infinite, so that the values are divided.
  if (!(scale > 0)) {
    std::fill_n(steps, values.size(), std::int8_t{0});
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float step = values[i] / scale;
    const float rounded = std::clamp(step + (step < 0 ? -0.5f : 0.5f), -kLargest, kLargest);
    steps[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(rounded));
  }
}

/// `Blocks` is a range of BlockInt8::Block.
template <typename Blocks>
std::size_t encoded_bytes_of(const Blocks& blocks) {
  std::size_t bytes = 0;
  for (const auto& block : blocks) bytes += encoded_bytes(block.count);
  return bytes;
}

}  // namespace

// The owner of a block depends only on its tensor, so that the residuals of a rank, and with them
// the results, do not depend on the bucket.
BlockInt8::BlockInt8(std::vector<BucketTensor> tensors, bool error_feedback, int rank, int ranks)
    : error_feedback_(error_feedback), rank_(rank), ranks_(ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  for (const BucketTensor& tensor : tensors) {
    auto& residual = residuals_.emplace_back(error_feedback ? tensor.count() : 0);
    std::uint64_t owner = tensor.key % n;
    for (std::size_t first = 0; first < tensor.count(); first += kBlock, owner = (owner + 1) % n)
      blocks_.push_back({tensor.values + first, error_feedback ? residual.data() + first : nullptr,
                         std::min(kBlock, tensor.count() - first), static_cast<int>(owner)});
    value_bytes_ += tensor.span().size_bytes();
  }
  std::ranges::stable_sort(blocks_, {}, &Block::owner);
  std::size_t bytes = 0, lost = 0;
  for (Block& block : blocks_) {
    block.at = bytes;
    bytes += encoded_bytes(block.count);
    if (block.owner == rank) lost += block.count;
  }
  for (int owner = 0; owner <= ranks; ++owner)
    first_of_.push_back(static_cast<std::size_t>(
        std::ranges::lower_bound(blocks_, owner, {}, &Block::owner) - blocks_.begin()));
  own_.resize(bytes);
  result_.resize(bytes);
  received_.resize(encoded_bytes_of(owned_by(rank)) * n);
  lost_.resize(lost);
}

std::span<const BlockInt8::Block> BlockInt8::owned_by(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return std::span(blocks_).subspan(first_of_[r], first_of_[r + 1] - first_of_[r]);
}

void BlockInt8::allreduce(Collectives& collectives, ReduceOp op, std::uint64_t) {
  const auto n = static_cast<std::size_t>(ranks_);
  std::vector<std::size_t> bytes_to;
  for (int rank = 0; rank < ranks_; ++rank) bytes_to.push_back(encoded_bytes_of(owned_by(rank)));
  const auto owned = owned_by(rank_);
  const std::size_t owned_bytes = bytes_to[static_cast<std::size_t>(rank_)];
  const std::size_t at = owned.empty() ? 0 : owned.front().at;
  figures_ = {.bytes_sent = own_.size() - owned_bytes + (n - 1) * owned_bytes,
              .bytes_uncompressed = ring_bytes(value_bytes_, ranks_)};
  quantise_own();
  collectives.alltoall(own_, bytes_to, received_, std::vector<std::size_t>(n, owned_bytes));
  reduce_owned(op);
  collectives.allgather(std::span(result_).subspan(at, owned_bytes), bytes_to, result_);
  // All ranks have the same scales of results and therefore take the same branch.
  if (is_all_finite()) {
    for (const Block& block : blocks_) keep_rest(block);
    if (error_feedback_) keep_lost(op);
  } else {
    ++figures_.non_finite;
  }
  for (const Block& block : blocks_) use_result(block);
}

bool BlockInt8::is_all_finite() const {
  return std::ranges::all_of(blocks_, [&](const Block& block) {
    return std::isfinite(scale_of(result_.data() + block.at));
  });
}

// The owner adds what it has lost to its own values of the next step. For an average, these are
// divided by the number of ranks.
void BlockInt8::keep_lost(ReduceOp op) {
  const float weight = op == ReduceOp::kAverage ? static_cast<float>(ranks_) : 1.0f;
  const float* lost = lost_.data();
  for (const Block& block : owned_by(rank_))
    for (std::size_t i = 0; i < block.count; ++i) block.residual[i] += weight * *lost++;
}

// Until the results are known, the values of this rank stay in the memory of the gradients.
void BlockInt8::quantise_own() {
  for (const Block& block : blocks_) {
    if (error_feedback_)
      for (std::size_t i = 0; i < block.count; ++i) block.values[i] += block.residual[i];
    encode({block.values, block.count}, own_.data() + block.at);
  }
}

void BlockInt8::reduce_owned(ReduceOp op) {
  const auto owned = owned_by(rank_);
  const std::size_t bytes = encoded_bytes_of(owned);
  const float share = op == ReduceOp::kAverage ? 1.0f / static_cast<float>(ranks_) : 1.0f;
  float* lost = lost_.data();
  for (const Block& block : owned) {
    std::array<float, kBlock> sum{};
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks_); ++r) {
      const std::byte* const from = received_.data() + r * bytes + (block.at - owned.front().at);
      // An average does not overflow if the sum would.
      const float scale = share * scale_of(from);
      const std::int8_t* const steps = steps_of(from);
      for (std::size_t i = 0; i < block.count; ++i) sum[i] += scale * static_cast<float>(steps[i]);
    }
    std::byte* const to = result_.data() + block.at;
    encode({sum.data(), block.count}, to);
    const float scale = scale_of(to);
    const std::int8_t* const steps = steps_of(to);
    for (std::size_t i = 0; i < block.count; ++i)
      *lost++ = sum[i] - scale * static_cast<float>(steps[i]);
  }
}

// The memory of the gradients still holds the values of this rank.
void BlockInt8::keep_rest(const Block& block) {
  const std::byte* const own = own_.data() + block.at;
  const float scale = scale_of(own);
  const std::int8_t* const steps = steps_of(own);
  const auto rest = [&](std::size_t i) {
    return block.values[i] - scale * static_cast<float>(steps[i]);
  };
  figures_.squared_values += sum_of_squares({block.values, block.count});
  figures_.squared_error += sum_in_lanes<double>(block.count, [&](std::size_t i) {
    const double error = rest(i);
    return error * error;
  });
  if (error_feedback_)
    for (std::size_t i = 0; i < block.count; ++i) block.residual[i] = rest(i);
}

void BlockInt8::use_result(const Block& block) {
  const std::byte* const result = result_.data() + block.at;
  const float scale = scale_of(result);
  const std::int8_t* const steps = steps_of(result);
  for (std::size_t i = 0; i < block.count; ++i)
    block.values[i] = scale * static_cast<float>(steps[i]);
}

BucketCompressor::Memory BlockInt8::memory_of(std::size_t tensor) {
  return {residuals_[tensor], {}};
}

}  // namespace horo::collectives
