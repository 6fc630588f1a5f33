#include "ops/train/parameter_hash.h"

#include <fmt/core.h>

#include <bit>
#include <vector>

#include "horo/base/hash.h"

namespace horo::ops {

std::uint64_t hash_parameters(std::span<Parameter* const> parameters) {
  Hash hash;
  for (const Parameter* parameter : parameters) {
    hash.add(parameter->name);
    for (const std::size_t dimension : parameter->value.shape().dimensions()) hash.add(dimension);
    hash.add_bytes(parameter->value.data(), parameter->value.count() * sizeof(float));
  }
  return hash.value();
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
