# SPDX-License-Identifier: Apache-2.0
# perfpred_component(<name> SOURCES <source>... [HEADERS <target>...] [PUBLIC <target>...] [PRIVATE <target>...])
#
# Compiles the sources of a component once and makes of them
#   perfpred_<name>           what is installed as perfpred::<name>: it exports what the public headers declare
#   perfpred_<name>_archive   beside a shared one, the same as a static library; that of core is perfpred::core_static
#   perfpred_<name>_internal  for this project's programs, tests and benchmarks: private headers and functions too
#
# HEADERS are header-only libraries that private headers include, PUBLIC and PRIVATE as in target_link_libraries. Every
# component but core also links core.
#
# A program that links an internal form must link no installed form: it would hold two cores, each with a state of its
# own.
function(perfpred_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE")
  set(objects perfpred_${name}_objects)
  set(library perfpred_${name})
  set(internal perfpred_${name}_internal)

  add_library(${objects} OBJECT ${arg_SOURCES})
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(${library} $<TARGET_OBJECTS:${objects}>)
  add_library(perfpred::${name} ALIAS ${library})
  # Until 1.0 a minor version may change interfaces, so it is part of the soname.
  set_target_properties(${library} PROPERTIES
    EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS)
    set(archive perfpred_${name}_archive)
    add_library(${archive} STATIC $<TARGET_OBJECTS:${objects}>)
    set_target_properties(${archive} PROPERTIES OUTPUT_NAME perfpred_${name} EXPORT_NAME ${name}_static)
    set(forms ${library} ${archive})
  else()
    set(archive ${library})
    set(forms ${library})
  endif()

  foreach(target IN LISTS objects forms)
    perfpred_compile_options(${target})
    target_include_directories(${target} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  endforeach()
  target_link_libraries(${objects} PRIVATE ${arg_HEADERS})

  add_library(${internal} INTERFACE)
  target_link_libraries(${internal} INTERFACE ${archive} ${arg_HEADERS})
  # Only in quotes, so that no system header of the same name is hidden.
  set(private_headers "SHELL:-iquote ${PROJECT_SOURCE_DIR}/src")
  target_compile_options(${objects} PRIVATE ${private_headers})
  target_compile_options(${internal} INTERFACE ${private_headers})

  if(name STREQUAL core)
    return()
  endif()
  target_link_libraries(${objects} PRIVATE perfpred_core_internal)
  target_link_libraries(${library} PUBLIC perfpred_core)
  target_link_libraries(${internal} INTERFACE perfpred_core_internal)
  if(BUILD_SHARED_LIBS)
    # Private functions of core come along as copies that nobody else sees. What core exports is taken from core, which
    # comes first on the command line.
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:perfpred_core_archive>)
    target_link_options(${library} PRIVATE LINKER:--exclude-libs,libperfpred_core.a)
    target_link_libraries(${archive} PUBLIC perfpred_core_archive)
  endif()
endfunction()
