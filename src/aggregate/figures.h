// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include "text/parse.h"

namespace perfpred {

/// @throws InputError at the place, which names the column, if a figure of the row is out of its range, or if a
/// deviation is larger than n runs with their mean can have: sqrt(n) times the mean, 0 for one run
void check_figures(const AggregateRow& row, ValuePlace place);

}  // namespace perfpred
