// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace perfpred {

/// A socket that connections come to. Closed when it goes, and the file that it made removed.
class Listening {
 public:
  explicit Listening(int fd) : fd_(fd) {}
  Listening(Listening&& other) noexcept;
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  Listening& operator=(Listening&&) = delete;
  ~Listening();

  /// The file of the socket, which this process has made.
  void remove_at_end(std::string path) { made_ = std::move(path); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string name() const;     ///< `unix:/run/perfpred/socket`, `http://127.0.0.1:8650`
  [[nodiscard]] bool is_on_loopback() const;  ///< of TCP

 private:
  int fd_;
  std::string made_;
};

/// A Unix socket. A file of that name that no process listens on is replaced.
/// @throws InputError if somebody listens there, or if there can be no socket
[[nodiscard]] Listening listen_on_unix(const std::string& path, mode_t mode);

/// 127.0.0.1. @param port  0: any that is free. @throws InputError if it is taken
[[nodiscard]] Listening listen_on_loopback(std::uint16_t port);

/// The sockets that systemd (sd_listen_fds(3)) or systemd-socket-activate opened for this process; none without them.
/// Processes that this one starts do not take them for theirs.
/// @throws InputError for what is no listening stream socket
[[nodiscard]] std::vector<Listening> listen_from_systemd();

/// Who is at the other end: `pid 12, uid 1000, gid 1000` of a Unix socket (SO_PEERCRED), `127.0.0.1:41234` of TCP.
[[nodiscard]] std::string peer_of(int connection);

}  // namespace perfpred
