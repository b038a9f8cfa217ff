// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/listening.h"
#include "service/metrics.h"
#include "service/service.h"

namespace perfpred {

/// What one client can take from the others. Sizes are bytes.
struct ServerLimits {
  std::size_t connections = 512;               ///< further ones get 503
  std::size_t body = std::size_t{16} << 20U;   ///< of a request; larger ones get 413
  std::size_t held = std::size_t{256} << 20U;  ///< of all bodies and answers over 64 KiB together; beyond it 503
  std::size_t slow_requests = 32;              ///< that wait or are answered; further ones get 503
  double request_sec = 10;                     ///< from a request's first byte to its last; then it is closed
  double idle_sec = 60;                        ///< that a connection may be silent between requests
  double write_sec = 30;                       ///< in which an answer must be taken
  unsigned threads = 0;                        ///< that answer; 0: one for each usable CPU, at least two
};

/// Speaks HTTP/1.1 for a service. One thread reads and writes all connections and waits for none of them; others answer
/// the requests, slow ones apart from quick ones.
class Server {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// @param service, metrics  outlive the server
  /// @param say               gets a line for each thing that an administrator should know; from any thread
  Server(std::vector<Listening> listening, const ServerLimits& limits, const Service& service, Metrics& metrics,
         Say say);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Says a line for each request.
  void log_requests();
  /// Names that a `Host:` may have beside localhost, where the server listens on loopback: a page of another site that
  /// a browser leads here under that site's name is refused.
  void add_host(const std::string& name);

  /// Until SIGTERM or SIGINT: requests that have begun are answered, then it returns. A second signal ends the process.
  /// @throws InputError if the process may not have as many open files as the connections are
  void run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
