#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// 64-bit hash of the names, shapes and bits of the parameters' values: equal if and, but for
/// chance, only if the models are equal bit by bit.
std::uint64_t hash_parameters(std::span<Parameter* const> parameters);

/// The same as 16 hexadecimal digits, after comparing it between the ranks. Collective. Throws
/// Error on every rank, naming the ranks that differ from rank 0, if the parameters are not the
/// same everywhere.
std::string agreed_parameter_hash(Context& context, std::span<Parameter* const> parameters);

}  // namespace horo::ops
