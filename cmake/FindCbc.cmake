# SPDX-License-Identifier: Apache-2.0
# Finds CBC, COIN-OR's branch and cut, by its C header (Debian: coinor-libcbc-dev): Cbc_FOUND, Cbc::Cbc.
include(${CMAKE_CURRENT_LIST_DIR}/PerfpredFindLibrary.cmake)
perfpred_find_library(Cbc Cbc coin/Cbc_C_Interface.h CbcSolver Cbc)
