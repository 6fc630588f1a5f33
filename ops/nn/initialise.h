#pragma once

#include <cstdint>
#include <string>

#include "ops/nn/layer.h"

namespace horo::ops {

/// Initialises every parameter with two or more dimensions [out, in, ...]. Values are uniform in
/// (-b, b) with b = gain * sqrt(3 / fan in), so their variance is gain^2 / fan in. Fan in is the
/// product of all dimensions except the first. Gain 1 is stable even at the learning rates of many
/// ranks. sqrt(2) keeps the variance through the ReLUs of a deep network without normalisation.
/// Parameters of one dimension (bias 0, scale 1) are not changed. A value depends only on the seed,
/// the name of the parameter and its index. Source: He, Zhang, Ren, Sun, "Delving deep into
/// rectifiers" (2015).
void initialise(Layer& model, std::uint64_t seed, double gain = 1.0);
/// The same for one parameter.
void initialise(Parameter& parameter, std::uint64_t seed, double gain = 1.0);

/// Initialises a parameter with two or more dimensions with normal values of mean 0 and the given
/// standard deviation. A value depends only on the seed, the name of the parameter and its index.
void initialise_normal(Parameter& parameter, std::uint64_t seed, double deviation);

/// Makes a parameter with a zero gradient. Its value is what initialise() draws for seed 0, or zero
/// if it has one dimension.
Parameter make_parameter(std::string name, const Shape& shape);

}  // namespace horo::ops
