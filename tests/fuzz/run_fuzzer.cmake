# Builds one fuzz target with clang and runs it for SECONDS seconds. New inputs and crash inputs are kept in FOLDER.
#   cmake -DCOMPILER=clang++ -DROOT=. -DFUZZ=wire "-DSOURCES=horo/..." -DFOLDER=/tmp/fuzz -DSECONDS=600 -P run_fuzzer.cmake
if(NOT COMPILER)
  message("SKIPPED: there is no clang++ to build fuzz_${FUZZ} with; scripts/install_deps.sh --dev installs it")
  return()
endif()
# clang without its runtime libraries cannot link any target. That is not an error of this target, so skip it.
set(flags -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
file(WRITE ${FOLDER}/empty_${FUZZ}.cpp "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
execute_process(COMMAND ${COMPILER} ${flags} ${FOLDER}/empty_${FUZZ}.cpp -o ${FOLDER}/empty_${FUZZ}
                RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
if(NOT result EQUAL 0)
  message("SKIPPED: ${COMPILER} cannot link an empty libFuzzer target; the package libclang-rt-dev has libFuzzer")
  return()
endif()
set(program ${FOLDER}/fuzz_${FUZZ})
list(TRANSFORM SOURCES PREPEND ${ROOT}/)
file(MAKE_DIRECTORY ${FOLDER}/found_${FUZZ})
execute_process(COMMAND ${COMPILER} ${flags} -I${ROOT} ${ROOT}/tests/fuzz/fuzz_${FUZZ}.cpp ${SOURCES} -lfmt -o ${program}
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "fuzz_${FUZZ} could not be built with ${COMPILER}")
endif()
execute_process(COMMAND ${program} -max_total_time=${SECONDS} -timeout=10 -rss_limit_mb=1024 -max_len=4096
                        -print_final_stats=1 -artifact_prefix=${FOLDER}/ ${FOLDER}/found_${FUZZ}
                        ${ROOT}/tests/fuzz/corpus/${FUZZ}
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "fuzz_${FUZZ} failed: the input is in ${FOLDER}")
endif()
