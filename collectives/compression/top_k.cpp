#include "collectives/compression/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "collectives/compression/lane_sum.h"

namespace horo::collectives {

namespace {

// Returns the bits of a float without its sign. As integers, these bits have the order of the
// magnitudes, and NaN is above infinity.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

struct Digit {
  int shift;
  int bits;
};
// The digits of the 31 bits of a magnitude, most significant digit first.
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};

/// The smallest magnitude that is selected.
struct Threshold {
  std::uint32_t magnitude = 0;
  std::size_t equal = 0;  ///< number of selected values of exactly this magnitude
};

// Radix selection: finds the threshold digit by digit, from the most significant one. In each pass,
// `wanted` values remain to be selected among the values whose highest bits are `prefix`.
Threshold find_threshold(std::span<const float> values, std::size_t wanted) {
  std::uint32_t prefix = 0;
  for (const auto& [shift, bits] : kDigits) {
    std::array<std::size_t, 1 << 11> counts{};
    for (const float value : values) {
      const std::uint32_t magnitude = magnitude_bits(value);
      if ((std::uint64_t{magnitude} >> (shift + bits)) == prefix)
        ++counts[(magnitude >> shift) & ((1u << bits) - 1)];
    }
    std::uint32_t digit = (1u << bits) - 1;
    for (; counts[digit] < wanted; --digit) wanted -= counts[digit];
    prefix = (prefix << bits) | digit;
  }
  return {prefix, wanted};
}

}  // namespace

void select_largest(std::span<const float> values, std::span<std::uint32_t> indices) {
  if (indices.empty()) return;
  auto [threshold, equal] = find_threshold(values, indices.size());
  std::size_t found = 0;
  for (std::size_t i = 0; found < indices.size(); ++i) {
    const std::uint32_t magnitude = magnitude_bits(values[i]);
    if (magnitude < threshold || (magnitude == threshold && equal == 0)) continue;
    if (magnitude == threshold) --equal;
    indices[found++] = static_cast<std::uint32_t>(i);
  }
}

namespace {

std::size_t count_of(double fraction, std::size_t values) {
  if (values == 0) return 0;
  const double wanted = std::ceil(fraction * static_cast<double>(values));
  return std::clamp(static_cast<std::size_t>(wanted), std::size_t{1}, values);
}

bool is_finite(std::uint32_t bits) { return std::isfinite(std::bit_cast<float>(bits)); }

}  // namespace

TopK::TopK(std::vector<BucketTensor> tensors, double fraction, bool error_feedback, int rank,
           int ranks)
    : error_feedback_(error_feedback), rank_(rank), ranks_(ranks) {
  for (const BucketTensor& tensor : tensors) {
    const std::size_t sent = count_of(fraction, tensor.count());
    tensors_.push_back({tensor, sent_, sent, {}});
    if (error_feedback) tensors_.back().residual.resize(tensor.count());
    sent_ += sent;
    bytes_ += tensor.span().size_bytes();
  }
  gathered_.resize(2 * sent_ * static_cast<std::size_t>(ranks));
}

TopK::Sent TopK::sent_by(int rank) {
  const auto part =
      std::span(gathered_).subspan(2 * sent_ * static_cast<std::size_t>(rank), 2 * sent_);
  return {part.first(sent_), part.last(sent_)};
}

// Each rank writes its indices and values to its own part of gathered_, so the allgather runs in
// place. Contributions are added in rank order, which gives all ranks the same bits.
void TopK::allreduce(Collectives& collectives, ReduceOp op, std::uint64_t) {
  const std::size_t bytes = 2 * sent_ * sizeof(std::uint32_t);
  figures_ = {.bytes_sent = static_cast<std::uint64_t>(ranks_ - 1) * bytes,
              .bytes_uncompressed = ring_bytes(bytes_, ranks_)};
  const Sent own = sent_by(rank_);
  for (Tensor& tensor : tensors_) select(tensor, own.of(tensor));
  const auto all = std::as_writable_bytes(std::span(gathered_));
  collectives.allgather(all.subspan(static_cast<std::size_t>(rank_) * bytes, bytes),
                        std::vector<std::size_t>(static_cast<std::size_t>(ranks_), bytes), all);
  // All ranks have the same gathered values and therefore take the same branch.
  if (is_all_finite())
    for (Tensor& tensor : tensors_) keep_rest(tensor, own.of(tensor));
  else
    ++figures_.non_finite;
  for (Tensor& tensor : tensors_) add_up(tensor, op);
}

void TopK::select(Tensor& tensor, const Sent& own) {
  float* values = tensor.tensor.values;
  for (std::size_t i = 0; i < tensor.residual.size(); ++i) values[i] += tensor.residual[i];
  select_largest(tensor.tensor.span(), own.places);
  std::ranges::transform(own.places, own.values.begin(), [values](std::uint32_t place) {
    return std::bit_cast<std::uint32_t>(values[place]);
  });
}

bool TopK::is_all_finite() {
  for (int rank = 0; rank < ranks_; ++rank)
    if (!std::ranges::all_of(sent_by(rank).values, is_finite)) return false;
  return true;
}

// With error feedback, the values that were not sent become the residual, which the next step adds
// to its values.
void TopK::keep_rest(Tensor& tensor, const Sent& own) {
  for (const std::uint32_t bits : own.values) {
    const double value = std::bit_cast<float>(bits);
    figures_.squared_values += value * value;
  }
  float* values = tensor.tensor.values;
  for (const std::uint32_t place : own.places) values[place] = 0;
  const double error = sum_of_squares(tensor.tensor.span());
  figures_.squared_error += error;
  figures_.squared_values += error;
  if (error_feedback_) std::ranges::copy(tensor.tensor.span(), tensor.residual.begin());
}

void TopK::add_up(Tensor& tensor, ReduceOp op) {
  float* values = tensor.tensor.values;
  std::ranges::fill(tensor.tensor.span(), 0.0f);
  for (int rank = 0; rank < ranks_; ++rank) {
    const Sent sent = sent_by(rank).of(tensor);
    for (std::size_t i = 0; i < sent.places.size(); ++i)
      values[sent.places[i]] += std::bit_cast<float>(sent.values[i]);
  }
  if (op != ReduceOp::kAverage) return;
  const float scale = 1.0f / static_cast<float>(ranks_);
  for (float& value : tensor.tensor.span()) value *= scale;
}

BucketCompressor::Memory TopK::memory_of(std::size_t tensor) {
  return {tensors_[tensor].residual, {}};
}

}  // namespace horo::collectives
