#include "ops/parallel/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

// The requests of a worker.
constexpr std::int64_t kPull = 1;
constexpr std::int64_t kPush = 2;  // the gradient follows
constexpr std::int64_t kFinish = 3;

int worker_count(const Context& context, const ParameterServerOptions& options) {
  HORO_CHECK(
      options.servers >= 1 && options.servers < context.size(),
      fmt::format("parameter server '{}': options.servers is {} in a job of {} ranks; at least "
                  "one rank must be a server and one a worker",
                  options.name, options.servers, context.size()));
  return context.size() - options.servers;
}

struct Part {
  std::size_t first = 0, count = 0;
};

// The values of server `server`.
Part part_of(std::size_t values, int server, int servers) {
  const auto s = static_cast<std::size_t>(server), n = static_cast<std::size_t>(servers);
  const std::size_t first = values / n * s + std::min(s, values % n);
  return {first, values / n + (s < values % n ? 1 : 0)};
}

std::string message(const ParameterServerOptions& options, const char* what) {
  return options.name + "." + what;
}

std::size_t count_values(Layer& model) {
  std::size_t count = 0;
  for (const Parameter* parameter : model.parameters()) count += parameter->value.count();
  return count;
}

}  // namespace

bool is_server(const Context& context, const ParameterServerOptions& options) {
  return context.rank() >= worker_count(context, options);
}

struct ParameterServer::Event {
  enum class Kind { kRequest, kGradient };
  Kind kind = Kind::kRequest;
  std::size_t worker = 0;
  std::exception_ptr error;
};

struct ParameterServer::Worker {
  std::int64_t request = 0;
  Tensor gradient, reply;
  Handle reply_handle;
  bool is_waiting = false;             // for values
  std::uint64_t updates_at_reply = 0;  // ServerReport::updates when the values were sent
};

/// The memory of the messages in flight, and those that have arrived, in this order. Callbacks, on
/// a thread of the Context, add events and keep this object alive. A server that fails therefore
/// need not wait for the messages, which end only after its Context has been destroyed.
class ParameterServer::Messages {
 public:
  std::vector<Worker> workers;

  void add(Event event) {
    {
      const std::scoped_lock lock(mutex_);
      events_.push_back(std::move(event));
    }
    changed_.notify_one();
  }
  /// Blocks until there is an event. Throws its error. Needs no timeout, because a message that
  /// does not arrive ends with an error.
  Event take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !events_.empty(); });
    Event event = std::move(events_.front());
    events_.pop_front();
    if (event.error != nullptr) std::rethrow_exception(event.error);
    return event;
  }

 private:
  std::mutex mutex_;  // guards events_
  std::condition_variable changed_;
  std::deque<Event> events_;
};

ParameterServer::ParameterServer(Context& context, const ParameterServerOptions& options,
                                 std::size_t parameters, const MakeOptimizer& make_optimizer)
    : context_(context),
      options_(options),
      clock_(static_cast<std::size_t>(worker_count(context, options)), options.staleness),
      messages_(std::make_shared<Messages>()) {
  HORO_CHECK(is_server(context, options), fmt::format("parameter server '{}': rank {} is a worker",
                                                      options.name, context.rank()));
  const Part part =
      part_of(parameters, context.rank() - worker_count(context, options), options.servers);
  part_ = {.name = "part", .value = Tensor::zeros({part.count}), .gradient = Tensor()};
  part_.gradient = Tensor::zeros({part.count});
  optimizer_ = make_optimizer({&part_});
  HORO_CHECK(!optimizer_->needs_whole_parameters(),
             fmt::format("parameter server '{}': the update of this optimizer needs whole "
                         "parameters, but a server has a part of all of them",
                         options.name));
  messages_->workers.resize(clock_.workers());
  for (Worker& worker : messages_->workers) {
    worker.gradient = Tensor({part.count});
    worker.reply = Tensor({part.count});
  }
}

ParameterServer::~ParameterServer() = default;

ParameterServer::Worker& ParameterServer::worker(std::size_t number) {
  return messages_->workers[number];
}

ServerReport ParameterServer::run() {
  context_.recv(part_.value.view(), {.name = message(options_, "initial"), .from = 0});
  for (std::size_t w = 0; w < clock_.workers(); ++w) receive_request(w);
  while (!clock_.have_all_finished()) {
    handle(messages_->take());
    answer_waiting();
  }
  for (std::size_t w = 0; w < clock_.workers(); ++w) {
    report_.steps.push_back(clock_.clock(w));
    send_values(w);
  }
  for (const Worker& each : messages_->workers) each.reply_handle.wait();
  return report_;
}

void ParameterServer::receive_request(std::size_t from) {
  context_
      .recv_async(TensorView(&worker(from).request, {1}),
                  {.name = message(options_, "request"), .from = static_cast<int>(from)})
      .then([messages = messages_, from](const std::exception_ptr& error) {
        messages->add({Event::Kind::kRequest, from, error});
      });
}

