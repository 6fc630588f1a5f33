# How tests are registered. One CTest per program (and, for MPI tests, per number of ranks).
find_package(GTest REQUIRED)

set(HORO_MPI_TEST_ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMP_NUM_THREADS=1")
set(_sanitizer_environment
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp"
    "ASAN_OPTIONS=detect_leaks=1" "UBSAN_OPTIONS=print_stacktrace=1")
# Messages between ranks that are threads are late there, in every test (horo/testing.h).
if(HORO_SANITIZER STREQUAL "thread")
  list(APPEND _sanitizer_environment "HORO_TEST_DELAY=50us")
endif()

# How tests are compiled: to be there soon, as they are most of the compiler's work and little of a test's time is spent in
# their own code. Undefined behaviour is looked for in the libraries. Link it after horo_compile_flags.
add_library(horo_test_flags INTERFACE)
if(HORO_SANITIZER STREQUAL "address")
  target_compile_options(horo_test_flags INTERFACE -O0 -fno-sanitize=undefined)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(horo_test_flags INTERFACE -O1)
endif()
# Several files as one: a local name may be another file's.
if(HORO_UNITY_TESTS)
  target_compile_options(horo_test_flags INTERFACE -Wno-shadow)
endif()
# What nearly every test includes is compiled once, for all of them. (Not horo/testing.h, whose namespace would come before
# GoogleTest's in those that use the latter.)
if(HORO_PRECOMPILE_HEADERS)
  add_executable(horo_test_headers ${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp)
  target_link_libraries(horo_test_headers PRIVATE horo_compile_flags horo_test_flags horo::horo GTest::gmock)
  target_precompile_headers(horo_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()
function(horo_precompile_test name)
  if(HORO_PRECOMPILE_HEADERS)
    target_precompile_headers(${name} REUSE_FROM horo_test_headers)
  endif()
endfunction()

# What many programs of tests have in common, compiled once: main() under mpirun, and the need for a GPU.
add_library(horo_mpi_main OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
target_link_libraries(horo_mpi_main PRIVATE horo_compile_flags horo_test_flags GTest::gtest MPI::MPI_CXX)
add_library(horo_gpu_environment OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/gpu_environment.cpp)
target_link_libraries(horo_gpu_environment PRIVATE horo_compile_flags horo_test_flags horo::base GTest::gtest)

# What the presets of the sanitizers build: asan, tsan.
add_custom_target(horo_in_process_tests)
add_custom_target(horo_thread_tests)
# What scripts/gpu_check.sh builds.
add_custom_target(horo_gpu_tests)

# horo_add_test(NAME SOURCES ... LINK ... [LABEL unit|threads] [TIMEOUT seconds])
# LABEL threads: several threads, most often the ranks, work in the test's process. Both labels run under asan,
# threads under tsan as well.
function(horo_add_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK;ENVIRONMENT" ${ARGN})
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
  target_link_libraries(${name} PRIVATE horo_compile_flags horo_test_flags ${ARG_LINK} GTest::gmock GTest::gtest_main)
  horo_precompile_test(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
                       ENVIRONMENT "${_sanitizer_environment};${ARG_ENVIRONMENT}")
endfunction()

# A program of tests that mpirun starts: a failing rank aborts the job (tests/support/mpi_main.cpp).
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

# Tests that need a GPU, of builds with CUDA. Where there is none they are skipped, saying so, or fail if
# HORO_TEST_GPU=required (tests/support/gpu_test.h). One at a time: they measure memory and share a device. Their limits of
# time are shorter than those of scripts/gpu_check.sh, which runs several together.
function(horo_set_gpu_properties test)
  set_tests_properties(${test} PROPERTIES LABELS gpu RESOURCE_LOCK gpu
                       SKIP_REGULAR_EXPRESSION "SKIPPED: this test needs a GPU")
endfunction()

# horo_add_gpu_test(NAME [LAZY] SOURCES ... LINK ...): as horo_add_test, with label gpu. Kernels are loaded before they are
# launched, since loading one waits for those that run, which may wait for a later one; but with LAZY, where none does.
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
  endif()
endfunction()

# A test that uses emulated hosts runs alone, and exit code 77 means that this machine cannot have them.
function(horo_set_cluster_properties test)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ENVIRONMENT" ${ARGN})
  set_tests_properties(${test} PROPERTIES LABELS cluster TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
                       RUN_SERIAL TRUE RESOURCE_LOCK cluster_lab
                       ENVIRONMENT "OMP_NUM_THREADS=1;PYTHONDONTWRITEBYTECODE=1;${ARG_ENVIRONMENT}")
endfunction()

# horo_add_cluster_test(NAME SOURCES ... LINK ... SHAPES 2x1 4x2 [TIMEOUT seconds])
# As horo_add_mpi_test, on emulated hosts: one CTest for each HOSTSxRANKS_PER_HOST.
function(horo_add_cluster_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;SHAPES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # The script ends before CTest would end it, so that it takes the hosts down.
  math(EXPR limit "${ARG_TIMEOUT} - 20")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  horo_add_mpi_test_program(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  foreach(shape ${ARG_SHAPES})
    string(REPLACE "x" ";" hosts_and_ranks ${shape})
    add_test(NAME ${name}.${shape}
             COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/cluster/run_in_lab.py ${hosts_and_ranks}
                     ${limit} $<TARGET_FILE:${name}>)
    horo_set_cluster_properties(${name}.${shape} TIMEOUT ${ARG_TIMEOUT})
  endforeach()
endfunction()
