# SPDX-License-Identifier: Apache-2.0
# What python/pyproject.toml puts into a wheel beside the package: the library, which has the standard model and the
# device catalogue inside, the program `perfpred` (empty: none), which is as whole, the recorded networks, which both find
# in share/, and what the data and the software in them ask to be said; into the environment's own share/, its manual
# pages and completion, which are those of the commands that the program has alone.
function(perfpred_install_wheel library program)
  install(FILES ${library} DESTINATION . RENAME libperfpred.so COMPONENT python EXCLUDE_FROM_ALL)
  if(program)
    install(PROGRAMS ${program} DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
    if(SKBUILD_DATA_DIR)
      install(CODE "set(share \"${SKBUILD_DATA_DIR}/share\")" COMPONENT python EXCLUDE_FROM_ALL)
      install(CODE [[
        execute_process(COMMAND ${CMAKE_INSTALL_PREFIX}/bin/perfpred pages ${share} COMMAND_ERROR_IS_FATAL ANY)
        file(GLOB links ${share}/bash-completion/completions/perfpred-*)
        file(REMOVE ${links})  # of programs that there are not
      ]] COMPONENT python EXCLUDE_FROM_ALL)
    endif()
  endif()
  install(FILES data/devices.NOTICE data/standard_ops.NOTICE data/rank_memory.NOTICE LICENSE THIRD_PARTY.md
          DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY data/networks DESTINATION share/perfpred COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# Makes the targets perfpred_c and perfpred by the build folder `build`, which compiles what is missing there.
function(perfpred_wheel_of_build build)
  add_custom_target(perfpred_c VERBATIM USES_TERMINAL
    COMMAND ${CMAKE_COMMAND} --build ${build} --target perfpred_c --target perfpred)
  add_custom_target(perfpred DEPENDS perfpred_c)
  perfpred_install_wheel(${build}/lib/libperfpred.so.${PERFPRED_C_VERSION} ${build}/bin/perfpred)
endfunction()
