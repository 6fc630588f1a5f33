#pragma once

#include <boost/program_options/options_description.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "examples/training/recipe.h"
#include "ops/checkpoint/checkpoints.h"

/// The command line of a training program.
struct TrainOptions {
  std::string data;  ///< directory of the data set's files; empty: images that the program draws
  std::string model;
  std::uint64_t epochs = 3;
  std::uint64_t steps = 0;  ///< if not 0, in place of `epochs`
  std::size_t global_batch = 128;
  std::vector<double> batch_weights{};  ///< empty: equal
  bool batch_weights_auto = false;
  std::uint64_t batch_weights_every = 20;
  std::string op = "average";  ///< or "adasum"
  Recipe recipe{};
  std::uint64_t seed = 1;
  std::size_t workers = 1;
  std::optional<std::size_t> prefetch;  ///< unset: automatic
  std::size_t prefetch_bytes = std::size_t{256} << 20;
  std::string order = "random";       ///< or "sequential"
  std::string last_batch = "drop";    ///< or "pad"
  std::string inputs = "auto";        ///< or "pixels" or "float32"
  std::string bad_samples = "fatal";  ///< or "skip"
  std::size_t accumulate = 1;
  double clip_norm = 0;              ///< 0: none
  std::uint64_t max_skipped = 0;     ///< 0: none is skipped
  std::uint64_t evaluate_every = 0;  ///< steps between evaluations; 0: after each epoch
  std::size_t early_stop = 0;        ///< evaluations without improvement; 0: none
  std::uint64_t profile_first = 0, profile_last = 0;  ///< steps; 0: none
  std::string profile_trace = "profile.json";
  std::string profile_perf;           ///< FIFO of perf; empty: none
  std::uint64_t drift_check = 0;      ///< steps between comparisons of the replicas; 0: none
  std::string device = "cpu";         ///< or "cuda"
  std::string precision = "float32";  ///< of "cuda"; or "bfloat16" or "float16"
  bool graph = false;                 ///< of "cuda": steps run as graphs
  int compute_threads = 1;  ///< 0: the cores this rank may use, divided by the node's ranks
  std::size_t log_every = 100;
  std::string json;                            ///< file for the report; empty: none
  std::string report;                          ///< page of the bottleneck report; empty: none
  horo::ops::CheckpointOptions checkpoints{};  ///< none without a directory
  std::string load_weights;  ///< file with the initial weights; empty: random weights
  std::string save_weights;  ///< file for the weights at the end; empty: none
  /// "auto", "workers" or "step", the part of the program that crops and flips images; or "none".
  std::string augmentation = "none";
  bool sync_batch_norm = false;
};

/// The part of the command line that differs between the programs.
struct TrainCommand {
  std::string program;              ///< its name
  std::string purpose;              ///< a sentence
  std::string data_help;            ///< of --data
  std::string model_help;           ///< of --model
  std::vector<std::string> models;  ///< their names
  TrainOptions defaults;            ///< if they augment, adds the option --augmentation
  /// Adds the options of this program alone, with destinations that outlive the command; empty:
  /// none.
  std::function<void(boost::program_options::options_description&)> add_options{};
};

/// Nothing for --help. Throws horo::InvalidArgument, one line, for an unknown option or a value out
/// of range.
std::optional<TrainOptions> parse_train_options(const TrainCommand& command, int argc, char** argv);

/// The text of --help. `program`: argv[0].
std::string train_options_help(const TrainCommand& command, const std::string& program);
