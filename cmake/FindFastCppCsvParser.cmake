# SPDX-License-Identifier: Apache-2.0
# Finds fast-cpp-csv-parser under the names that distributions give its one header.
#
# Defines FastCppCsvParser_FOUND and the target FastCppCsvParser::FastCppCsvParser, whose users write
# `#include PERFPRED_FCCP_HEADER`.
find_path(FastCppCsvParser_INCLUDE_DIR NAMES libfccp/csv.h fast-cpp-csv-parser/csv.h csv.h)
mark_as_advanced(FastCppCsvParser_INCLUDE_DIR)

if(FastCppCsvParser_INCLUDE_DIR)
  foreach(name libfccp/csv.h fast-cpp-csv-parser/csv.h csv.h)
    if(EXISTS ${FastCppCsvParser_INCLUDE_DIR}/${name})
      file(STRINGS ${FastCppCsvParser_INCLUDE_DIR}/${name} is_it REGEX "namespace io" LIMIT_COUNT 1)
      if(is_it)
        set(FastCppCsvParser_HEADER ${name})
        break()
      endif()
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FastCppCsvParser REQUIRED_VARS FastCppCsvParser_HEADER)

if(FastCppCsvParser_FOUND AND NOT TARGET FastCppCsvParser::FastCppCsvParser)
  add_library(FastCppCsvParser::FastCppCsvParser INTERFACE IMPORTED)
  set_target_properties(FastCppCsvParser::FastCppCsvParser PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${FastCppCsvParser_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "PERFPRED_FCCP_HEADER=<${FastCppCsvParser_HEADER}>")
endif()
