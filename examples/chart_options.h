// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options --title, --size and --format of programs that draw.
#include <string>

#include "cli.h"
#include "tools/chart.h"

namespace perfpred::cli {

class ChartOptions {
 public:
  explicit ChartOptions(Program& program) {
    program.add_option("--title", title_, "Text before the title of each plot");
    program.add_option("--size", size_,
                       "Pixels, WIDTHxHEIGHT (default: 1500x1000, more for many panels, names, or a long legend)");
    program.add_option("--format", formats_, "png, svg, pdf, or several: png,pdf")->capture_default_str();
  }

  /// @throws InputError
  [[nodiscard]] ChartStyle style() const { return ChartStyle::parse(title_, size_, formats_); }

 private:
  std::string title_, size_, formats_ = "png,svg";
};

}  // namespace perfpred::cli
