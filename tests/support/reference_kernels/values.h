#pragma once

#include <vector>

namespace horo::ops::reference {

/// A row-major array in double precision. The caller knows its shape.
using Values = std::vector<double>;

}  // namespace horo::ops::reference
