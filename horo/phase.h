#pragma once

// The former header of horo::TraceScope, kept for programs that include it.
#include "horo/trace_scope.h"  // IWYU pragma: export
