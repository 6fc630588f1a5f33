#include "examples/benchmarks/bench_program.h"

#include <mpi.h>

#include <charconv>
#include <iostream>
#include <sstream>

namespace horo::bench {

namespace po = boost::program_options;

int benchmark_main(int argc, char** argv, const std::string& name, po::options_description options,
                   const std::function<void()>& check, const std::function<void()>& run) {
  int exit_code = 2;
  try {
    options.add_options()("help", "this text");
    po::variables_map values;
    po::store(po::parse_command_line(argc, argv, options), values);
    po::notify(values);
    if (values.count("help") != 0) {
      std::cout << options;
      return 0;
    }
    check();
    exit_code = 1;
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
    return exit_code;
  }
}

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    std::size_t bytes = 0;
    const char* end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, bytes);
    HORO_CHECK(parsed.ec == std::errc() && parsed.ptr == end && bytes > 0 && bytes % 4 == 0,
               "--sizes " + text + ": '" + word + "' is not a number of bytes that 4 divides");
    sizes.push_back(bytes);
  }
  return sizes;
}

Context init_beside_mpi() {
  Context ctx = init();
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  HORO_CHECK(is_initialized, "this benchmark compares with MPI: start it with hororun or mpirun");
  return ctx;
}

}  // namespace horo::bench
