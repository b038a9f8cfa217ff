#pragma once
#include <perfpred/workload.h>

#include <string>
#include <string_view>

namespace perfpred {

/// A workload with one field, named as in keys and tables, replaced.
/// @throws InputError if there is no such field or the text is no value of it
[[nodiscard]] PERFPRED_API Workload with_field(Workload workload, std::string_view field, std::string_view text);

/// The field's text as keys and tables have it. @throws InputError if there is no such field
[[nodiscard]] PERFPRED_API std::string field_text(const Workload& workload, std::string_view field);

}  // namespace perfpred
