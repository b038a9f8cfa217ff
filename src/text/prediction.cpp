// SPDX-License-Identifier: Apache-2.0
#include <perfpred/prediction.h>

#include "text/enum_names.h"

namespace perfpred {

std::string_view to_string(DomainViolation violation) {
  if (violation == DomainViolation::none) return "";
  return enumerator_name_of<DomainViolation::other_cluster>(violation);
}

std::string_view to_string(Provenance provenance) { return enumerator_name_of<Provenance::bytes>(provenance); }

}  // namespace perfpred
