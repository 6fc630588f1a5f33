#pragma once

#include <cstdint>
#include <string>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Draws every weight of two or more dimensions [out, in, ...] afresh: uniform in (-b, b) with
/// b = sqrt(6 / fan in), fan in = in * ..., which keeps the variance through ReLUs. Parameters of
/// one dimension (bias 0, scale 1) stay as they are. A value depends only on the seed, the
/// parameter's name and its place in the parameter: not on the order of calls, the rest of the
/// network or the rank. Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers" (2015).
void initialise(Layer& model, std::uint64_t seed);
/// The same for one parameter.
void initialise(Parameter& parameter, std::uint64_t seed);

/// A parameter with a zero gradient; its value as initialise() draws it for seed 0, or zero if it
/// has one dimension.
Parameter make_parameter(std::string name, const Shape& shape);

}  // namespace horo::ops
