# SPDX-License-Identifier: Apache-2.0
# The component of a rule is the package of Debian that has the file; `plugins` are in none, and `python` is the wheel.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/perfpred)
set(for_users COMPONENT libperfpred-dev)  # what they build with

# perfpred_install_library(<name> <component> [<target>...]): the targets, as the export set perfpred-<name>, so that
# `core` is usable where LibTorch is not. The component has a library's versioned names.
function(perfpred_install_library name component)
  install(TARGETS ${ARGN} EXPORT perfpred-${name}
          LIBRARY COMPONENT ${component} NAMELINK_COMPONENT libperfpred-dev
          ARCHIVE ${for_users})
  install(EXPORT perfpred-${name} FILE perfpred-${name}.cmake NAMESPACE perfpred:: DESTINATION ${config_dir}
          ${for_users})
endfunction()

install(DIRECTORY include/perfpred DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${for_users}
        PATTERN torch EXCLUDE PATTERN cbc EXCLUDE PATTERN xgboost EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/perfpred/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred
        ${for_users})
install(FILES data/devices.csv data/devices.NOTICE data/standard_ops.json data/standard_ops.NOTICE
        data/rank_memory.NOTICE
        DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred COMPONENT perfpred-data)
install(DIRECTORY data/networks DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred COMPONENT perfpred-data)
perfpred_install_library(core libperfpred-core perfpred_core)
perfpred_install_library(c libperfpred perfpred_c)
if(TARGET perfpred_core_archive)  # beside the shared library
  perfpred_install_library(core_static libperfpred-dev perfpred_core_archive)
endif()
foreach(plugin IN ITEMS cbc xgboost torch)
  if(TARGET perfpred_${plugin})
    install(DIRECTORY include/perfpred/${plugin} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred COMPONENT plugins)
    install(TARGETS perfpred_${plugin} EXPORT perfpred-${plugin} COMPONENT plugins)
    install(EXPORT perfpred-${plugin} FILE perfpred-${plugin}.cmake NAMESPACE perfpred:: DESTINATION ${config_dir}
            COMPONENT plugins)
  endif()
endforeach()
if(TARGET perfpred_torch)
  install(FILES cmake/PerfpredFindTorch.cmake cmake/PerfpredDataLibraries.cmake DESTINATION ${config_dir}
          COMPONENT plugins)
endif()

get_property(programs GLOBAL PROPERTY PERFPRED_PROGRAMS)
if(programs)
  install(TARGETS ${programs} COMPONENT perfpred)
  get_property(links GLOBAL PROPERTY PERFPRED_PROGRAM_LINKS)
  install(PROGRAMS ${links} TYPE BIN COMPONENT perfpred)  # as links
  install(DIRECTORY integrations DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred COMPONENT perfpred)
  if(TARGET perfpred_pages)
    foreach(folder IN ITEMS bash-completion fish man zsh)
      install(DIRECTORY ${PROJECT_BINARY_DIR}/share/${folder} DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT perfpred
              OPTIONAL)
    endforeach()
  endif()
endif()

configure_package_config_file(cmake/perfpredConfig.cmake.in perfpredConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(perfpredConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/perfpredConfig.cmake ${PROJECT_BINARY_DIR}/perfpredConfigVersion.cmake
              cmake/FindXGBoost.cmake cmake/FindCbc.cmake cmake/FindLibmd.cmake cmake/PerfpredFindLibrary.cmake
        DESTINATION ${config_dir} ${for_users})

# Relative to the file itself, so that the installed folder may be moved.
cmake_path(SET pc_dir NORMALIZE ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_to_prefix)
set(pc_prefix "\${pcfiledir}/${pc_to_prefix}")
set(pc_requires Requires.private)
if(NOT BUILD_SHARED_LIBS)  # a static library hands on what it links
  set(pc_requires Requires)
endif()
foreach(package IN ITEMS perfpred perfpred-core)
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${for_users})
endforeach()
install(FILES LICENSE THIRD_PARTY.md README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT perfpred)

set(core_program)
if(TARGET perfpred)
  set(core_program $<TARGET_FILE:perfpred>)
endif()
perfpred_install_wheel($<TARGET_FILE:perfpred_c> "${core_program}")

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall VERBATIM
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
            -P ${PROJECT_SOURCE_DIR}/cmake/Uninstall.cmake)
endif()
