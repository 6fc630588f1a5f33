#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/data_type.h"
#include "ops/nn/layer.h"
#include "ops/nn/loss.h"
#include "ops/optim/learning_rate.h"
#include "ops/optim/optimizer.h"
#include "ops/train/update/local_steps.h"

/// How a training program updates the parameters: optimizer, learning rate, loss, and what the
/// ranks exchange. docs/guides/recipes.md describes the options.
struct Recipe {
  std::string optimizer = "sgd";  ///< or adam, adamw, lars, lamb, muon
  float learning_rate = 0.05f;    ///< of sgd; see complete_recipe() for the others
  float momentum = 0.9f;          ///< of sgd, lars and muon
  bool nesterov = false;          ///< of sgd
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  ///< of adam, adamw, lamb and muon
  float weight_decay = 1e-4f;                     ///< of sgd; see complete_recipe() for the others
  float trust_coefficient = 1e-3f;                ///< of lars
  std::vector<horo::ops::ParameterRule> rules{};  ///< rates of some parameters

  std::string schedule = "cosine";  ///< or constant, step, polynomial
  std::size_t warm_up_steps = 200;
  float final_rate = 0;                   ///< of cosine and polynomial
  float power = 1;                        ///< of polynomial
  std::vector<std::size_t> milestones{};  ///< of step; empty: 1/2 and 3/4 of the steps
  float step_factor = 0.1f;               ///< of step
  std::size_t base_batch = 0;             ///< the batch for learning_rate; 0: any batch

  float label_smoothing = 0;
  bool shard_optimizer = false;

  std::string update = "sync";  ///< or local, diloco
  /// The steps of local and diloco; see complete_recipe() for the outer optimizer.
  horo::ops::LocalSteps local_steps{.count = 16};

  std::string wire = "float32";  ///< or bfloat16, float16, int8
  std::string compression = "none";
  std::size_t compression_rank = 4;    ///< of powersgd
  float compression_fraction = 0.01f;  ///< of topk
};

/// Adds the options of a recipe, whose defaults are the values of `recipe`, which must outlive
/// `description`.
void add_recipe_options(boost::program_options::options_description& description, Recipe& recipe);

/// Sets the defaults that depend on the optimizer and the update, for options that `values` does
/// not give. Throws InvalidArgument, one line, for options that exclude each other.
void complete_recipe(Recipe& recipe, const boost::program_options::variables_map& values);

/// Throws InvalidArgument for rules that match no parameter of `model`.
std::unique_ptr<horo::ops::Optimizer> make_optimizer(const Recipe& recipe, horo::ops::Layer& model);

/// Whether the updates of a matrix are proportional to its norm, so that it must not start with
/// zeros.
bool scales_with_values(const Recipe& recipe);

/// The rate of each step of a run of `steps` steps with `global_batch` samples.
horo::ops::LearningRateSchedule learning_rate_of(const Recipe& recipe, std::size_t global_batch,
                                                 std::size_t steps);

/// Off unless the update is local or diloco.
horo::ops::LocalSteps local_steps_of(const Recipe& recipe);
std::shared_ptr<const horo::ops::Loss> loss_of(const Recipe& recipe);
horo::Compression compression_of(const Recipe& recipe);
bool is_compressed(const Recipe& recipe);
/// Nothing: gradients are sent in their own type, or compressed.
std::optional<horo::DataType> wire_of(const Recipe& recipe);
