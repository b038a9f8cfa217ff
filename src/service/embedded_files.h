// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace perfpred {

extern const std::string_view embedded_openapi;  ///< src/service/openapi.json
extern const std::string_view embedded_page;     ///< src/service/page: one HTML file with all that it needs

}  // namespace perfpred
