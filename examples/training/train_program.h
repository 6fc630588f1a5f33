#pragma once

#include <functional>
#include <memory>

#include "examples/training/train_options.h"
#include "ops/data/dataset.h"
#include "ops/nn/sequential.h"

/// The part of a training program that differs between the programs.
struct TrainProgram {
  TrainCommand command;
  std::function<std::unique_ptr<horo::ops::Dataset>(const TrainOptions&, horo::ops::Split)>
      open_dataset;
  /// Builds the model for the samples of the training set. A last layer with the name "output"
  /// starts with zeros.
  std::function<std::unique_ptr<horo::ops::Sequential>(const TrainOptions&,
                                                       const horo::ops::Dataset&)>
      make_model;
  /// Called on rank 0 with the trained model in host memory; empty: nothing.
  std::function<void(const TrainOptions&, horo::ops::Sequential&, const horo::ops::Dataset&)>
      use_model{};
};

/// Trains on all ranks of the job with horo's public API only. Returns the exit code: 0, 2 for a
/// bad command line or bad data, or 1 for other errors. Errors are printed in one line.
int run_train_program(const TrainProgram& program, int argc, char** argv);
