// SPDX-License-Identifier: Apache-2.0
// perfpred-serve: answers over HTTP, and shows a page.
#ifdef PERFPRED_WITH_CBC
#include <perfpred/cbc/enable_cbc.h>
#endif

#include <string>
#include <utility>
#include <vector>

#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "service/repeated.h"
#include "service/run_spool.h"
#include "service/server.h"
#include "service/slurm_table.h"

namespace perfpred::cli {
namespace {

constexpr std::uint16_t usual_port = 8650;

struct ServeOptions {
  std::vector<std::string> models, hosts;
  std::string socket, mode = "0660";
  std::optional<std::uint16_t> port;
  DeviceFile device_file;
  ServerLimits limits;
  ServiceLimits service_limits;
  SlurmTableOptions slurm;
  std::string slurm_mode = "observe", spool, spool_model;
  std::vector<std::string> slurm_devices;
  bool logs_requests = false;
  CLI::Option *slurm_startup = nullptr, *socket_option = nullptr, *port_option = nullptr;

  explicit ServeOptions(Program& program) {
    program
        .add_option("--model", models,
                    "NAME=model.json, read again when the file is replaced; may be repeated, the first answers where a "
                    "request names none; default: the standard model")
        ->allow_extra_args(false);
    socket_option = program.add_option("--socket", socket, "Unix socket to listen on");
    program.add_option("--socket-mode", mode, "Who may connect to it: permissions of the socket, in octal")
        ->capture_default_str()
        ->needs(socket_option)
        ->check([](const std::string& text) {
          const bool octal = text.size() <= 4 && text.find_first_not_of("01234567") == std::string::npos;
          return octal && std::stoi(text, nullptr, 8) <= 0777 ? "" : text + " is not 0 to 0777";
        });
    port_option = program
                      .add_option("--port", port,
                                  fmt::format("TCP port to listen on, on loopback alone; 0: any that is free; default "
                                              "without --socket and systemd: {}",
                                              usual_port))
                      ->excludes(socket_option);
    program.add_option("--host", hosts, "A further name that a request's Host may have; may be repeated")
        ->allow_extra_args(false);
    device_file.add_to(program);
    device_file.add_links_to(program);
    add_graphs_options(program);
    add_limits(program);
    add_slurm(program);
    program.add_flag("--log-requests", logs_requests, "A line on standard error for each request");
  }

  /// @throws InputError for a socket beside systemd's
  [[nodiscard]] std::vector<Listening> listening() const {
    std::vector<Listening> all = listen_from_systemd();
    if (!all.empty()) {
      refuse({socket_option, port_option}, "a service that systemd gives no socket");
    } else if (!socket.empty()) {
      all.push_back(listen_on_unix(socket, static_cast<mode_t>(std::stoul(mode, nullptr, 8))));
    } else {
      all.push_back(listen_on_loopback(port.value_or(usual_port)));
    }
    return all;
  }

  /// @throws InputError for what enforce needs, and for what is no PARTITION=DEVICE
  [[nodiscard]] SlurmTableOptions slurm_options() const {
    SlurmTableOptions options = slurm;
    options.enforces = slurm_mode == "enforce";
    if (options.enforces && slurm_startup->empty())
      throw InputError("--slurm-mode enforce needs --slurm-startup-sec, what a job takes before its first epoch");
    for (const std::string& pair : slurm_devices) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos || equals + 1 == pair.size())
        throw_bad_value({{}, 0, "--slurm-device"}, pair, "PARTITION=DEVICE");
      if (!options.devices.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
        throw InputError(fmt::format("--slurm-device names partition {} twice", shown(pair.substr(0, equals))));
    }
    return options;
  }

  [[nodiscard]] std::vector<ModelFile> files() const {
    std::vector<ModelFile> files;
    for (const std::string& model : models) files.push_back(parse_model_file(model));
    if (files.empty()) files.push_back({"standard", {}});
    return files;
  }

 private:
  void add_slurm(Program& program) {
    CLI::Option* table = program.add_option(
        "--slurm-table", slurm.file, "Keep this file of answers for the jobs of a Slurm cluster (integrations/slurm)");
    program
        .add_option("--slurm-mode", slurm_mode,
                    "What Slurm does with them: observe writes forecasts into AdminComment; enforce sets limits, too, "
                    "of jobs that have none")
        ->capture_default_str()
        ->check(CLI::IsMember({"observe", "enforce"}))
        ->needs(table);
    slurm_startup = takes_seconds(program.add_option("--slurm-startup-sec", slurm.startup_sec,
                                                     "Of jobs that do not say their own startup_sec"))
                        ->check(not_negative())
                        ->needs(table);
    program
        .add_option("--slurm-device", slurm_devices,
                    "PARTITION=DEVICE of jobs that do not name their device; may be repeated")
        ->allow_extra_args(false)
        ->needs(table);
    CLI::Option* folder =
        program.add_option("--spool", spool, "Teach a model the runs that others drop into this folder as *.csv");
    program.add_option("--spool-model", spool_model, "Which one; default: the first that has a file")->needs(folder);
  }

  void add_limits(Program& program) {
    program.add_option("--max-connections", limits.connections, "Open at once; further ones get 503")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--max-body", limits.body, "Of a request, bytes or as 16MiB; larger ones get 413")
        ->capture_default_str()
        ->transform(CLI::AsSizeValue(true));
    program.add_option("--max-list", service_limits.requests, "Requests in one list")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--answer-sec", service_limits.answer_sec, "For a list, a plan or layouts")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--request-sec", limits.request_sec, "From a request's first byte to its last")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--idle-sec", limits.idle_sec, "That a connection may be silent between requests")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--write-sec", limits.write_sec, "In which a client must take its answer")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--threads", limits.threads, "That answer; 0: one for each CPU, at least two")
        ->capture_default_str();
  }
};

}  // namespace

int serve_command(int argc, char** argv) {
  Program program("serve", "perfpred-serve --model lab=model.json --socket /run/perfpred/socket");
  const ServeOptions given(program);
  return program.run(argc, argv, [&] {
#ifdef PERFPRED_WITH_CBC
    enable_cbc();
#endif
    Metrics metrics;
    ServedModels models(given.files(), given.device_file.catalogue(), say,
                        [&](const std::string& name, bool good) { metrics.reloaded(name, good); });
    const Service service(models, metrics, given.service_limits);
    Server server(given.listening(), given.limits, service, metrics, say);
    if (given.logs_requests) server.log_requests();
    for (const std::string& host : given.hosts) server.add_host(host);
    const Repeated reloads(ServedModels::pause, [&] { models.reload_replaced(); });
    std::optional<SlurmTable> table;
    std::optional<Repeated> refreshes, takes;
    if (!given.slurm.file.empty()) {
      table.emplace(models, given.slurm_options(), say);
      refreshes.emplace(SlurmTable::pause, [&] { table->refresh(std::time(nullptr)); });
    }
    std::optional<RunSpool> spool;
    if (!given.spool.empty()) {
      spool.emplace(models, service, given.spool, given.spool_model, say);
      takes.emplace(RunSpool::pause, [&] { spool->take(); });
    }
    server.run();
  });
}

}  // namespace perfpred::cli
