// SPDX-License-Identifier: Apache-2.0
// perfpred-networks: the networks that are known by name.
#include "cli.h"
#include "text/json.h"
#include "tools/network_list.h"

namespace perfpred::cli {

int networks_command(int argc, char** argv) {
  Program program("networks", "perfpred-networks llama");
  std::string word;
  bool json = false;
  program.add_option("WORD", word, "Those whose name holds it, there or on the Hugging Face Hub; default: all");
  program.add_flag("--json", json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    const std::vector<ListedNetwork> networks = list_networks(word);
    if (json) {
      fmt::print("{}\n", dumped(to_json(networks), 2));
    } else {
      fmt::print("{}", networks_text(networks));
    }
  });
}

}  // namespace perfpred::cli
