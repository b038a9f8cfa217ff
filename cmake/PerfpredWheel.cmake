# SPDX-License-Identifier: Apache-2.0
# What python/pyproject.toml puts into a wheel beside the package: the library alone, which has the standard model and
# the device catalogue inside, and what its data and the software in it ask to be said.
function(perfpred_install_wheel library)
  install(FILES ${library} DESTINATION . RENAME libperfpred.so COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES data/devices.NOTICE data/standard_ops.NOTICE data/rank_memory.NOTICE LICENSE THIRD_PARTY.md
          DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# Makes the target perfpred_c by the build folder `build`, which compiles what is missing there.
function(perfpred_wheel_of_build build)
  add_custom_target(perfpred_c COMMAND ${CMAKE_COMMAND} --build ${build} --target perfpred_c VERBATIM USES_TERMINAL)
  perfpred_install_wheel(${build}/lib/libperfpred.so.${PROJECT_VERSION})
endfunction()
