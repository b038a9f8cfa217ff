# SPDX-License-Identifier: Apache-2.0
# perfpred_compile_options(<target>): language level, warnings, visibility and sanitizers of everything built here.
function(perfpred_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # wrong on string + string (GCC bug 105651)
  endif()
  if(CMAKE_UNITY_BUILD)  # private names of other sources are in sight
    target_compile_options(${target} PRIVATE -Wno-shadow)
  endif()
  if(PERFPRED_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(PERFPRED_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${PERFPRED_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${PERFPRED_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # its check of initialisation is wrong on instrumented code
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()
