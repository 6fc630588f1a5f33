#include "horo/device/cuda/nvtx_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <utility>
#include <vector>

namespace {

// A profiler inside the program, which NVTX finds, and its records.
std::vector<std::string> seen;
char its_domain;

nvtxDomainHandle_t create(const char* name) {
  seen.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&its_domain);
}
nvtxRangeId_t start(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  seen.push_back(std::string(attributes->message.ascii) + " " +
                 std::to_string(attributes->payload.ullValue));
  return seen.size();
}
void end(nvtxDomainHandle_t, nvtxRangeId_t range) { seen.push_back("end of " + seen[range - 1]); }

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(start);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}

}  // namespace

namespace horo::device {
namespace {

using ::testing::ElementsAre;

TEST(NvtxRange, ReportsNameNumberAndEnd) {
  InitializeInjectionNvtx2_fnptr = attach;  // NVTX looks there at its first use
  {
    const NvtxRange outer("outer");
    NvtxRange inner("chunk", 7);
    const NvtxRange moved = std::move(inner);
  }
  const std::uint64_t range = begin_nvtx_range(std::string(100, 'x'));
  end_nvtx_range(range);
  end_nvtx_range(0);
  const std::string cut(63, 'x');
  EXPECT_THAT(seen, ElementsAre("domain horo", "outer 0", "chunk 7", "end of chunk 7",
                                "end of outer 0", cut + " 0", "end of " + cut + " 0"));
}

}  // namespace
}  // namespace horo::device
