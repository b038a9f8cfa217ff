# SPDX-License-Identifier: Apache-2.0
# The C interface: from C++ (c_api_test, c_api_threads_test), and from C programs.
enable_language(C)
foreach(name IN ITEMS c_api_test c_api_threads_test)
  target_link_libraries(${name} PRIVATE perfpred::c)
endforeach()
if(PERFPRED_SANITIZE)  # a sanitized library wants a caller of the same compiler
  return()
endif()

# The program of docs/guides/c_api.md, compiled as it stands there.
perfpred_program_of(docs/guides/c_api.md c c_page.c)

# perfpred_c_program(<name> <source> [flag...]): a test of a C99 program, which gets the path of the library.
function(perfpred_c_program name source)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(${name} PRIVATE -Wall -Wextra -pedantic -Werror ${ARGN})
  add_test(NAME ${name} COMMAND ${name} $<TARGET_FILE:perfpred_c>)
  set_tests_properties(${name} PROPERTIES LABELS core ENVIRONMENT ${test_cache})
  add_dependencies(core_tests ${name})
endfunction()

perfpred_c_program(c_page ${CMAKE_CURRENT_BINARY_DIR}/c_page.c)
perfpred_c_program(c_native ${CMAKE_CURRENT_BINARY_DIR}/c_page.c -march=native)
perfpred_c_program(c_dlopen c/dlopen.c)
target_include_directories(c_dlopen PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(c_dlopen PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(c_dlopen perfpred_c)
foreach(name IN ITEMS c_page c_native)
  target_link_libraries(${name} PRIVATE perfpred::c)
endforeach()
perfpred_c_program(c_sanitized_caller ${CMAKE_CURRENT_BINARY_DIR}/c_page.c -fsanitize=address)  # it alone
target_link_options(c_sanitized_caller PRIVATE -fsanitize=address)
target_link_libraries(c_sanitized_caller PRIVATE perfpred::c)

# Nothing but the C functions is exported, and the ABI is the one of tests/c/libperfpred.abi.
add_test(NAME c_exports COMMAND sh -e ${CMAKE_CURRENT_SOURCE_DIR}/c/exports.sh $<TARGET_FILE:perfpred_c>)
set_tests_properties(c_exports PROPERTIES LABELS core)
add_test(NAME c_abi COMMAND ${PROJECT_SOURCE_DIR}/scripts/c_abi.sh $<TARGET_FILE:perfpred_c>)
set_tests_properties(c_abi PROPERTIES LABELS core SKIP_REGULAR_EXPRESSION "c_abi: skipped")
