// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "model/kinds/ann.h"
#include "model/kinds/trees.h"

namespace perfpred {
namespace {

std::atomic<AnnFitter> registered_ann{nullptr};
std::atomic<TreesFitter> registered_trees{nullptr};

}  // namespace

void set_ann_fitter(AnnFitter fitter) { registered_ann = fitter; }
AnnFitter ann_fitter() { return registered_ann; }

void set_trees_fitter(TreesFitter fitter) { registered_trees = fitter; }
TreesFitter trees_fitter() { return registered_trees; }

}  // namespace perfpred