void ParameterServer::handle(const Event& event) {
  const std::size_t from = event.worker;
  if (event.kind == Event::Kind::kGradient) return apply_gradient(from);
  if (worker(from).request == kFinish) return clock_.finish(from);
  if (worker(from).request == kPull) {
    worker(from).is_waiting = true;
    if (!clock_.may_start(from)) ++report_.waits;
    return receive_request(from);
  }
  context_
      .recv_async(worker(from).gradient.view(),
                  {.name = message(options_, "gradient"), .from = static_cast<int>(from)})
      .then([messages = messages_, from](const std::exception_ptr& error) {
        messages->add({Event::Kind::kGradient, from, error});
      });
}

void ParameterServer::apply_gradient(std::size_t from) {
  std::swap(part_.gradient, worker(from).gradient);
  optimizer_->step();
  report_.largest_age =
      std::max(report_.largest_age, report_.updates - worker(from).updates_at_reply);
  ++report_.updates;
  clock_.complete(from);
  receive_request(from);
}

void ParameterServer::answer_waiting() {
  for (std::size_t w = 0; w < clock_.workers(); ++w) {
    if (!worker(w).is_waiting || !clock_.may_start(w)) continue;
    report_.largest_lead = std::max(report_.largest_lead, clock_.lead(w));
    send_values(w);
  }
}

// Sends a copy, because the values change while it is in flight. The previous copy has arrived,
// because the worker has made another request since.
void ParameterServer::send_values(std::size_t to) {
  Worker& target = worker(to);
  target.reply_handle.wait();
  std::ranges::copy(part_.value.values(), target.reply.values().begin());
  target.reply_handle = context_.send_async(
      target.reply.view(), {.name = message(options_, "values"), .to = static_cast<int>(to)});
  target.reply_handle.then([messages = messages_](const std::exception_ptr&) {});
  target.is_waiting = false;
  target.updates_at_reply = report_.updates;
}

ParameterWorker::ParameterWorker(Context& context, Layer& model,
                                 const ParameterServerOptions& options)
    : context_(context), model_(model), options_(options), buffers_(std::make_shared<Buffers>()) {
  buffers_->values.resize(count_values(model));
  buffers_->gradients.resize(buffers_->values.size());
  HORO_CHECK(!is_server(context, options), fmt::format("parameter server '{}': rank {} is a server",
                                                       options.name, context.rank()));
  if (context.rank() != 0) return;
  auto to = buffers_->values.begin();
  for (Parameter* parameter : model.parameters())
    to = std::ranges::copy(parameter->value.values(), to).out;
  for (int server = 0; server < options.servers; ++server) {
    const Part part = part_of(buffers_->values.size(), server, options.servers);
    context.send(
        TensorView(buffers_->values.data() + part.first, {part.count}),
        {.name = message(options, "initial"), .to = worker_count(context, options) + server});
  }
}

void ParameterWorker::pull() {
  wait_for_sends();
  send_request(kPull);
  receive_values();
}

void ParameterWorker::push() {
  wait_for_sends();
  auto to = buffers_->gradients.begin();
  for (Parameter* parameter : model_.parameters())
    to = std::ranges::copy(parameter->gradient.values(), to).out;
  send_request(kPush);
  for (int server = 0; server < options_.servers; ++server) {
    const Part part = part_of(buffers_->gradients.size(), server, options_.servers);
    send(TensorView(buffers_->gradients.data() + part.first, {part.count}), "gradient", server);
  }
}

void ParameterWorker::finish() {
  wait_for_sends();
  send_request(kFinish);
  receive_values();
}

void ParameterWorker::send_request(std::int64_t kind) {
  buffers_->request = kind;
  for (int server = 0; server < options_.servers; ++server)
    send(TensorView(&buffers_->request, {1}), "request", server);
}

void ParameterWorker::send(const TensorView& tensor, const char* what, int server) {
  const Handle& sent = sends_.emplace_back(context_.send_async(
      tensor, {.name = message(options_, what), .to = worker_count(context_, options_) + server}));
  sent.then([buffers = buffers_](const std::exception_ptr&) {});
}

void ParameterWorker::receive_values() {
  std::vector<Handle> handles;
  for (int server = 0; server < options_.servers; ++server) {
    const Part part = part_of(buffers_->values.size(), server, options_.servers);
    handles.push_back(context_.recv_async(
        TensorView(buffers_->values.data() + part.first, {part.count}),
        {.name = message(options_, "values"), .from = worker_count(context_, options_) + server}));
    handles.back().then([buffers = buffers_](const std::exception_ptr&) {});
  }
  for (const Handle& handle : handles) handle.wait();
  auto from = buffers_->values.cbegin();
  for (Parameter* parameter : model_.parameters()) {
    const auto count = static_cast<std::ptrdiff_t>(parameter->value.count());
    std::copy(from, from + count, parameter->value.values().begin());
    from += count;
  }
}

void ParameterWorker::wait_for_sends() {
  for (const Handle& handle : std::exchange(sends_, {})) handle.wait();
}

}  // namespace horo::ops
