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
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID MATCHES Clang)  # it compares members with constants of other sources, too
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

# perfpred_precompile_headers(<group> <target> <header>...): with CMAKE_UNITY_BUILD, for builds from nothing, the first
# target of a group compiles the headers and the others take them over. They have the same options and definitions.
function(perfpred_precompile_headers group target)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  get_property(first GLOBAL PROPERTY perfpred_${group}_headers)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY perfpred_${group}_headers ${target})
  endif()
endfunction()

# perfpred_compile_soon(<target>): the own sources of a test are not optimised. It names the core first, so that the
# linker takes the core's copies of inline functions, which are.
function(perfpred_compile_soon target)
  set(core perfpred_core)
  if(BUILD_SHARED_LIBS)
    set(core perfpred_core_archive)
  endif()
  target_compile_options(${target} PRIVATE -O0)
  target_link_options(${target} PRIVATE LINKER:--whole-archive,$<TARGET_FILE:${core}>,--no-whole-archive)
endfunction()
