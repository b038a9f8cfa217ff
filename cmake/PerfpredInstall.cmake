# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/perfpred)

# One export set a component, so that `core` is usable where LibTorch is not.
install(DIRECTORY include/perfpred DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        PATTERN torch EXCLUDE PATTERN cbc EXCLUDE PATTERN xgboost EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/perfpred/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred)
install(FILES data/devices.csv data/devices.NOTICE data/standard_ops.json data/standard_ops.NOTICE
        data/rank_memory.NOTICE
        DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred)
install(DIRECTORY data/networks DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred)
install(TARGETS perfpred_core EXPORT perfpred-core)
install(EXPORT perfpred-core FILE perfpred-core.cmake NAMESPACE perfpred:: DESTINATION ${config_dir})
install(TARGETS perfpred_c EXPORT perfpred-c)
install(EXPORT perfpred-c FILE perfpred-c.cmake NAMESPACE perfpred:: DESTINATION ${config_dir})
foreach(component IN ITEMS cbc xgboost)
  if(TARGET perfpred_${component})
    install(DIRECTORY include/perfpred/${component} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred)
    install(TARGETS perfpred_${component} EXPORT perfpred-${component})
    install(EXPORT perfpred-${component} FILE perfpred-${component}.cmake NAMESPACE perfpred::
            DESTINATION ${config_dir})
  endif()
endforeach()
if(TARGET perfpred_torch)
  install(DIRECTORY include/perfpred/torch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perfpred)
  install(TARGETS perfpred_torch EXPORT perfpred-torch)
  install(EXPORT perfpred-torch FILE perfpred-torch.cmake NAMESPACE perfpred:: DESTINATION ${config_dir})
  install(FILES cmake/PerfpredFindTorch.cmake cmake/PerfpredDataLibraries.cmake DESTINATION ${config_dir})
endif()

get_property(programs GLOBAL PROPERTY PERFPRED_PROGRAMS)
if(programs)
  install(TARGETS ${programs})
  get_property(links GLOBAL PROPERTY PERFPRED_PROGRAM_LINKS)
  install(PROGRAMS ${links} TYPE BIN)  # as links
  install(DIRECTORY integrations DESTINATION ${CMAKE_INSTALL_DATADIR}/perfpred)
  if(TARGET perfpred_pages)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL
            PATTERN perfpred EXCLUDE)
  endif()
endif()

configure_package_config_file(cmake/perfpredConfig.cmake.in perfpredConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(perfpredConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/perfpredConfig.cmake ${PROJECT_BINARY_DIR}/perfpredConfigVersion.cmake
              cmake/FindXGBoost.cmake cmake/FindCbc.cmake cmake/FindLibmd.cmake cmake/PerfpredFindLibrary.cmake
        DESTINATION ${config_dir})

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
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES LICENSE THIRD_PARTY.md README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(core_program)
if(TARGET perfpred)
  set(core_program $<TARGET_FILE:perfpred>)
endif()
perfpred_install_wheel($<TARGET_FILE:perfpred_c> "${core_program}")
