#pragma once

#include "horo/base/data_type.h"
#include "horo/base/wire_report.h"

namespace horo::collectives {

/// What float32 travels as, if not as it is.
struct Wire {
  DataType type;       ///< kFloat16 or kBFloat16
  WireReport* report;  ///< what that does is added here
};

}  // namespace horo::collectives
