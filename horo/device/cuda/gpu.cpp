#include "horo/device/gpu.h"

#include <fmt/format.h>

#include <cstdint>
#include <mutex>
#include <utility>

#include "horo/base/error.h"
#include "horo/device/cuda/cuda_check.h"
#include "horo/device/cuda/gpu_graphs.h"
#include "horo/device/cuda/gpu_signal.h"
#include "horo/device/outside_of_captures.h"

namespace horo::device {
namespace {

class GpuEvent : public Event {
 public:
  explicit GpuEvent(unsigned flags) { HORO_CUDA(cudaEventCreateWithFlags(&event_, flags)); }
  ~GpuEvent() override { cudaEventDestroy(event_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  bool is_done() const override {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    HORO_CUDA(state);
    return true;
  }
  void synchronize() const override { HORO_CUDA(cudaEventSynchronize(event_)); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Host work in the order of a stream. CUDA calls the work on one of CUDA's threads, through a C
// interface. Exceptions must not cross that interface.
class HostWork {
 public:
  // The first failure of the host work of a stream. Thread-safe.
  class Failure {
   public:
    void keep(std::string text) {
      const std::scoped_lock lock(mutex_);
      text_ = std::move(text);
    }
    std::string text() const {
      const std::scoped_lock lock(mutex_);
      return text_;
    }

   private:
    mutable std::mutex mutex_;
    std::string text_;
  };

  HostWork(std::function<void()> work, std::shared_ptr<Failure> failure)
      : work_(std::move(work)), failure_(std::move(failure)) {}

  // Runs and deletes `given`, a HostWork.
  static void CUDART_CB run(void* given) noexcept {
    const std::unique_ptr<HostWork> own(static_cast<HostWork*>(given));
    own->run();
  }
  // The same in a graph, which owns the work and may run it many times.
  static void CUDART_CB run_in_graph(void* kept) noexcept { static_cast<HostWork*>(kept)->run(); }

 private:
  void run() noexcept {
    if (!failure_->text().empty()) return;
    try {
      work_();
    } catch (const std::exception& error) {
      failure_->keep(error.what());
    }
  }

  std::function<void()> work_;
  std::shared_ptr<Failure> failure_;
};

class GpuStream : public Stream {
 public:
  GpuStream(cudaStream_t stream, bool is_owned, std::shared_ptr<GpuGraphs> graphs)
      : stream_(stream), is_owned_(is_owned), graphs_(std::move(graphs)) {}
  ~GpuStream() override {
    if (is_owned_) cudaStreamDestroy(stream_);
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  void record(Event& event) override {
    check_host_work();
    HORO_CUDA(cudaEventRecord(static_cast<GpuEvent&>(event).get(), stream_));
  }
  void wait(const Event& event) override {
    check_host_work();
    HORO_CUDA(cudaStreamWaitEvent(stream_, static_cast<const GpuEvent&>(event).get(), 0));
  }
  void wait(const Signal& signal, std::uint32_t number) override {
    check_host_work();
    if (captured_in() != nullptr)
      throw DeviceError("a stream that is being captured waits for a signal");
    static_cast<const GpuSignal&>(signal).add_wait(stream_, number);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    check_host_work();
    HORO_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
  }
  void fill(void* to, int value, std::size_t bytes) override {
    check_host_work();
    HORO_CUDA(cudaMemsetAsync(to, value, bytes, stream_));
  }
  void run_on_host(std::function<void()> work) override {
    check_host_work();
    if (failure_ == nullptr) failure_ = std::make_shared<HostWork::Failure>();
    auto owned = std::make_unique<HostWork>(std::move(work), failure_);
    if (const auto capture = captured_in()) {
      HORO_CUDA(cudaLaunchHostFunc(stream_, HostWork::run_in_graph, owned.get()));
      // The graph may run the work many times, so the graph owns the work.
      return capture->keep(std::shared_ptr<HostWork>(std::move(owned)));
    }
    HORO_CUDA(cudaLaunchHostFunc(stream_, HostWork::run, owned.get()));
    // CUDA owns the work from here on: run() deletes it.
    (void)owned.release();
  }
  bool is_idle() const override {
    check_host_work();
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) return false;
    HORO_CUDA(state);
    return true;
  }
  void synchronize() override {
    HORO_CUDA(cudaStreamSynchronize(stream_));
    check_host_work();
  }
  void* native() const override { return stream_; }
  std::shared_ptr<Capture> captured_in() const override { return graphs_->of(stream_); }

 private:
  // CUDA gives a host function no way to report an error, so each later call of the stream checks
  // for an error.
  void check_host_work() const {
    if (failure_ == nullptr) return;
    if (const std::string text = failure_->text(); !text.empty()) throw DeviceError(text);
  }

  cudaStream_t stream_;
  bool is_owned_;
  std::shared_ptr<HostWork::Failure> failure_;  // null if there was no host work
  std::shared_ptr<GpuGraphs> graphs_;
};

class Gpu : public Device {
 public:
  explicit Gpu(int index) : index_(index) {
    HORO_CUDA(cudaSetDevice(index));
    cudaDeviceProp properties{};
    HORO_CUDA(cudaGetDeviceProperties(&properties, index));
    name_ = properties.name;
    multiprocessors_ = static_cast<unsigned>(properties.multiProcessorCount);
  }

  std::string describe() const override { return fmt::format("{} (GPU {})", name_, index_); }
  int index() const { return index_; }
  void make_current() override { HORO_CUDA(cudaSetDevice(index_)); }
  void serve_thread() override {
    make_current();
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    HORO_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  }
  unsigned full_grid() const override { return multiprocessors_ * kBlocksPerMultiprocessor; }

  // Functions that use CUDA's current device select this device first, because the calling thread
  // may have selected another device.
  std::unique_ptr<Stream> make_stream(Priority priority) override {
    HORO_CUDA(cudaSetDevice(index_));
    int lowest = 0, highest = 0;
    HORO_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    cudaStream_t stream = nullptr;
    HORO_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                           priority == Priority::kHigh ? highest : lowest));
    return std::make_unique<GpuStream>(stream, true, graphs_);
  }
  std::unique_ptr<Stream> borrow_stream(void* native) override {
    return std::make_unique<GpuStream>(static_cast<cudaStream_t>(native), false, graphs_);
  }
  std::unique_ptr<Event> make_event() override {
    HORO_CUDA(cudaSetDevice(index_));
    return std::make_unique<GpuEvent>(cudaEventDisableTiming);
  }
  std::unique_ptr<Event> make_timed_event() override {
    HORO_CUDA(cudaSetDevice(index_));
    return std::make_unique<GpuEvent>(cudaEventDefault);
  }
  std::unique_ptr<Signal> make_signal() override {
    return std::make_unique<GpuSignal>(allocate_pinned(sizeof(std::uint32_t)));
  }
  double milliseconds_between(const Event& first, const Event& second) const override {
    float milliseconds = 0;
    HORO_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<const GpuEvent&>(first).get(),
                                   static_cast<const GpuEvent&>(second).get()));
    return static_cast<double>(milliseconds);
  }
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& work) override {
    HORO_CUDA(cudaSetDevice(index_));
    return graphs_->capture(static_cast<cudaStream_t>(stream.native()), work);
  }
  Memory allocate(std::size_t bytes) override {
    HORO_CUDA(cudaSetDevice(index_));
    const OutsideOfCaptures allowed;
    void* data = nullptr;
    check_allocation(cudaMalloc(&data, bytes), bytes, "of memory");
    return {data, bytes, [](void* memory) noexcept {
              const OutsideOfCaptures allowed_too;
              cudaFree(memory);
            }};
  }
  Memory allocate_pinned(std::size_t bytes) override {
    HORO_CUDA(cudaSetDevice(index_));
    const OutsideOfCaptures allowed;
    void* data = nullptr;
    check_allocation(cudaMallocHost(&data, bytes), bytes, "of pinned host memory");
    return {data, bytes, [](void* memory) noexcept {
              const OutsideOfCaptures allowed_too;
              cudaFreeHost(memory);
            }};
  }
  bool owns(const void* address) const override {
    cudaPointerAttributes attributes{};
    // Older versions of CUDA report an error for host memory that CUDA did not allocate. The error
    // must not remain as the last error of the thread.
    if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    return attributes.device == index_ &&
           (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
  }

 private:
  static constexpr unsigned kBlocksPerMultiprocessor = 4;

  void check_allocation(cudaError_t result, std::size_t bytes, const char* what) const {
    if (result == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      throw DeviceError(fmt::format("{} cannot allocate {} bytes {}: {} of {} bytes are free",
                                    describe(), bytes, what, free, total));
    }
    check_cuda(result, "an allocation");
  }

  int index_;
  std::string name_;
  std::shared_ptr<GpuGraphs> graphs_ = std::make_shared<GpuGraphs>();
  unsigned multiprocessors_ = 0;
};

}  // namespace

bool is_built_with_gpus() noexcept { return true; }

int count_gpus() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

namespace {

std::string address_of(int index) {
  char address[32] = {};
  cudaDeviceGetPCIBusId(address, sizeof address, index);
  return address;
}

}  // namespace

std::vector<std::string> gpu_addresses() noexcept {
  std::vector<std::string> addresses;
  for (int index = 0; index < count_gpus(); ++index) addresses.push_back(address_of(index));
  return addresses;
}

std::string gpu_address(const Device& device) noexcept {
  const auto* const gpu = dynamic_cast<const Gpu*>(&device);
  return gpu == nullptr ? std::string() : address_of(gpu->index());
}

std::unique_ptr<Device> open_gpu(int index) {
  const int count = count_gpus();
  if (index < 0 || index >= count)
    throw DeviceError(fmt::format("there is no GPU {}: this process sees {}", index, count));
  return std::make_unique<Gpu>(index);
}

}  // namespace horo::device
