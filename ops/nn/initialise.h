#pragma once

#include <cstdint>
#include <string>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Draws every weight of two or more dimensions [out, in, ...] afresh: uniform in (-b, b) with
/// b = gain * sqrt(3 / fan in), fan in = in * ..., so that a value's variance is gain^2 / fan in.
/// Gain 1 trains steadily even at the learning rates of many ranks; sqrt(2) keeps the variance
/// through the ReLUs of a deep network without normalisation. Parameters of one dimension (bias 0,
/// scale 1) stay as they are. A value depends only on the seed, the parameter's name and its place
/// in the parameter: not on the order of calls, the rest of the network or the rank. Source: He,
/// Zhang, Ren, Sun, "Delving deep into rectifiers" (2015).
void initialise(Layer& model, std::uint64_t seed, double gain = 1.0);
/// The same for one parameter.
void initialise(Parameter& parameter, std::uint64_t seed, double gain = 1.0);

/// A parameter with a zero gradient; its value as initialise() draws it for seed 0, or zero if it
/// has one dimension.
Parameter make_parameter(std::string name, const Shape& shape);

}  // namespace horo::ops
