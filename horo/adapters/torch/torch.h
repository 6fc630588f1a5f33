#pragma once

// All of horo's adapter for libtorch.
#include "horo/adapters/torch/checkpoint.h"          // IWYU pragma: export
#include "horo/adapters/torch/distributed_module.h"  // IWYU pragma: export
#include "horo/adapters/torch/sync_batch_norm.h"     // IWYU pragma: export
#include "horo/adapters/torch/tensor_view.h"         // IWYU pragma: export
