// SPDX-License-Identifier: Apache-2.0
// Describes this machine: processor, memory, GPUs, driver and libraries.
#include <perfpred/torch/system_info.h>

#include "cli.h"

namespace perfpred::cli {

int sysinfo_command(int argc, char** argv) {
  Program program("sysinfo", "perfpred-sysinfo --out system_specifications");
  std::string out;
  bool json = false;
  program.add_option("--out", out, "write NAME.json and NAME.txt");
  program.add_flag("--json", json, "print one JSON document");
  return program.run(argc, argv, [&] {
    const SystemInfo info = read_system_info();
    if (!out.empty()) write_system_info(info, out);
    fmt::print("{}", json ? system_info_json(info) : system_info_text(info));
  });
}

}  // namespace perfpred::cli
