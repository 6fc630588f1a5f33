# A vcpkg port of horo. As an overlay port it builds the sources that it lies in:
#   vcpkg install horo --overlay-ports=scripts/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
if(NOT EXISTS "${SOURCE_PATH}/horo/horo.h")
  message(FATAL_ERROR "${SOURCE_PATH} has no sources of horo: use this port from horo's own tree, or add vcpkg_from_git() here")
endif()
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
  c HORO_BUILD_C
  launcher HORO_BUILD_LAUNCHER
  ops HORO_BUILD_OPS
  train HORO_BUILD_TRAIN)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DHORO_SHARED=${shared} -DHORO_WITH_CUDA=OFF -DHORO_BUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/horo)
vcpkg_fixup_pkgconfig()
if("launcher" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES hororun AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
