#pragma once

#if __cplusplus < 202002L
#error "horo needs C++20: compile with -std=c++20 or later"
#endif

// Includes the public API, except horo/mpi.h and horo/dlpack.h, which require the headers of MPI
// and DLPack, and horo/testing.h.
#include "horo/alltoall_handle.h"             // IWYU pragma: export
#include "horo/arena.h"                       // IWYU pragma: export
#include "horo/base/compression.h"            // IWYU pragma: export
#include "horo/base/counters.h"               // IWYU pragma: export
#include "horo/base/data_type.h"              // IWYU pragma: export
#include "horo/base/error.h"                  // IWYU pragma: export
#include "horo/base/float16.h"                // IWYU pragma: export
#include "horo/base/gradient_sync_options.h"  // IWYU pragma: export
#include "horo/base/operation_options.h"      // IWYU pragma: export
#include "horo/base/reduce_op.h"              // IWYU pragma: export
#include "horo/base/step_report.h"            // IWYU pragma: export
#include "horo/base/tensor_view.h"            // IWYU pragma: export
#include "horo/bootstrap.h"                   // IWYU pragma: export
#include "horo/context.h"                     // IWYU pragma: export
#include "horo/gradient_sync.h"               // IWYU pragma: export
#include "horo/handle.h"                      // IWYU pragma: export
#include "horo/open_gpu.h"                    // IWYU pragma: export
#include "horo/process_set.h"                 // IWYU pragma: export
#include "horo/runtime_pointer.h"             // IWYU pragma: export
#include "horo/step_graph.h"                  // IWYU pragma: export
#include "horo/trace_scope.h"                 // IWYU pragma: export
