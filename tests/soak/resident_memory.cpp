#include "tests/soak/resident_memory.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  throw std::runtime_error("/proc/self/status has no VmRSS");
}

void ResidentMemory::sample(std::size_t done, std::size_t total) {
  std::size_t& half = 2 * done <= total ? first_half_ : second_half_;
  half = std::max(half, resident_kib());
}
