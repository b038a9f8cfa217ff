# SPDX-License-Identifier: Apache-2.0
# Finds libmd, the message digests of the BSDs, by its header for SHA-2 (Debian: libmd-dev): Libmd_FOUND, Libmd::md.
include(${CMAKE_CURRENT_LIST_DIR}/PerfpredFindLibrary.cmake)
perfpred_find_library(Libmd md sha2.h md)
