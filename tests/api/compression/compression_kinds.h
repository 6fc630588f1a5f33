#pragma once

#include "horo/base/compression.h"

namespace horo {

inline constexpr Compression kPowerSgd{.kind = Compression::Kind::kPowerSgd, .rank = 2, .seed = 7};
inline constexpr Compression kTopK{.kind = Compression::Kind::kTopK, .fraction = 0.05};
inline constexpr Compression kInt8{.kind = Compression::Kind::kInt8};

}  // namespace horo
