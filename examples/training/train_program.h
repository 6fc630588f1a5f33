#pragma once

#include <functional>
#include <memory>

#include "examples/training/train_options.h"
#include "ops/data/dataset.h"
#include "ops/nn/sequential.h"

/// The part of a training program that differs between the programs.
struct TrainProgram {
  TrainCommand command;
  std::function<std::unique_ptr<horo::ops::LabelledImages>(const TrainOptions&, horo::ops::Split)>
      open_dataset;
  /// Builds the model for the samples of the training set. Its last layer must be named "output".
  std::function<std::unique_ptr<horo::ops::Sequential>(const TrainOptions&,
                                                       const horo::ops::LabelledImages&)>
      make_model;
};

/// Trains on all ranks of the job with horo's public API only. Returns the exit code: 0, 2 for a
/// bad command line or bad data, or 1 for other errors. Errors are printed in one line.
int run_train_program(const TrainProgram& program, int argc, char** argv);
