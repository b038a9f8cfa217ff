// SPDX-License-Identifier: Apache-2.0
#include "plan/branch_and_cut.h"

#include <atomic>

namespace perfpred {
namespace {

std::atomic<BranchAndCut> registered{nullptr};

}  // namespace

void set_branch_and_cut(BranchAndCut solver) { registered = solver; }

BranchAndCut branch_and_cut() { return registered; }

}  // namespace perfpred
