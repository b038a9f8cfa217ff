# SPDX-License-Identifier: Apache-2.0
# Finds libxgboost by its C header: Debian's own package configuration names a program that its -dev package lacks.
# Defines XGBoost_FOUND and XGBoost::XGBoost.
include(${CMAKE_CURRENT_LIST_DIR}/PerfpredFindLibrary.cmake)
perfpred_find_library(XGBoost XGBoost xgboost/c_api.h xgboost)
