# Configures a project that contains horo, and checks what its `cmake --install` would install.
#   cmake -DSOURCE=tests/install/subproject -DHORO=. -DCOMPILER=c++ -DFOLDER=... -P subproject.cmake
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER} -DHORO=${HORO} -DCMAKE_CXX_COMPILER=${COMPILER} -DHORO_WITH_CUDA=OFF
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE scripts ${FOLDER}/cmake_install.cmake)
foreach(script ${scripts})
  file(READ ${script} text)
  if(NOT script STREQUAL "${FOLDER}/cmake_install.cmake" AND text MATCHES "file\\(INSTALL")
    message(FATAL_ERROR "${script} installs files of horo")
  endif()
endforeach()
