#pragma once

#include <cstddef>

namespace horo::collectives {

/// Makes `count` vectors of `length` values, one after the other, orthogonal and of length 1:
/// modified Gram-Schmidt in double precision, each vector taken twice ("twice is enough", Giraud,
/// Langou, Rozloznik 2005), which keeps vectors that are nearly dependent orthogonal to rounding.
/// One that depends on those before it (or is zero) becomes zero. Returns false, and leaves the
/// vectors as they are, if a value is not finite.
bool orthonormalise(float* vectors, std::size_t count, std::size_t length);

}  // namespace horo::collectives
