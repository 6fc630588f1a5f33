#include "examples/benchmarks/control_traffic.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"

namespace horo::bench {
namespace {

constexpr int kSteps = 5;
constexpr double kRequestBytes = 145;  // a name of 30 to 50 characters, four dimensions
constexpr double kNameBytes = 40;

ControlTraffic operator-(const Counters& after, const Counters& before) {
  const auto difference = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<double>(a - b);
  };
  const double messages_in_node = difference(after.node_messages_sent, before.node_messages_sent);
  const double bytes_in_node = difference(after.node_bytes_sent, before.node_bytes_sent);
  const double messages_between_nodes =
      difference(after.control_messages_sent, before.control_messages_sent) - messages_in_node;
  const double bytes_between_nodes =
      difference(after.control_bytes_sent, before.control_bytes_sent) - bytes_in_node;
  return {messages_between_nodes, bytes_between_nodes, messages_between_nodes, messages_in_node,
          bytes_in_node};
}

// Adds the traffic of one rank.
void add(ControlTraffic& to, const ControlTraffic& traffic, double scale) {
  to.messages_between_nodes += traffic.messages_between_nodes * scale;
  to.bytes_between_nodes += traffic.bytes_between_nodes * scale;
  to.most_between_nodes = std::max(to.most_between_nodes, traffic.most_between_nodes * scale);
  to.messages_in_nodes += traffic.messages_in_nodes * scale;
  to.bytes_in_nodes += traffic.bytes_in_nodes * scale;
}

// The tensors of one rank. They are small, since only their control messages are counted.
class Gradients {
 public:
  explicit Gradients(std::size_t count) : values_(count, std::vector<float>(4, 1.0f)) {
    for (std::vector<float>& tensor : values_)
      named_.push_back({"model.layer." + std::to_string(named_.size()) + ".attention.weight.grad",
                        TensorView(tensor)});
  }
  const std::vector<NamedTensor>& named() const { return named_; }
  void exchange_by_name(Context& ctx) const {
    std::vector<Handle> handles;
    for (const NamedTensor& gradient : named_)
      handles.push_back(ctx.allreduce_async(gradient.tensor, {.name = gradient.name}));
    for (const Handle& handle : handles) handle.wait();
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<NamedTensor> named_;
};

// Removes its rank from the barrier, also after an exception, so that the others do not wait for
// it.
class Leaver {
 public:
  explicit Leaver(std::barrier<>& barrier) : barrier_(barrier) {}
  ~Leaver() { barrier_.arrive_and_drop(); }
  Leaver(const Leaver&) = delete;
  Leaver& operator=(const Leaver&) = delete;

 private:
  std::barrier<>& barrier_;
};

double tree_depth(int ranks) { return std::ceil(std::log2(ranks)); }
double bit_vector_bytes(std::size_t tensors) {
  return 8 * std::ceil((static_cast<double>(tensors) + 3) / 64);
}

}  // namespace

// Runs the ranks as threads of this process, which makes many ranks on several emulated nodes
// possible without a cluster. The counts do not depend on time.
MeasuredTraffic measure_control_traffic(const ControlCase& control) {
  std::mutex mutex;
  MeasuredTraffic all;
  testing::RunOptions options;
  options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(control.ranks_per_node)};
  // The end of a rank sends a message too, so no rank ends before all ranks have read their
  // counters.
  std::barrier counted(control.ranks);
  testing::run_ranks(
      control.ranks,
      [&](Context& ctx) {
        const Leaver leaver(counted);
        const Gradients gradients(control.tensors);
        std::vector<Counters> counters = {ctx.counters()};
        gradients.exchange_by_name(ctx);
        counters.push_back(ctx.counters());
        for (int step = 0; step < kSteps; ++step) gradients.exchange_by_name(ctx);
        counters.push_back(ctx.counters());
        GradientSync sync(ctx, gradients.named());
        sync.exchange();
        counters.push_back(ctx.counters());
        for (int step = 0; step < kSteps; ++step) sync.exchange();
        counters.push_back(ctx.counters());
        counted.arrive_and_wait();
        const std::scoped_lock lock(mutex);
        add(all.first_contact, counters[1] - counters[0], 1);
        add(all.cached, counters[2] - counters[1], 1.0 / kSteps);
        add(all.plan, counters[4] - counters[3], 1.0 / kSteps);
      },
      options);
  return all;
}

// A model of Horovod's protocol with a full cache: in each cycle (1 ms by default) the ranks reduce
// a bit vector.
ControlTraffic horovod_cached(const ControlCase& control, double step_ms) {
  const double of_a_rank = step_ms * tree_depth(control.ranks);
  const double messages = of_a_rank * control.ranks;
  return {messages, messages * bit_vector_bytes(control.tensors), of_a_rank, 0, 0};
}

ControlTraffic horovod_first_contact(const ControlCase& control) {
  const double others = control.ranks - 1;
  const auto tensors = static_cast<double>(control.tensors);
  const double depth = tree_depth(control.ranks);
  const double allreduce = depth * control.ranks;
  const double requests = others * tensors * kRequestBytes;
  const double responses = others * (tensors * kNameBytes + 4.0 * control.ranks);
  return {allreduce + 4 * others,
          allreduce * bit_vector_bytes(0) + requests + responses + others * (4 + 4),
          3 * depth,  // rank 0's, of the allreduce and two broadcasts
          0, 0};
}

}  // namespace horo::bench
