// Runs a fuzz target on its corpus and on a fixed sequence of mutations of it. Replaces
// libFuzzer for other compilers.
// usage: replay CORPUS_FOLDER MUTATIONS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  std::vector<Input> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Input>& corpus) : corpus_(corpus) {}

  Input next() {
    Input input = corpus_[below(corpus_.size())];
    for (std::size_t change = below(4) + 1; change > 0; --change) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % std::max<std::size_t>(limit, 1); }
  auto place(Input& input) {
    return input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
  }
  void mutate(Input& input) {
    constexpr std::uint8_t kSpecialBytes[] = {0, 1, 0x7f, 0x80, 0xff, '=', '.', '-', 'e', '9'};
    switch (below(6)) {
      case 0:  // flip a bit
        if (!input.empty()) input[below(input.size())] ^= static_cast<std::uint8_t>(1 << below(8));
        break;
      case 1:  // overwrite a byte with a special value
        if (!input.empty())
          std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(below(input.size())), 1,
                      kSpecialBytes[below(std::size(kSpecialBytes))]);
        break;
      case 2:
        input.insert(place(input), below(9), kSpecialBytes[below(std::size(kSpecialBytes))]);
        break;
      case 3:  // truncate
        input.erase(place(input), input.end());
        break;
      case 4: {  // replace the end with that of another input
        const Input& other = corpus_[below(corpus_.size())];
        const auto from = other.begin() + static_cast<std::ptrdiff_t>(below(other.size() + 1));
        input.erase(place(input), input.end());
        input.insert(input.end(), from, other.end());
        break;
      }
      default:  // remove up to four bytes
        const auto from = place(input);
        input.erase(from, from + std::min<std::ptrdiff_t>(input.end() - from, 4));
    }
  }

  const std::vector<Input>& corpus_;
  std::mt19937_64 random_{20240229};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::vector<Input> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "replay: there is no corpus in %s\n", argv[1]);
    return 1;
  }
  for (const Input& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  Mutator mutator(corpus);
  const int mutations = std::atoi(argv[2]);
  for (int i = 0; i < mutations; ++i) {
    const Input input = mutator.next();
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs and %d mutations of them\n", corpus.size(), mutations);
  return 0;
}
