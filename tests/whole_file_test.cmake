# SPDX-License-Identifier: Apache-2.0
# perfpred_whole_file_test(<name>): CTest runs all tests of the program <name> in one process. It reports a failure if
# one fails or the process dies, and "skipped" only if all of them skipped themselves.
add_library(perfpred_whole_file_main STATIC ${CMAKE_CURRENT_LIST_DIR}/whole_file_main.cpp)
target_link_libraries(perfpred_whole_file_main PUBLIC GTest::gtest)
target_compile_features(perfpred_whole_file_main PUBLIC cxx_std_20)

function(perfpred_whole_file_test name)
  target_link_libraries(${name} PRIVATE perfpred_whole_file_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
