#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/optim/optimizer.h"
#include "ops/parallel/staleness_clock.h"

namespace horo::ops {

/// Asynchronous training with dedicated servers: the last `servers` ranks of a job keep the
/// parameters, the other ranks are workers. A worker repeats pull(), its forward and backward pass,
/// and push(). The servers apply each gradient when it arrives, so workers do not wait for each
/// other, except that none is more than `staleness` steps ahead of the slowest (StalenessClock).
/// Updates depend on timing, so runs differ. Each server has an equal part of all parameters as one
/// vector.
///
/// Cost of a step: a worker sends its gradients and receives the parameters once. A server with w
/// workers transfers w times as much of its part.
///
/// A worker or server that dies ends the job, with its name, like in a collective. Then, and if a
/// worker shuts down without finish(), the functions below throw. While a worker computes, the
/// servers wait for it: HORO_STALL_WARNING and HORO_TIMEOUT should be longer than a step.
///
/// Source: Li et al., "Scaling distributed machine learning with the parameter server" (2014), and
/// Ho et al. (2013).
struct ParameterServerOptions {
  int servers = 1;                        ///< at least 1 and less than the number of ranks
  std::uint64_t staleness = 4;            ///< steps; 0: workers advance together
  std::string name = "parameter_server";  ///< of the messages
};

/// Whether this rank is a server. Throws InvalidArgument if `servers` is out of range.
bool is_server(const Context& context, const ParameterServerOptions& options);

/// What a server has done.
struct ServerReport {
  std::uint64_t updates = 0;       ///< gradients that it has applied
  std::uint64_t largest_lead = 0;  ///< of a worker that started a step; at most `staleness`
  std::uint64_t waits = 0;         ///< pulls that had to wait for a slower worker
  /// The largest number of updates by other workers between the pull and the push of a step.
  std::uint64_t largest_age = 0;
  std::vector<std::uint64_t> steps;  ///< of each worker
};

/// A server rank. Used from one thread.
class ParameterServer {
 public:
  /// Makes the optimizer of the part of this server: one parameter of one dimension. The update of
  /// a value must not depend on other values (Optimizer::needs_whole_parameters()).
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>)>;

  /// Borrows `context`. `parameters` is the number of values of the model, equal on all ranks.
  /// Throws InvalidArgument on a worker.
  ParameterServer(Context& context, const ParameterServerOptions& options, std::size_t parameters,
                  const MakeOptimizer& make_optimizer);
  ~ParameterServer();

  /// Serves the workers until all of them have called finish(). Blocks.
  ServerReport run();

 private:
  struct Event;
  struct Worker;
  class Messages;

  Worker& worker(std::size_t number);
  void receive_request(std::size_t from);
  void handle(const Event& event);
  void apply_gradient(std::size_t from);
  void answer_waiting();
  void send_values(std::size_t to);

  Context& context_;
  const ParameterServerOptions options_;
  StalenessClock clock_;
  Parameter part_;
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<Messages> messages_;  // shared with the messages in flight
  ServerReport report_;
};

/// A worker rank. Used from one thread.
class ParameterWorker {
 public:
  /// Borrows both; `model` is in host memory. The parameters of rank 0 are the initial ones.
  /// Throws InvalidArgument on a server.
  ParameterWorker(Context& context, Layer& model, const ParameterServerOptions& options);
  /// Replaces the parameters by those of the servers. Blocks until this rank may start a step.
  void pull();
  /// Sends the gradients of the parameters, which may change when push() has returned.
  void push();
  /// Ends the part of this rank in the training. Blocks until all workers have called finish().
  /// The parameters are then the final ones, equal on all workers.
  void finish();

 private:
  void send_request(std::int64_t kind);
  void send(const TensorView& tensor, const char* what, int server);
  void receive_values();
  void wait_for_sends();

  Context& context_;
  Layer& model_;
  const ParameterServerOptions options_;
  // Shared with the messages in flight.
  struct Buffers {
    std::vector<float> values, gradients;  // of all parameters
    std::int64_t request = 0;
  };
  std::shared_ptr<Buffers> buffers_;
  std::vector<Handle> sends_;
};

}  // namespace horo::ops
