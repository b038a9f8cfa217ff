# SPDX-License-Identifier: Apache-2.0
# Finds the libraries that read pictures and archives of data. Each may be missing: what it reads is then refused.
#
# Defines a target perfpred_data::<name> for each that is there, whose users have PERFPRED_WITH_<name> defined, and sets
# perfpred_data_libraries to these targets. Distributions leave out the package configuration of most of them.
set(perfpred_data_libraries)
foreach(row IN ITEMS "TURBOJPEG turbojpeg.h turbojpeg" "PNG png.h png" "WEBP webp/decode.h webp" "ARCHIVE archive.h archive")
  separate_arguments(row)
  list(GET row 0 name)
  list(GET row 1 header)
  list(GET row 2 library)
  find_path(PERFPRED_${name}_INCLUDE_DIR ${header})
  find_library(PERFPRED_${name}_LIBRARY ${library})
  mark_as_advanced(PERFPRED_${name}_INCLUDE_DIR PERFPRED_${name}_LIBRARY)
  if(NOT PERFPRED_${name}_INCLUDE_DIR OR NOT PERFPRED_${name}_LIBRARY)
    message(STATUS "perfpred: without lib${library}")
    continue()
  endif()
  if(NOT TARGET perfpred_data::${name})
    add_library(perfpred_data::${name} UNKNOWN IMPORTED)
    set_target_properties(perfpred_data::${name} PROPERTIES
      IMPORTED_LOCATION ${PERFPRED_${name}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${PERFPRED_${name}_INCLUDE_DIR}
      INTERFACE_COMPILE_DEFINITIONS PERFPRED_WITH_${name})
  endif()
  list(APPEND perfpred_data_libraries perfpred_data::${name})
endforeach()
