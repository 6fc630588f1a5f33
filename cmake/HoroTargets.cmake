# Compile flags and target functions of horo's own targets.
add_library(horo_compile_flags INTERFACE)
target_compile_options(horo_compile_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers>
  # g++ 12 reports overlaps in std::string's operator+ (GCC bug 105651) and overlong copies that do not exist.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-error=stringop-overflow>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${HORO_WARNINGS_AS_ERRORS}>>:-Werror>
  # A kernel that calls a function of the host compiles with a warning, and the call has no effect.
  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=cross-execution-space-call>)
if(HORO_SANITIZER STREQUAL "address")
  # Two checks of the undefined-behaviour sanitizer are off:
  #   null         an access through a null pointer raises SIGSEGV, which the address sanitizer reports with a stack; only a
  #                null reference that is never used goes undetected
  #   object-size  the address sanitizer detects accesses outside of an object at every optimization level
  set(_sanitize -fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(HORO_SANITIZER STREQUAL "thread")
  set(_sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(HORO_SANITIZER)
  message(FATAL_ERROR "HORO_SANITIZER='${HORO_SANITIZER}' is not known: use address or thread")
endif()
target_compile_options(horo_compile_flags INTERFACE ${_sanitize})
target_link_options(horo_compile_flags INTERFACE ${_sanitize})

# Without a compiler cache, each library precompiles the headers that nearly every file includes.
set(_horo_precompiled <fmt/format.h> <algorithm> <atomic> <chrono> <condition_variable> <functional> <map> <memory> <mutex>
    <optional> <span> <string> <thread> <unordered_map> <vector>)

# horo_library(NAME [COMPONENT component] SOURCES ... [PUBLIC_HEADERS ...]): a static library horo_NAME with the alias
# horo::NAME. Without COMPONENT it is a part of the core: the parts of the core are installed as one library (HoroCore.cmake).
# With COMPONENT it is installed by itself, as a target of that component of find_package(horo).
function(horo_library name)
  cmake_parse_arguments(ARG "" "COMPONENT" "SOURCES;PUBLIC_HEADERS" ${ARGN})
  add_library(horo_${name} STATIC ${ARG_SOURCES})
  add_library(horo::${name} ALIAS horo_${name})
  set_target_properties(horo_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(horo_${name} PUBLIC cxx_std_20)
  target_link_libraries(horo_${name} PRIVATE $<BUILD_INTERFACE:horo_compile_flags>)
  target_include_directories(horo_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(HORO_PRECOMPILE_HEADERS)
    target_precompile_headers(horo_${name} PRIVATE ${_horo_precompiled})
  endif()
  if(ARG_PUBLIC_HEADERS)
    target_sources(horo_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
                   FILES ${ARG_PUBLIC_HEADERS})
  endif()
  if(ARG_COMPONENT)
    horo_install_target(horo_${name} ${ARG_COMPONENT})
  else()
    set_property(GLOBAL APPEND PROPERTY HORO_CORE_PARTS horo_${name})
  endif()
endfunction()

# horo_install_target(TARGET COMPONENT): installs a library and its public headers as a part of a component.
# cmake/components/COMPONENT.cmake lists what its users must have.
function(horo_install_target target component)
  if(HORO_INSTALL)
    install(TARGETS ${target} EXPORT horo_${component}_targets FILE_SET HEADERS
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${component}
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
    set_property(GLOBAL APPEND PROPERTY HORO_COMPONENTS ${component})
  endif()
endfunction()

# horo_link_core(TARGET PARTS...): TARGET, a library of a component, uses the parts of the core. Where horo is installed, it
# uses libhoro in their place.
function(horo_link_core target)
  set(parts ${ARGN})
  list(TRANSFORM parts REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(${target} PUBLIC ${parts} $<INSTALL_INTERFACE:${HORO_INSTALLED_CORE}>)
endfunction()

# horo_install_files(COMPONENT FOLDER FILES...): FOLDER is relative to the prefix.
function(horo_install_files component folder)
  if(HORO_INSTALL)
    install(FILES ${ARGN} DESTINATION ${folder} COMPONENT ${component})
  endif()
endfunction()

# horo_add_objects(TARGET OBJECT_LIBRARY): compiles a part of TARGET as an object library, with flags or a language of its own.
function(horo_add_objects target objects)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  set_property(TARGET ${target} APPEND PROPERTY HORO_OBJECT_LIBRARIES ${objects})
endfunction()

# horo_kernels(TARGET SOURCES...): adds kernels to TARGET. nvcc compiles them for the GPU and the host. Without nvcc the C++
# compiler compiles them for the host only (horo/device/launch.h).
function(horo_kernels target)
  # An object library, so that targets that link TARGET do not need the CUDA language.
  add_library(${target}_kernels OBJECT ${ARGN})
  target_include_directories(${target}_kernels PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target}_kernels PRIVATE horo_compile_flags)
  if(NOT HORO_CUDA_FOUND)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  endif()
  horo_add_objects(${target} ${target}_kernels)
  foreach(source ${ARGN})  # for the fake CUDA (tests/fakes)
    set_property(GLOBAL APPEND PROPERTY HORO_KERNEL_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
endfunction()

# horo_program(NAME SOURCES ... LINK ...): an executable in build/<preset>/bin.
function(horo_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE horo_compile_flags ${ARG_LINK})
endfunction()
