# SPDX-License-Identifier: Apache-2.0
# Debian packages by CPack (`cmake --workflow --preset packages`), one for each component of cmake/PerfpredInstall.cmake.
# DebianFiles.cmake makes the files that Debian wants beside what is installed.
#
# A library's package has its soname's version in its name, and no file of another one: two versions can be installed
# side by side.
set(python_dir lib/python3/dist-packages)  # of all Pythons of Debian; not installed but by the package
install(DIRECTORY python/perfpred DESTINATION ${python_dir} COMPONENT python3-perfpred EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)
file(STRINGS python/pyproject.toml summary REGEX "^description = ")
string(REGEX REPLACE "^description = \"(.*)\"$" "\\1" summary "${summary}")
file(CONFIGURE OUTPUT python_metadata CONTENT
     "Metadata-Version: 2.1\nName: perfpred\nVersion: ${PROJECT_VERSION}\nSummary: ${summary}\nLicense: Apache-2.0\n")
install(FILES ${PROJECT_BINARY_DIR}/python_metadata RENAME METADATA
        DESTINATION ${python_dir}/perfpred-${PROJECT_VERSION}.dist-info COMPONENT python3-perfpred EXCLUDE_FROM_ALL)

# Who answers for the packages, as Debian's tools ask; where nobody is named, who commits here.
set(name $ENV{DEBFULLNAME})
set(email $ENV{DEBEMAIL})
foreach(key IN ITEMS name email)
  if(NOT ${key})
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} config user.${key} OUTPUT_VARIABLE ${key}
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
set(CPACK_PACKAGE_CONTACT "${name} <${email}>")

set(revision 1)
set(version ${PROJECT_VERSION}-${revision})
set(core_abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_PACKAGE_NAME perfpred)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/DebianFiles.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${revision})
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PERFPRED_SOURCE_DIR ${PROJECT_SOURCE_DIR})  # for DebianFiles.cmake
set(CPACK_PERFPRED_VERSION ${version})

# perfpred_package(<component> <package> <section> <summary> <text> [<field> <value>]...): the fields are CPack's.
set(CPACK_COMPONENTS_ALL)
macro(perfpred_package component package section summary text)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SOURCE perfpred)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}")
  set(fields ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(CPACK_DEBIAN_${upper}_${field} "${value}")
  endwhile()
endmacro()

set(what "perfpred predicts how long the training of a neural network takes on a
device, how much memory it needs and what it costs, before it is launched.

")
set(library PACKAGE_SHLIBDEPS ON PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/library/triggers
            PACKAGE_RECOMMENDS perfpred-data)
perfpred_package(libperfpred libperfpred${PERFPRED_C_ABI} libs
"predictions of a network's training, for programs in C"
"${what}This is the library that programs in C, and in every language that calls C,
use."
${library})
perfpred_package(libperfpred-core libperfpred-core${core_abi} libs
"predictions of a network's training, for programs in C++"
"${what}This is the library that programs in C++ use."
${library})
perfpred_package(libperfpred-dev libperfpred-dev libdevel
"predictions of a network's training, to build programs in C and C++"
"${what}These are the headers, what pkg-config and CMake read, and the C++ library as
an archive.

The parts of the library that measure need LibTorch, and those that fit forests
or ask CBC need XGBoost and CBC: they are built from the source of perfpred,
whose scripts/setup.sh installs what they need."
PACKAGE_DEPENDS "libperfpred${PERFPRED_C_ABI} (= ${version}), libperfpred-core${core_abi} (= ${version}), libfmt-dev, \
liblzma-dev, libmd-dev, libnlopt-dev")
perfpred_package(perfpred perfpred science
"predicts time, memory and price of a network's training before it runs"
"${what}These are the programs that predict, plan, learn from runs and answer over
HTTP, with manual pages and completion of command lines.

The programs that measure or trace training in C++ (collect, probe,
bench-layers, train-net, trace, sysinfo) need LibTorch, which is not part of
Debian: they are built from the source of perfpred, whose scripts/setup.sh
installs LibTorch. python3-perfpred measures training in PyTorch."
PACKAGE_SHLIBDEPS ON
PACKAGE_DEPENDS "perfpred-data (>= ${PROJECT_VERSION})"
PACKAGE_SUGGESTS "gnuplot-nox, python3-perfpred")
perfpred_package(perfpred-data perfpred-data science
"recorded networks and devices of perfpred"
"${what}These are the networks that it knows by name because their training was
recorded, and its tables of devices and operators, to be read."
PACKAGE_ARCHITECTURE all)
set(scripts ${PROJECT_SOURCE_DIR}/cmake/debian/python3-perfpred)
perfpred_package(python3-perfpred python3-perfpred python
"predictions of a network's training, for Python"
"${what}This is the package perfpred of Python 3, which predicts, plans and learns.
With PyTorch, which it does not need for these, it also captures steps of
training programs and measures them."
PACKAGE_ARCHITECTURE all
PACKAGE_DEPENDS "python3:any (>= 3.9), libperfpred${PERFPRED_C_ABI} (>= ${PROJECT_VERSION})"
PACKAGE_RECOMMENDS perfpred
PACKAGE_SUGGESTS "python3-numpy, python3-pandas")
set(CPACK_DEBIAN_PYTHON3-PERFPRED_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm)
include(CPack)
