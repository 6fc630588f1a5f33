// The functions of cuBLASLt.
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>

#include "tests/fakes/cublas_lt/problem.h"
#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/handles.h"
#include "tests/fakes/cuda/library_call.h"
#include "tests/fakes/cuda/violation.h"

namespace horo::fakes::lt {
namespace {

template <typename Object>
Handles<Object>& handles(const char* name) {
  static auto* handles = new Handles<Object>(name);
  return *handles;
}
auto& contexts() { return handles<cublasLtContext>("handle"); }
auto& layouts() { return handles<Layout>("layout"); }
auto& descriptions() { return handles<Description>("matmul descriptor"); }
auto& preferences() { return handles<Preference>("preference"); }

template <typename Object, typename Opaque>
Opaque* add(Handles<Object>& handles, const Object& object) {
  return reinterpret_cast<Opaque*>(handles.add(std::make_shared<Object>(object)));
}
template <typename Object, typename Opaque>
std::shared_ptr<Object> get(const char* call, Handles<Object>& handles, Opaque* handle) {
  return handles.get(call, reinterpret_cast<Object*>(handle));
}

/// A member that an attribute sets or returns.
struct Field {
  void* data;
  std::size_t bytes;

  template <typename T>
  static Field of(T& member) {
    return {&member, sizeof member};
  }
};

Field field(const char* call, Layout& layout, cublasLtMatrixLayoutAttribute_t which) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return Field::of(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return Field::of(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return Field::of(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return Field::of(layout.leading);
    default:
      violation(call, "a layout", "the fake does not know the attribute");
  }
}

Field field(const char* call, Description& description, cublasLtMatmulDescAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return Field::of(description.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return Field::of(description.scale);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Field::of(description.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Field::of(description.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Field::of(description.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Field::of(description.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Field::of(description.kept);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Field::of(description.kept_leading);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return Field::of(description.multiprocessors);
    default:
      violation(call, "a matmul descriptor", "the fake does not know the attribute");
  }
}

Field field(const char* call, Preference& preference, cublasLtMatmulPreferenceAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Field::of(preference.workspace_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return Field::of(preference.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return Field::of(preference.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return Field::of(preference.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Field::of(preference.alignments[3]);
    default:
      violation(call, "a preference", "the fake does not know the attribute");
  }
}

void require_size(const char* call, const Field& field, std::size_t bytes) {
  if (field.bytes != bytes)
    violation(call, "an attribute",
              fmt::format("the value has {} bytes, and the attribute {}", bytes, field.bytes));
}

cublasStatus_t set(const char* call, const Field& field, const void* value, std::size_t bytes) {
  require_size(call, field, bytes);
  std::memcpy(field.data, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t copy(const char* call, const Field& field, void* value, std::size_t bytes,
                    std::size_t* written) {
  require_size(call, field, bytes);
  std::memcpy(value, field.data, bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// What the heuristic stores in an algorithm.
struct Algorithm {
  static constexpr std::uint64_t kMark = 0x686f726f4c740001;
  std::uint64_t mark, key, workspace_bytes;
  std::array<std::uint32_t, 4> alignments;
  std::uint64_t bias_alignment, kept_alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

constexpr std::size_t kWorkspaceAlignment = 256;
constexpr std::uint64_t kNeededWorkspace = std::uint64_t{64} << 10;

/// The largest power of two that divides the address.
std::uint64_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return value == 0 ? 1 : value & (~value + 1);
}

Problem problem_of(const char* call, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  const Problem problem{*get(call, descriptions(), description), *get(call, layouts(), a),
                        *get(call, layouts(), b), *get(call, layouts(), d)};
  const auto require = [call](bool holds, const char* rule) {
    if (!holds) violation(call, "a product", rule);
  };
  require(*get(call, layouts(), c) == problem.d, "C and D have different layouts");
  problem.check(require);
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  require(problem.description.multiprocessors >= 0 &&
              problem.description.multiprocessors <= multiprocessors,
          "SM_COUNT_TARGET exceeds the multiprocessors of the GPU");
  return problem;
}

/// The algorithms of a problem, best first, that fit into the limits.
std::vector<Algorithm> algorithms_of(const Problem& problem, const Preference& preference) {
  if (!problem.is_supported()) return {};
  std::vector<Algorithm> algorithms;
  for (const std::uint64_t needed : {kNeededWorkspace, std::uint64_t{0}})
    if (needed <= preference.workspace_bytes)
      algorithms.push_back({Algorithm::kMark, problem.key(), needed, preference.alignments,
                            alignment_of(problem.description.bias),
                            alignment_of(problem.description.kept)});
  return algorithms;
}

Algorithm checked(const LibraryCall& call, const Problem& problem,
                  const cublasLtMatmulAlgo_t* opaque) {
  call.require(opaque != nullptr, "the fake needs an algorithm");
  Algorithm algorithm{};
  std::memcpy(&algorithm, opaque, sizeof algorithm);
  call.require(algorithm.mark == Algorithm::kMark, "the algorithm is not of the heuristic");
  call.require(algorithm.key == problem.key(),
               "the heuristic chose the algorithm for another product");
  return algorithm;
}

}  // namespace
}  // namespace horo::fakes::lt

using namespace horo::fakes;      // NOLINT
using namespace horo::fakes::lt;  // NOLINT

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  enter("cublasLtCreate");
  require_no_capture("cublasLtCreate");
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = contexts().add(std::make_shared<cublasLtContext>());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  enter("cublasLtDestroy");
  require_no_capture("cublasLtDestroy");
  contexts().remove("cublasLtDestroy", handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t) { return "a status of the fake cuBLASLt"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the fake cuBLASLt"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  enter("cublasLtMatrixLayoutCreate");
  if (rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows))
    violation("cublasLtMatrixLayoutCreate", "a layout",
              "there are no values, or the leading dimension is less than the rows");
  *layout = add<Layout, cublasLtMatrixLayoutOpaque_t>(layouts(), {type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  enter("cublasLtMatrixLayoutDestroy");
  layouts().remove("cublasLtMatrixLayoutDestroy", reinterpret_cast<Layout*>(layout));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, void* value,
                                                size_t bytes, size_t* written) {
  const char* const call = "cublasLtMatrixLayoutGetAttribute";
  enter(call);
  return copy(call, field(call, *get(call, layouts(), layout), which), value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  enter("cublasLtMatmulDescCreate");
  *description = add<Description, cublasLtMatmulDescOpaque_t>(descriptions(),
                                                              {.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  enter("cublasLtMatmulDescDestroy");
  descriptions().remove("cublasLtMatmulDescDestroy", reinterpret_cast<Description*>(description));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  const char* const call = "cublasLtMatmulDescSetAttribute";
  enter(call);
  return set(call, field(call, *get(call, descriptions(), description), which), value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t which, void* value,
                                              size_t bytes, size_t* written) {
  const char* const call = "cublasLtMatmulDescGetAttribute";
  enter(call);
  return copy(call, field(call, *get(call, descriptions(), description), which), value, bytes,
              written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  enter("cublasLtMatmulPreferenceCreate");
  *preference = add<Preference, cublasLtMatmulPreferenceOpaque_t>(preferences(), {});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  enter("cublasLtMatmulPreferenceDestroy");
  preferences().remove("cublasLtMatmulPreferenceDestroy",
                       reinterpret_cast<Preference*>(preference));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, size_t bytes) {
  const char* const call = "cublasLtMatmulPreferenceSetAttribute";
  enter(call);
  return set(call, field(call, *get(call, preferences(), preference), which), value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  const char* const call = "cublasLtMatmulAlgoGetHeuristic";
  enter(call);
  contexts().get(call, handle);
  const Problem problem = problem_of(call, description, a, b, c, d);
  const auto algorithms = algorithms_of(problem, *get(call, preferences(), preference));
  *returned = std::min(requested, static_cast<int>(algorithms.size()));
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    std::memcpy(&results[i].algo, &algorithms[static_cast<std::size_t>(i)], sizeof(Algorithm));
    results[i].workspaceSize = algorithms[static_cast<std::size_t>(i)].workspace_bytes;
  }
  return *returned == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const char* const name = "cublasLtMatmul";
  LibraryCall call(name, stream);
  contexts().get(name, handle);
  const Problem problem = problem_of(name, description, a_layout, b_layout, c_layout, d_layout);
  const Algorithm algorithm = checked(call, problem, algo);
  call.require(alpha != nullptr && beta != nullptr, "alpha or beta is null");
  const Operands operands{
      a, b, c, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  call.read("A", a, problem.a.bytes(), algorithm.alignments[0]);
  call.read("B", b, problem.b.bytes(), algorithm.alignments[1]);
  if (operands.beta != 0 && c != d) call.read("C", c, problem.d.bytes(), algorithm.alignments[2]);
  call.write("D", d, problem.d.bytes(), algorithm.alignments[3]);
  const Description& own = problem.description;
  if (problem.has_bias())
    call.read("bias", own.bias, problem.bias_bytes(), algorithm.bias_alignment);
  if (problem.has_bias_gradient())
    call.write("bias gradient", own.bias, problem.bias_bytes(), algorithm.bias_alignment);
  if (problem.has_kept_bits() || problem.has_kept_values()) {
    if (problem.writes_kept())
      call.write("aux", own.kept, problem.kept_bytes(), algorithm.kept_alignment);
    else
      call.read("aux", own.kept, problem.kept_bytes(), algorithm.kept_alignment);
  }
  call.use_workspace(workspace, algorithm.workspace_bytes, workspace_bytes, kWorkspaceAlignment);
  call.submit([problem, operands] { compute(problem, operands); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
