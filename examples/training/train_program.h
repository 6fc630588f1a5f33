#pragma once

#include <functional>
#include <memory>

#include "examples/training/train_options.h"
#include "ops/data/dataset.h"
#include "ops/nn/sequential.h"

/// What a training program has of its own; the rest is the same for all of them.
struct TrainProgram {
  TrainCommand command;
  std::function<std::unique_ptr<horo::ops::Dataset>(const TrainOptions&, horo::ops::Split)>
      open_dataset;
  /// For samples of the training set. The last layer is called "output".
  std::function<std::unique_ptr<horo::ops::Sequential>(const TrainOptions&,
                                                       const horo::ops::Dataset&)>
      make_model;
};

/// Trains on all ranks that mpirun started, through horo's public API alone. Returns the exit code:
/// 0, 2 for a bad command line or bad data, or 1; errors are told in one line.
int run_train_program(const TrainProgram& program, int argc, char** argv);
