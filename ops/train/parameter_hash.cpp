#include "ops/train/parameter_hash.h"

#include <fmt/core.h>

#include <bit>
#include <vector>

#include "ops/data/random_stream.h"

namespace horo::ops {

std::uint64_t hash_parameters(std::span<Parameter* const> parameters) {
  std::uint64_t hash = parameters.size();
  for (const Parameter* parameter : parameters) {
    for (const char letter : parameter->name)
      hash = combine_keys(hash, static_cast<unsigned char>(letter));
    hash = combine_keys(hash, parameter->value.shape().rank());
    for (const std::size_t dimension : parameter->value.shape().dimensions())
      hash = combine_keys(hash, dimension);
    for (const float value : parameter->value.values())
      hash = combine_keys(hash, std::bit_cast<std::uint32_t>(value));
  }
  return hash;
}

std::string agreed_parameter_hash(Context& context, std::span<Parameter* const> parameters) {
  std::vector<std::int64_t> own{std::bit_cast<std::int64_t>(hash_parameters(parameters))};
  std::vector<std::int64_t> all(static_cast<std::size_t>(context.size()));
  context.allgather(TensorView(own), TensorView(all), {.name = "train.parameter_hash"});
  std::string differing;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) differing += fmt::format("{}{}", differing.empty() ? "" : ", ", rank);
  if (!differing.empty())
    throw Error(
        fmt::format("parameters differ from those of rank 0 on rank(s) {}: an update was not "
                    "the same on all ranks",
                    differing));
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(all[0]));
}

}  // namespace horo::ops
