#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/data/batch.h"
#include "ops/data/dataset.h"
#include "ops/data/pipeline/pipeline.h"

namespace horo::ops {

/// An item of a pipeline that ends in batches.
struct Sample {
  std::uint64_t index = 0;        ///< in the sequence or the data set
  std::vector<std::byte> input;   ///< bytes, in the form of the data set
  std::vector<std::byte> target;  ///< the same
};

/// The samples of a data set in their order. `dataset` must outlive the passes.
Pipeline<Sample> samples_of(const Dataset& dataset);

/// Combines samples of the given forms into a batch, for TrainStep. Batch::where stays 0. Throws
/// InvalidArgument, with the sample, for a sample of another size.
Batch batch_of(const std::vector<Sample>& samples, const SampleForm& input,
               const SampleForm& target);

}  // namespace horo::ops
