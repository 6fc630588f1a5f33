#include "horo/device/cuda/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

#include <array>

namespace horo::device {
namespace {

// Null if no profiler is attached.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("horo");
  return domain;
}

}  // namespace

std::uint64_t begin_nvtx_range(std::string_view name, std::uint64_t number) noexcept {
  if (domain() == nullptr) return 0;
  std::array<char, 64> text{};
  name.copy(text.data(), text.size() - 1);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.data();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = number;
  return nvtxDomainRangeStartEx(domain(), &attributes);
}

void end_nvtx_range(std::uint64_t range) noexcept {
  if (range != 0) nvtxDomainRangeEnd(domain(), range);
}

}  // namespace horo::device
