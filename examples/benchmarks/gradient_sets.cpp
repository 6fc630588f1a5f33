#include "examples/benchmarks/gradient_sets.h"

#include <initializer_list>

#include "horo/base/error.h"

namespace horo::bench {
namespace {

void append(std::vector<std::size_t>& set, std::initializer_list<std::size_t> counts) {
  for (std::size_t count : counts) set.push_back(count);
}

// A convolution without bias and its batch normalisation.
void add_convolution(std::vector<std::size_t>& set, std::size_t in, std::size_t out,
                     std::size_t kernel) {
  append(set, {in * out * kernel * kernel, out, out});
}

std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> set;
  add_convolution(set, 3, 64, 7);
  std::size_t in = 64;
  const std::size_t blocks_of_stage[] = {3, 4, 6, 3};
  std::size_t width = 64;
  for (std::size_t blocks : blocks_of_stage) {
    for (std::size_t block = 0; block < blocks; ++block) {
      add_convolution(set, in, width, 1);
      add_convolution(set, width, width, 3);
      add_convolution(set, width, width * 4, 1);
      if (block == 0) add_convolution(set, in, width * 4, 1);  // the shortcut
      in = width * 4;
    }
    width *= 2;
  }
  append(set, {in * 1000, 1000});
  return set;
}

std::vector<std::size_t> bert_base() {
  constexpr std::size_t kWidth = 768;
  constexpr std::size_t kInner = 3072;
  std::vector<std::size_t> set;
  append(set, {30522 * kWidth, 512 * kWidth, 2 * kWidth, kWidth, kWidth});
  for (int layer = 0; layer < 12; ++layer) {
    for (int matrix = 0; matrix < 4; ++matrix)
      append(set, {kWidth * kWidth, kWidth});  // q, k, v, output
    append(set, {kWidth, kWidth});             // layer norm
    append(set, {kWidth * kInner, kInner, kInner * kWidth, kWidth, kWidth, kWidth});
  }
  append(set, {kWidth * kWidth, kWidth});
  return set;
}

std::vector<std::size_t> gpt2() {
  constexpr std::size_t kWidth = 768;
  std::vector<std::size_t> set;
  append(set, {50257 * kWidth, 1024 * kWidth});
  for (int layer = 0; layer < 12; ++layer) {
    append(set, {kWidth, kWidth});                                            // layer norm
    append(set, {kWidth * 3 * kWidth, 3 * kWidth, kWidth * kWidth, kWidth});  // q, k and v; output
    append(set, {kWidth, kWidth});
    append(set, {kWidth * 4 * kWidth, 4 * kWidth, 4 * kWidth * kWidth, kWidth});
  }
  append(set, {kWidth, kWidth});
  return set;
}

}  // namespace

// The element counts of the gradients in forward order. Only the sizes matter for the exchange.
std::vector<std::size_t> gradient_set(const std::string& model) {
  if (model == "resnet50") return resnet50();
  if (model == "bert-base") return bert_base();
  if (model == "gpt2") return gpt2();
  if (model == "tiny1000") return std::vector<std::size_t>(1000, 1024);
  throw InvalidArgument("--model " + model +
                        " is not known: use resnet50, bert-base, gpt2 or tiny1000");
}

}  // namespace horo::bench
