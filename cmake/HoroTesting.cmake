# Functions that register tests. There is one CTest per program and, for MPI tests, per number of ranks.
find_package(GTest REQUIRED)

set(HORO_MPI_TEST_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMP_NUM_THREADS=1")
set(_sanitizer_environment
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp"
    "ASAN_OPTIONS=detect_leaks=1" "UBSAN_OPTIONS=print_stacktrace=1")
# Under tsan, messages between ranks that are threads are delayed in every test (horo/testing.h).
if(HORO_SANITIZER STREQUAL "thread")
  list(APPEND _sanitizer_environment "HORO_TEST_DELAY=50us")
endif()

# Compile flags of tests. Tests take most of the compile time, and spend little run time in their own code, so they are
# compiled with little optimization. The undefined-behaviour sanitizer checks the libraries only. Link this target after
# horo_compile_flags.
add_library(horo_test_flags INTERFACE)
if(HORO_SANITIZER STREQUAL "address")
  target_compile_options(horo_test_flags INTERFACE -O0 -fno-sanitize=undefined)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(horo_test_flags INTERFACE -O1)
endif()
# Several files are compiled as one, so a local name may shadow a name of another file.
if(HORO_UNITY_TESTS)
  target_compile_options(horo_test_flags INTERFACE -Wno-shadow)
endif()
# GoogleTest's headers are precompiled once for all tests. horo/testing.h is not among them: its namespace horo::testing
# would hide ::testing in tests that use GoogleTest's names inside namespace horo.
if(HORO_PRECOMPILE_HEADERS)
  add_executable(horo_test_headers ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
  target_link_libraries(horo_test_headers PRIVATE horo_compile_flags horo_test_flags horo::horo GTest::gmock)
  target_precompile_headers(horo_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()
function(horo_precompile_test name)
  if(HORO_PRECOMPILE_HEADERS)
    target_link_libraries(${name} PRIVATE fmt::fmt)  # its definitions must be those with which the headers were precompiled
    target_precompile_headers(${name} REUSE_FROM horo_test_headers)
  endif()
endfunction()

# Sources that many test programs share are compiled once: main() under mpirun, and the check for a GPU.
add_library(horo_mpi_main OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
target_link_libraries(horo_mpi_main PRIVATE horo_compile_flags horo_test_flags GTest::gtest MPI::MPI_CXX)
add_library(horo_gpu_environment OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/gpu_environment.cpp)
target_link_libraries(horo_gpu_environment PRIVATE horo_compile_flags horo_test_flags horo::device GTest::gtest)

# What a test links for main().
set(HORO_TEST_MAIN GTest::gtest_main)
if(HORO_SANITIZER)
  add_library(horo_sanitizer_main OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/sanitizer_main.cpp)
  target_link_libraries(horo_sanitizer_main PRIVATE horo_compile_flags horo_test_flags GTest::gtest)
  set(HORO_TEST_MAIN GTest::gtest $<TARGET_OBJECTS:horo_sanitizer_main>)
endif()

# The targets that the presets asan and tsan build.
add_custom_target(horo_in_process_tests)
add_custom_target(horo_thread_tests)
# The target that scripts/gpu_check.sh builds.
add_custom_target(horo_gpu_tests)

# horo_add_test(NAME SOURCES ... LINK ... [LABEL unit|threads] [WAITS] [TIMEOUT seconds])
# LABEL threads: the test runs several threads, usually one per rank, in its process. asan runs both labels, tsan runs
# threads only. WAITS: the test uses less than one core on average, because it waits for timeouts and messages.
function(horo_add_test name)
  cmake_parse_arguments(ARG "WAITS" "LABEL;TIMEOUT" "SOURCES;LINK;ENVIRONMENT" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_LABEL MATCHES "^(unit|threads)$")
    add_dependencies(horo_in_process_tests ${name})
  endif()
  if(ARG_LABEL STREQUAL threads)
    add_dependencies(horo_thread_tests ${name})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE horo_compile_flags horo_test_flags ${ARG_LINK} GTest::gmock ${HORO_TEST_MAIN})
  horo_precompile_test(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
                       ENVIRONMENT "${_sanitizer_environment};${ARG_ENVIRONMENT}")
  # Ranks that are threads spin while they wait for each other, so another test beside them slows both down.
  if(ARG_LABEL STREQUAL threads AND NOT ARG_WAITS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# A test program that mpirun starts. A rank that fails aborts the job (tests/support/mpi_main.cpp).
# horo_add_mpi_test_program(NAME SOURCES ... LINK ...)
function(horo_add_mpi_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} $<TARGET_OBJECTS:horo_mpi_main>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE horo_compile_flags horo_test_flags ${ARG_LINK} GTest::gmock GTest::gtest MPI::MPI_CXX)
  horo_precompile_test(${name})
endfunction()

# horo_add_mpi_test(NAME SOURCES ... LINK ... RANKS 1 2 3 4 [TIMEOUT seconds])
function(horo_add_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;RANKS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  horo_add_mpi_test_program(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}.${ranks}_ranks
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.${ranks}_ranks PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT}
                         PROCESSORS ${ranks} ENVIRONMENT "${HORO_MPI_TEST_ENVIRONMENT};${ARG_ENVIRONMENT}")
  endforeach()
endfunction()

# Properties of tests that need a GPU, in builds with CUDA. On a machine without a GPU such a test is skipped with a message,
# or fails if HORO_TEST_GPU=required (tests/support/gpu_test.h). The tests run one at a time because they measure device
# memory. Their timeouts are shorter than those of scripts/gpu_check.sh, which runs several of them in sequence.
function(horo_set_gpu_properties test)
  set_tests_properties(${test} PROPERTIES LABELS gpu RESOURCE_LOCK gpu
                       SKIP_REGULAR_EXPRESSION "SKIPPED: this test needs a GPU")
endfunction()

# Lists a program with label gpu for tests/fakes, which links it a second time, with fakes in place of NVIDIA's libraries.
function(horo_note_gpu_program name link ranks)
  set_property(GLOBAL APPEND PROPERTY HORO_GPU_PROGRAMS ${name})
  set_property(GLOBAL PROPERTY HORO_GPU_PROGRAM_LINK_${name} "${link}")
  set_property(GLOBAL PROPERTY HORO_GPU_PROGRAM_RANKS_${name} "${ranks}")
endfunction()

# horo_add_gpu_test(NAME [LAZY] SOURCES ... LINK ...): as horo_add_test, with label gpu. All kernels are loaded at the start:
# a lazy load waits for running kernels, and deadlocks if one of these waits for the kernel that is being loaded. LAZY keeps
# lazy loading, for tests whose kernels do not wait for each other.
function(horo_add_gpu_test name)
  cmake_parse_arguments(ARG "LAZY" "" "SOURCES;LINK" ${ARGN})
  if(HORO_CUDA_FOUND)
    horo_add_test(${name} LABEL gpu TIMEOUT 45 LINK ${ARG_LINK}
                  SOURCES ${ARG_SOURCES} $<TARGET_OBJECTS:horo_gpu_environment>)
    horo_set_gpu_properties(${name})
    if(NOT ARG_LAZY)
      set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "CUDA_MODULE_LOADING=EAGER")
    endif()
    add_dependencies(horo_gpu_tests ${name})
    horo_note_gpu_program(${name} "${ARG_LINK}" "")
  endif()
endfunction()

# horo_add_gpu_mpi_test(NAME SOURCES ... LINK ... RANKS 1 2): as horo_add_mpi_test, with label gpu; ranks may share a GPU.
function(horo_add_gpu_mpi_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;RANKS" ${ARGN})
  if(HORO_CUDA_FOUND)
    horo_add_mpi_test(${name} TIMEOUT 50 LINK ${ARG_LINK} RANKS ${ARG_RANKS}
                      SOURCES ${ARG_SOURCES} $<TARGET_OBJECTS:horo_gpu_environment>)
    foreach(ranks ${ARG_RANKS})
      horo_set_gpu_properties(${name}.${ranks}_ranks)
      set_property(TEST ${name}.${ranks}_ranks APPEND PROPERTY ENVIRONMENT "CUDA_MODULE_LOADING=EAGER"
                   "HORO_GPU_OVERSUBSCRIBE=on")
    endforeach()
    add_dependencies(horo_gpu_tests ${name})
    horo_note_gpu_program(${name} "${ARG_LINK}" "${ARG_RANKS}")
  endif()
endfunction()

# Only one test at a time uses the emulated hosts, so these tests start first (COST). A test is skipped with exit code 77 if this
# machine does not allow network namespaces.
function(horo_set_cluster_properties test)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ENVIRONMENT" ${ARGN})
  set_tests_properties(${test} PROPERTIES LABELS cluster TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
                       RESOURCE_LOCK cluster_lab COST 1000
                       ENVIRONMENT "OMP_NUM_THREADS=1;PYTHONDONTWRITEBYTECODE=1;${ARG_ENVIRONMENT}")
endfunction()

# horo_add_cluster_test(NAME SOURCES ... LINK ... SHAPES 2x1 4x2 [TIMEOUT seconds])
# As horo_add_mpi_test, on emulated hosts: one CTest for each HOSTSxRANKS_PER_HOST.
function(horo_add_cluster_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;SHAPES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # The script's own timeout is shorter than CTest's, so that it can remove the emulated hosts.
  math(EXPR limit "${ARG_TIMEOUT} - 20")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  horo_add_mpi_test_program(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  foreach(shape ${ARG_SHAPES})
    string(REPLACE "x" ";" hosts_and_ranks ${shape})
    add_test(NAME ${name}.${shape}
             COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/cluster/run_in_lab.py ${hosts_and_ranks}
                     ${limit} $<TARGET_FILE:${name}>)
    horo_set_cluster_properties(${name}.${shape} TIMEOUT ${ARG_TIMEOUT})
    set_tests_properties(${name}.${shape} PROPERTIES PROCESSORS 2)
  endforeach()
endfunction()

# horo_add_ptx_test(NAME KERNELS SCRIPT): compiles the .cu file KERNELS to PTX, which shows how kernels access memory, and
# passes the file to SCRIPT, a Python program. Needs no GPU.
function(horo_add_ptx_test name kernels script)
  if(HORO_CUDA_FOUND)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    add_library(${name}_input OBJECT ${PROJECT_SOURCE_DIR}/${kernels})
    target_include_directories(${name}_input PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name}_input PRIVATE horo_compile_flags)
    set_target_properties(${name}_input PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90-virtual)
    add_dependencies(horo_in_process_tests ${name}_input)
    add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script} $<TARGET_OBJECTS:${name}_input>)
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()
