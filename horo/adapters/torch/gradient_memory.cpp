#include "horo/adapters/torch/gradient_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "horo/arena.h"
#include "horo/base/text/log.h"
#include "horo/open_gpu.h"

namespace horo::libtorch {

GradientMemory allocate_gradients(Context& context, std::size_t bytes) {
  if (context.size() > context.node_count()) {  // some ranks share a node
    try {
      const auto arena = std::make_shared<Arena>(context.allocate(bytes));
      return {arena, arena->bytes().data()};
    } catch (const SharedMemoryError& error) {  // on all ranks
      // Not log_warning(): programs that link this library would need fmt.
      if (context.rank() == 0)
        log_message(LogLevel::kWarning,
                    std::string("gradients are exchanged through a staging copy: ") + error.what());
    }
  }
  const std::shared_ptr<void> memory(std::aligned_alloc(kGradientAlignment, bytes), &std::free);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 0, bytes);
  return {memory, static_cast<std::byte*>(memory.get())};
}

GradientMemory allocate_gradients(device::Device& gpu, std::size_t bytes) {
  const auto memory = std::make_shared<device::Memory>(allocate_for_exchange(gpu, bytes));
  return {memory, memory->data()};
}

}  // namespace horo::libtorch
