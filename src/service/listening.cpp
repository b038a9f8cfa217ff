// SPDX-License-Identifier: Apache-2.0
#include "service/listening.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <perfpred/error.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace perfpred {
namespace {

constexpr int backlog = SOMAXCONN;
constexpr int first_systemd_fd = 3;  // SD_LISTEN_FDS_START

/// An address of any family.
union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_un unix_;
  sockaddr_storage storage;
};

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw InputError(fmt::format("socket {}: a path has 1 to {} bytes", path, sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* as_any(const auto& address) { return reinterpret_cast<const sockaddr*>(&address); }

Listening new_socket(int family, const std::string& what) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw Error(fmt::format("{}: {}", what, std::strerror(errno)));
  return Listening(fd);
}

/// Removes the file of a socket whose process is gone. @throws InputError if somebody listens, or for another file
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  if (!S_ISSOCK(found.st_mode)) throw InputError(fmt::format("{}: is a file, and no socket", path));
  const Listening probe = new_socket(AF_UNIX, path);
  if (::connect(probe.fd(), as_any(address), sizeof address) == 0 || errno == EAGAIN)
    throw InputError(fmt::format("{}: another process listens there", path));
  if (errno != ECONNREFUSED) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
  if (::unlink(path.c_str()) != 0) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
}

Address own_address(int fd) {
  Address address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, &address.any, &size) != 0) address.any.sa_family = AF_UNSPEC;
  return address;
}

std::string text_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.any.sa_family == AF_INET)
    return fmt::format("{}:{}", ::inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text),
                       ntohs(address.v4.sin_port));
  if (address.any.sa_family == AF_INET6)
    return fmt::format("[{}]:{}", ::inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text),
                       ntohs(address.v6.sin6_port));
  return "unknown";
}

int option_of(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// A number in the environment; nothing (-1) if there is none.
int environment(const char* name) {
  const char* text = std::getenv(name);
  int value = -1;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

Listening::Listening(Listening&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), made_(std::exchange(other.made_, {})) {}

Listening::~Listening() {
  if (!made_.empty()) ::unlink(made_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

std::string Listening::name() const {
  const Address address = own_address(fd_);
  if (address.any.sa_family == AF_UNIX) return fmt::format("unix:{}", address.unix_.sun_path);
  return "http://" + text_of(address);
}

bool Listening::is_on_loopback() const {
  const Address address = own_address(fd_);
  if (address.any.sa_family == AF_INET) return (ntohl(address.v4.sin_addr.s_addr) >> 24U) == 127;
  return address.any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr);
}

Listening listen_on_unix(const std::string& path, mode_t mode) {
  const sockaddr_un address = unix_address(path);
  remove_stale(path, address);
  Listening listening = new_socket(AF_UNIX, path);
  const mode_t before = ::umask(static_cast<mode_t>(~mode & 0777U));  // nobody connects before it has its mode
  const bool is_bound = ::bind(listening.fd(), as_any(address), sizeof address) == 0;
  const int why = errno;
  ::umask(before);
  if (!is_bound) throw InputError(fmt::format("{}: {}", path, std::strerror(why)));
  listening.remove_at_end(path);
  if (::listen(listening.fd(), backlog) != 0) throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
  return listening;
}

Listening listen_on_loopback(std::uint16_t port) {
  const std::string what = fmt::format("port {}", port);
  Listening listening = new_socket(AF_INET, what);
  const int on = 1;
  ::setsockopt(listening.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listening.fd(), as_any(address), sizeof address) != 0 || ::listen(listening.fd(), backlog) != 0)
    throw InputError(fmt::format("{}: {}", what, std::strerror(errno)));
  return listening;
}

std::vector<Listening> listen_from_systemd() {
  std::vector<Listening> all;
  const int count = environment("LISTEN_FDS");
  const bool ours = environment("LISTEN_PID") == ::getpid();
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  if (!ours) return all;
  for (int fd = first_systemd_fd; fd < first_systemd_fd + count; ++fd) {
    if (option_of(fd, SO_TYPE) != SOCK_STREAM || option_of(fd, SO_ACCEPTCONN) != 1)
      throw InputError(fmt::format("file descriptor {} of systemd is no listening stream socket (Accept=no)", fd));
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    all.emplace_back(fd);
  }
  return all;
}

std::string peer_of(int connection) {
  Address address{};
  socklen_t size = sizeof address;
  if (::getpeername(connection, &address.any, &size) != 0) return "unknown";
  if (address.any.sa_family != AF_UNIX) return text_of(address);
  ucred peer{};
  size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "unknown";
  return fmt::format("pid {}, uid {}, gid {}", peer.pid, peer.uid, peer.gid);
}

}  // namespace perfpred
