#pragma once

#include <vector>

namespace horo::ops::reference {

/// A row-major array in double precision; its shape is known from the operation's.
using Values = std::vector<double>;

}  // namespace horo::ops::reference
