# SPDX-License-Identifier: Apache-2.0
# Builds failing_tests and checks what CTest says of each:
#   cmake -DSOURCE= -DBINARY= -DGENERATOR= -DCOMPILER= -P expect_failures.cmake
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} COMMAND_ERROR_IS_FATAL ANY)

function(expect test words code)
  execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${BINARY} -R "^${test}$" --no-tests=error
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
  if(NOT said MATCHES "${words}" OR NOT result EQUAL code)
    message(FATAL_ERROR "CTest ended with ${result}, not with ${code}, or did not say \"${words}\":\n${said}")
  endif()
endfunction()

expect(passes "   Passed" 0)
expect(skips "Skipped" 0)
expect(fails "[*]Failed" 8)
expect(fails_and_skips "[*]Failed" 8)
expect(crashes "[*]Exception" 8)
expect(is_empty "[*]Failed" 8)
