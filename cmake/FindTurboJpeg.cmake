# SPDX-License-Identifier: Apache-2.0
# Finds libturbojpeg, whose package configuration distributions leave out (Debian: libturbojpeg0-dev).
#
# Defines TurboJpeg_FOUND and the target TurboJpeg::TurboJpeg, whose users have PERFPRED_WITH_TURBOJPEG defined.
find_path(TurboJpeg_INCLUDE_DIR turbojpeg.h)
find_library(TurboJpeg_LIBRARY turbojpeg)
mark_as_advanced(TurboJpeg_INCLUDE_DIR TurboJpeg_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TurboJpeg REQUIRED_VARS TurboJpeg_LIBRARY TurboJpeg_INCLUDE_DIR)

if(TurboJpeg_FOUND AND NOT TARGET TurboJpeg::TurboJpeg)
  add_library(TurboJpeg::TurboJpeg UNKNOWN IMPORTED)
  set_target_properties(TurboJpeg::TurboJpeg PROPERTIES
    IMPORTED_LOCATION ${TurboJpeg_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${TurboJpeg_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS PERFPRED_WITH_TURBOJPEG)
endif()
