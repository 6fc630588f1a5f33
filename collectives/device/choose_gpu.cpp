#include "collectives/device/choose_gpu.h"

#include <cstddef>
#include <span>

#include "horo/device/gpu_assignment.h"

namespace horo::collectives {
namespace {

// Joins the words. A line feed follows each word.
std::string lines_of(const std::vector<std::string>& words) {
  std::string lines;
  for (const std::string& word : words) lines += word + '\n';
  return lines;
}

std::vector<std::string> words_of(std::string_view lines) {
  std::vector<std::string> words;
  for (std::size_t end = 0; (end = lines.find('\n')) != lines.npos; lines.remove_prefix(end + 1))
    words.emplace_back(lines.substr(0, end));
  return words;
}

}  // namespace

// All ranks gather the same list and compute the same assignment from it, so no further messages
// are needed. The loading variables are set before find_gpus() loads the CUDA libraries.
int choose_gpu(Collectives& control, const Topology& topology,
               const std::function<std::vector<std::string>()>& find_gpus, bool may_share) {
  const auto ranks = static_cast<std::size_t>(topology.size);
  if (may_share) device::set_missing(device::loading_variables());
  const std::string own = lines_of(find_gpus());
  const std::size_t own_bytes = own.size();
  std::vector<std::size_t> bytes_of(ranks);
  control.allgather(std::as_bytes(std::span(&own_bytes, 1)),
                    std::vector<std::size_t>(ranks, sizeof own_bytes),
                    std::as_writable_bytes(std::span(bytes_of)));
  std::size_t total = 0;
  for (const std::size_t bytes : bytes_of) total += bytes;
  std::string all(total, '\0');
  control.allgather(std::as_bytes(std::span(own)), bytes_of,
                    std::as_writable_bytes(std::span(all)));

  std::vector<std::vector<std::string>> gpus_of;
  std::size_t at = 0;
  for (const std::size_t bytes : bytes_of) {
    gpus_of.push_back(words_of(std::string_view(all).substr(at, bytes)));
    at += bytes;
  }
  const device::GpuAssignment assignment = device::assign_gpus(topology, gpus_of, may_share);
  device::set_missing(device::sharing_variables(topology, assignment));
  return assignment.gpu_of[static_cast<std::size_t>(topology.rank)];
}

}  // namespace horo::collectives
