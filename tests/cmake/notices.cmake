# SPDX-License-Identifier: Apache-2.0
# The notices of what is compiled in are installed, and go into a wheel; a library that the build looks for has its own.
#   cmake -DSOURCE= -DBINARY= -DINSTALLED= (the folder of documents) -DWHEEL= (a folder to make) -P notices.cmake
file(REMOVE_RECURSE ${WHEEL})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${WHEEL} --component python
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(READ ${SOURCE}/THIRD_PARTY.md expected)
foreach(folder IN ITEMS ${INSTALLED} ${WHEEL})
  foreach(name IN ITEMS LICENSE THIRD_PARTY.md)
    if(NOT EXISTS ${folder}/${name})
      message(SEND_ERROR "${folder} has no ${name}")
    endif()
  endforeach()
  file(READ ${folder}/THIRD_PARTY.md text)
  if(NOT text STREQUAL expected)
    message(SEND_ERROR "${folder}/THIRD_PARTY.md is another one")
  endif()
endforeach()

# The packages that CMakeLists.txt requires, under the names of the page.
set(Eigen3 Eigen)
set(nlohmann_json "JSON for Modern C\\+\\+")
set(FastCppCsvParser fast-cpp-csv-parser)
set(Libmd libmd)
set(LibLZMA liblzma)
set(Threads "")  # of the system
file(STRINGS ${SOURCE}/CMakeLists.txt lines REGEX "^find_package\\([A-Za-z0-9_]+ .*REQUIRED")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^find_package\\(([A-Za-z0-9_]+).*" "\\1" package "${line}")
  set(name ${package})
  if(DEFINED ${package})
    set(name "${${package}}")
  endif()
  if(NOT expected MATCHES "\\[{?${name}")
    message(SEND_ERROR "THIRD_PARTY.md says nothing of ${package}")
  endif()
endforeach()
