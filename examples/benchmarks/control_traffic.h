#pragma once

#include <cstddef>
#include <cstdint>

namespace horo::bench {

/// Control messages of one training step, sent by all ranks together.
struct ControlTraffic {
  double messages_between_nodes = 0;
  double bytes_between_nodes = 0;
  double most_between_nodes = 0;  ///< messages of the rank that sends most of them
  double messages_in_nodes = 0;   ///< through shared memory
  double bytes_in_nodes = 0;
};

/// A case to count: a step that exchanges `tensors` gradients by name.
struct ControlCase {
  int ranks = 1;
  int ranks_per_node = 1;
  std::size_t tensors = 160;
};

/// Counted by horo, on threads of this process: steps with a plan, named operations that are new,
/// and named operations that are known.
struct MeasuredTraffic {
  ControlTraffic plan, first_contact, cached;
};
MeasuredTraffic measure_control_traffic(const ControlCase& control);

/// The control messages of Horovod's protocol of bit vectors, computed from its description. Each
/// cycle is an allreduce of 8 * ceil((C + 3) / 64) bytes for C cached tensors (recursive doubling:
/// log2(n) messages per rank). A cycle with new tensors also gathers lengths and requests (about
/// 145 bytes each) at rank 0, and broadcasts a length and the responses, each along a binomial
/// tree. A cycle lasts 1 ms, also if there is nothing to do. MPI sends all messages, also inside
/// nodes. `step_ms`: the duration of a step.
ControlTraffic horovod_cached(const ControlCase& control, double step_ms);
ControlTraffic horovod_first_contact(const ControlCase& control);

}  // namespace horo::bench
