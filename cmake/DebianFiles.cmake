# SPDX-License-Identifier: Apache-2.0
# Run by CPack on the folders of the packages to be: adds copyright and changelog, and puts files where Debian has them.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  message(FATAL_ERROR "the rules of installation are those of Debian packages, not of ${CPACK_GENERATOR}")
endif()
set(source ${CPACK_PERFPRED_SOURCE_DIR})

# The day of the release, or of the last commit.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(seconds $ENV{SOURCE_DATE_EPOCH})
else()
  execute_process(COMMAND git -C ${source} log -1 --format=%ct OUTPUT_VARIABLE seconds
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT seconds)
    message(FATAL_ERROR "${source} is no checkout of git: set SOURCE_DATE_EPOCH to the seconds of the release")
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${seconds})
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

function(compress file)
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Apache's licence is on every Debian system; the notices of what is compiled in are here.
file(READ ${source}/THIRD_PARTY.md third_party)
string(CONCAT copyright
  "perfpred: copyright of its authors, who licensed it under the Apache License, Version 2.0, which is on Debian systems\n"
  "in /usr/share/common-licenses/Apache-2.0. Without warranties or conditions of any kind.\n\n${third_party}")
foreach(name IN ITEMS devices standard_ops rank_memory)
  file(READ ${source}/data/${name}.NOTICE notice)
  string(APPEND copyright "\n## Data: ${name}\n\n${notice}")
endforeach()
file(READ ${source}/cmake/debian/changelog.in changelog)
string(CONFIGURE "${changelog}" changelog @ONLY)

if(NOT CPACK_PACKAGE_CONTACT MATCHES "<.+@.+>")
  message(FATAL_ERROR "Nobody answers for the packages: set DEBFULLNAME and DEBEMAIL, and configure again")
endif()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr/share)
  file(WRITE ${share}/doc/${package}/copyright "${copyright}")
  file(WRITE ${share}/doc/${package}/changelog.Debian "${changelog}")
  compress(${share}/doc/${package}/changelog.Debian)
endforeach()

set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/perfpred/usr/share)
file(RENAME ${share}/doc/perfpred/CHANGELOG.md ${share}/doc/perfpred/changelog)
compress(${share}/doc/perfpred/changelog)
file(REMOVE ${share}/doc/perfpred/LICENSE)  # the copyright says where it is
file(GLOB pages ${share}/man/man1/*.1)
foreach(page IN LISTS pages)
  compress(${page})
endforeach()
file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)

# python3 -m perfpred becomes the program, which is in a package of its own.
set(python ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/python3-perfpred/usr/lib/python3/dist-packages/perfpred)
file(MAKE_DIRECTORY ${python}/bin)
file(CREATE_LINK ../../../../../bin/perfpred ${python}/bin/perfpred SYMBOLIC)
