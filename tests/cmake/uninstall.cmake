# SPDX-License-Identifier: Apache-2.0
# Manual pages and completion are installed; the target `uninstall` removes every file of an installation, and nothing of
# the user's:
#   cmake -DBINARY= (the build folder) -DPREFIX= (a folder to make, called perfpred) -P uninstall.cmake
function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${PREFIX})
run(${CMAKE_COMMAND} --install ${BINARY} --prefix ${PREFIX})
file(GLOB_RECURSE installed ${PREFIX}/*)
list(LENGTH installed count)
if(count LESS 100)  # the recorded networks alone are more
  message(FATAL_ERROR "only ${count} files were installed")
endif()
file(GLOB pages RELATIVE ${BINARY}/share ${BINARY}/share/man/man1/perfpred.1 ${BINARY}/share/bash-completion/*/*
     ${BINARY}/share/fish/*/* ${BINARY}/share/zsh/*/*)
foreach(page IN LISTS pages)  # none where the sanitizers build
  if(NOT EXISTS ${PREFIX}/share/${page})
    message(SEND_ERROR "share/${page} was not installed")
  endif()
endforeach()
file(WRITE "${PREFIX}/share/perfpred/networks/own [1].csv" "a user's")
run(${CMAKE_COMMAND} --build ${BINARY} --target uninstall)
file(GLOB_RECURSE left RELATIVE ${PREFIX} LIST_DIRECTORIES true ${PREFIX}/*)
if(NOT left STREQUAL "share;share/perfpred;share/perfpred/networks;share/perfpred/networks/own [1].csv")
  message(FATAL_ERROR "left behind: ${left}")
endif()
file(REMOVE "${PREFIX}/share/perfpred/networks/own [1].csv")
run(${CMAKE_COMMAND} --build ${BINARY} --target uninstall)  # again: nothing to remove but folders
if(EXISTS ${PREFIX})
  message(FATAL_ERROR "${PREFIX} is still there")
endif()
