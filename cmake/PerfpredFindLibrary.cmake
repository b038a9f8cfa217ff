# SPDX-License-Identifier: Apache-2.0
# perfpred_find_library(PACKAGE TARGET HEADER LIBRARY [OTHER...]): what a find module does for a library without a package
# configuration. Defines <PACKAGE>_FOUND and the target <PACKAGE>::<TARGET>, which links the others, too.
include(FindPackageHandleStandardArgs)

macro(perfpred_find_library package target header library)
  find_path(${package}_INCLUDE_DIR ${header})
  set(${package}_LIBRARIES)
  foreach(name IN ITEMS ${library} ${ARGN})
    find_library(${package}_${name}_LIBRARY ${name})
    mark_as_advanced(${package}_${name}_LIBRARY)
    list(APPEND ${package}_LIBRARIES ${package}_${name}_LIBRARY)
  endforeach()
  mark_as_advanced(${package}_INCLUDE_DIR)
  find_package_handle_standard_args(${package} REQUIRED_VARS ${${package}_LIBRARIES} ${package}_INCLUDE_DIR)

  if(${package}_FOUND AND NOT TARGET ${package}::${target})
    add_library(${package}::${target} UNKNOWN IMPORTED)
    set_target_properties(${package}::${target} PROPERTIES
      IMPORTED_LOCATION ${${package}_${library}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${${package}_INCLUDE_DIR})
    foreach(name IN ITEMS ${ARGN})
      set_property(TARGET ${package}::${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${${package}_${name}_LIBRARY})
    endforeach()
  endif()
endmacro()
