// Trains a small GPT on the characters of a text on all ranks of a job, with the public API only,
// and then continues a prompt. Without --data it writes sums, such as "17+25=42", and learns to
// add.
//
//   hororun -np 4 build/release/bin/train_gpt --data input.txt
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "examples/command_line.h"
#include "examples/training/train_program.h"
#include "horo/base/error.h"
#include "ops/data/datasets/text_dataset.h"
#include "ops/data/random_stream.h"
#include "ops/nn/models/gpt.h"

namespace {

using namespace horo::ops;
using horo::examples::count_value;
using horo::examples::name_value;
using horo::examples::number_value;

/// The options of this program alone.
struct GptProgramOptions {
  GptOptions model;
  std::size_t stride = 0;
  std::string symbols = "characters";
  std::string prompt = "\n";
  GenerationOptions sample{.count = 500, .temperature = 0.8f};
};

void add_options(boost::program_options::options_description& description,
                 GptProgramOptions& options) {
  auto add = description.add_options();
  add("window", count_value(options.model.positions, "window", 1, 65536),
      "tokens of a sample, and the longest context of the model");
  add("stride", count_value(options.stride, "stride", 0, 1'000'000),
      "tokens between the beginnings of two samples; 0: the window, so that a pass over the "
      "training set reads each token once");
  add("symbols", name_value(options.symbols, "symbols", {"characters", "bytes"}),
      "what a token is: characters of a UTF-8 text, or bytes");
  add("layers", count_value(options.model.layers, "layers", 1, 1000), "blocks of the model");
  add("heads", count_value(options.model.heads, "heads", 1, 1000), "attention heads of a block");
  add("width", count_value(options.model.width, "width", 1, 65536),
      "features of a position; a multiple of the heads");
  add("dropout",
      number_value<float>(options.model.dropout, "dropout", "from 0 to below 1",
                          [](float x) { return x >= 0 && x < 1; }),
      "probability that a feature is dropped in training");
  add("prompt", boost::program_options::value(&options.prompt)->value_name("TEXT"),
      "what the sample continues (default: a line end)");
  add("sample", count_value(options.sample.count, "sample", 0, 1'000'000),
      "tokens that the trained model writes; 0: none");
  add("temperature",
      number_value<float>(options.sample.temperature, "temperature", "of at least 0",
                          [](float x) { return x >= 0; }),
      "of the sample: divides the logits; 0: always the most likely token");
  add("top-k", count_value(options.sample.top_k, "top-k", 0, 1'000'000),
      "the sample chooses among this many most likely tokens; 0: among all");
}

/// Lines like "17+25=42".
std::string write_sums(std::size_t lines) {
  RandomStream random(1);
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    const std::uint64_t a = random.below(50), b = random.below(50);
    text += fmt::format("{}+{}={}\n", a, b, a + b);
  }
  return text;
}

/// `data`: a text file, or a directory that has an input.txt; empty: sums.
std::shared_ptr<const Text> load_text(const std::string& data, const std::string& symbols) {
  const auto kind = symbols == "bytes" ? Text::Symbols::kBytes : Text::Symbols::kCharacters;
  if (data.empty()) return std::make_shared<const Text>(write_sums(20000), kind);
  const std::filesystem::path path = data;
  return std::make_shared<const Text>(
      read_text(std::filesystem::is_directory(path) ? path / "input.txt" : path, kind));
}

const Text& text_of(const Dataset& dataset) {
  return dynamic_cast<const TextDataset&>(dataset).text();
}

void print_sample(const GptProgramOptions& options, std::uint64_t seed, Sequential& model,
                  const Text& text) {
  if (options.sample.count == 0) return;
  GenerationOptions sample = options.sample;
  sample.positions = options.model.positions;
  sample.seed = seed;
  const auto prompt = text.vocabulary.encode(options.prompt);
  fmt::print("sample:\n{}{}\n", options.prompt,
             text.vocabulary.decode(generate_tokens(model, prompt, sample)));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  GptProgramOptions gpt;
  const TrainProgram program{
      .command = {.program = "train_gpt",
                  .purpose =
                      "Trains a small GPT on the characters of a text on all ranks of a job.",
                  .data_help = "a text file, or a directory that has an input.txt; plain or .gz; "
                               "without it, sums that the program writes",
                  .model_help = "gpt",
                  .models = {"gpt"},
                  .defaults = {.model = "gpt",
                               .global_batch = 32,
                               .recipe = {.optimizer = "adamw", .warm_up_steps = 100}},
                  .add_options = [&](auto& description) { add_options(description, gpt); }},
      .open_dataset =
          [&](const TrainOptions& options, Split split) {
            return std::make_unique<TextDataset>(
                load_text(options.data, gpt.symbols), split,
                TextDatasetOptions{.window = gpt.model.positions, .stride = gpt.stride});
          },
      .make_model =
          [&](const TrainOptions& options, const Dataset& dataset) {
            GptOptions model = gpt.model;
            model.vocabulary = text_of(dataset).vocabulary.size();
            model.seed = options.seed;
            // Checked before training: the sample comes last.
            (void)text_of(dataset).vocabulary.encode(gpt.prompt);
            HORO_CHECK(!gpt.prompt.empty(),
                       "--prompt: the text is empty; give at least one symbol");
            return make_gpt(model);
          },
      .use_model =
          [&](const TrainOptions& options, Sequential& model, const Dataset& dataset) {
            print_sample(gpt, options.seed, model, text_of(dataset));
          }};
  return run_train_program(program, argc, argv);
}
