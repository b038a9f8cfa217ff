// SPDX-License-Identifier: Apache-2.0
#pragma once
// What perfpred-probe --links does: links of several devices, measured here or read from nccl-tests.
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/links.h"
#include "cli.h"
#include "measuring.h"
#include "torch/distributed/ranks.h"
#include "torch/layers/link_probe.h"

namespace perfpred::cli {

class LinksProbe {
 public:
  void add_to(Program& program) {
    CLI::Option* const asked =
        program.add_flag("--links", is_asked_, "measure the links between devices in place of a device");
    program.add_option("--replicas", replicas_, "processes whose links are measured, each on a device of its own")
        ->needs(asked);
    program.add_option("--nccl-tests", nccl_tests_, "what all_reduce_perf printed, in place of a measurement")
        ->needs(asked)
        ->excludes(program.get_option("--replicas"));
    program.add_option("--cluster", cluster_, "name of the links in the table (default: of this machine)")
        ->needs(asked);
  }

  [[nodiscard]] bool is_asked() const { return is_asked_; }

  /// @param out  a table of links, which may have others
  void run(char** argv, const std::string& device, const std::string& out, bool json) {
    if (cluster_.empty()) cluster_ = host_name();
    std::vector<LinkMeasurement> measured;
    if (!nccl_tests_.empty()) {
      measured.push_back({read_nccl_tests(nccl_tests_, cluster_), {}});
    } else {
      const std::shared_ptr<Ranks> ranks = Ranks::of(replicas_, argv);
      if (!ranks) throw InputError("--links needs --replicas, two or more, or --nccl-tests");
      if (ranks->rank() > 0) {
        leave_signals_to_rank_0();
        return follow_link_probe(*ranks, device);
      }
      stop_on_signals();
      measured = probe_links(*ranks, device, cluster_, interrupted);
      if (interrupted()) throw Error("interrupted");
    }
    std::vector<Link> links;
    for (const LinkMeasurement& group : measured) links.push_back(group.link);
    put_links(out, links);
    json ? print_json(measured, out) : print(measured, out);
  }

 private:
  [[nodiscard]] static std::string host_name() {
    std::array<char, 256> name = {};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
  }

  static void print_json(const std::vector<LinkMeasurement>& measured, const std::string& out) {
    nlohmann::ordered_json links = nlohmann::ordered_json::array();
    for (const auto& [link, sizes] : measured) {
      nlohmann::ordered_json samples = nlohmann::ordered_json::array();
      for (const SizeMeasurement& size : sizes) {
        samples.push_back({{"bytes", size.bytes},
                           {"sec", size.sec},
                           {"bus_gb_s", bus_gb_s(size.bytes, size.sec, link.gpus)},
                           {"beside_sec", size.beside_sec},
                           {"product_factor", size.product_factor}});
      }
      links.push_back({{"cluster", link.cluster},
                       {"scope", link.nodes > 1 ? "inter" : "intra"},
                       {"gpus", link.gpus},
                       {"nodes", link.nodes},
                       {"bus_gb_s", link.bus_gb_s},
                       {"latency_us", link.latency_us},
                       {"source", link.source},
                       {"sizes", samples}});
    }
    fmt::print("{}\n", dumped(nlohmann::ordered_json{{"links", links}, {"out", out}}, 2));
  }

  static void print(const std::vector<LinkMeasurement>& measured, const std::string& out) {
    for (const auto& [link, sizes] : measured) {
      fmt::print("{} devices on {} nodes: {:.3g} GB/s of the bus, {:.0f} us for an all-reduce of next to nothing\n",
                 link.gpus, link.nodes, link.bus_gb_s, link.latency_us);
      for (const SizeMeasurement& size : sizes) {
        fmt::print("  {:>9} bytes  {:8.3f} ms alone  {:8.3f} ms beside products, which take {:.2f} times as long\n",
                   size.bytes, size.sec * 1e3, size.beside_sec * 1e3, size.product_factor);
      }
    }
    if (measured.empty()) return;
    fmt::print("predict with  perfpred-predict --links {} --cluster {} ...\n", out, measured.front().link.cluster);
  }

  bool is_asked_ = false;
  std::optional<int> replicas_;
  std::string nccl_tests_, cluster_;
};

}  // namespace perfpred::cli
