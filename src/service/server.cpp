// SPDX-License-Identifier: Apache-2.0
#include "service/server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "text/parse.h"

namespace perfpred {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Protocol = asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol>;
using Clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr std::size_t small_message = 64 << 10;  // bytes that every connection may hold
constexpr std::uint32_t longest_header = 16 << 10;
constexpr std::size_t first_read = 4096;
constexpr std::size_t refused_at_once = 64;       // connections over the limit that are told so; others are closed
constexpr auto linger = std::chrono::seconds(1);  // in which a client that is refused may read why
constexpr auto pause = std::chrono::milliseconds(100);

Clock::duration seconds(double sec) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(sec));
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

unsigned threads_of(const ServerLimits& limits) {
  return limits.threads > 0 ? limits.threads : std::max(2U, std::thread::hardware_concurrency());
}

/// Lets the process have so many files open, if the system allows it.
void allow_files(std::size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min<rlim_t>(count, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < count)
    throw InputError(fmt::format("{} files may be open, and so many connections need {}", limit.rlim_cur, count));
}

/// The name in `Host: name:port`.
std::string_view host_name(std::string_view host) {
  const std::size_t bracket = host.find(']');
  return host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket));
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::vector<Listening> listening, const ServerLimits& limits, const Service& service, Metrics& metrics, Say say)
      : listening_(std::move(listening)), limits_(limits), service_(service), metrics_(metrics), say_(std::move(say)) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { is_stopping_ = false; }  // nobody waits for the last connection any more

  void run();

  bool logs_requests = false;
  std::set<std::string, std::less<>> hosts = {"localhost", "127.0.0.1", "[::1]"};

 private:
  class Session;
  class Door;

  /// Takes a part of `held` for a large message. @returns whether there is so much
  bool hold(std::size_t bytes) {
    if (bytes <= small_message) return true;
    if (bytes > limits_.held - held_) return false;
    held_ += bytes;
    return true;
  }
  void release(std::size_t bytes) {
    if (bytes > small_message) held_ -= bytes;
  }

  void admit(int connection, bool checks_host);
  void stop(int signal);
  void close_idle();
  void leave(Session* session);
  void end_if_done();

  std::vector<Listening> listening_;
  const ServerLimits limits_;
  const Service& service_;
  Metrics& metrics_;
  const Say say_;

  // Of the io thread alone. Connections that io_ still holds at its end take leave here.
  std::set<Session*> sessions_;
  std::size_t held_ = 0, slow_ = 0;
  bool is_stopping_ = false;

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};  // answers come from elsewhere
  asio::signal_set signals_{io_};
  asio::steady_timer patience_{io_};  // after a signal
  std::vector<std::unique_ptr<Door>> doors_;
  std::optional<asio::thread_pool> quick_, slow_pool_;
};

/// Accepts the connections of one socket.
class Server::Impl::Door {
 public:
  Door(Impl& server, const Listening& listening)
      : server_(server),
        checks_host_(listening.is_on_loopback()),
        socket_(server.io_, ::dup(listening.fd())),
        timer_(server.io_) {
    wait();
  }

  /// Takes those that wait, and no more.
  void close() {
    if (!socket_.is_open()) return;
    accept_all();
    error_code ignored;  // it is closed in any case
    socket_.close(ignored);
    timer_.cancel();
  }

 private:
  void wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error || !socket_.is_open()) return;
      if (accept_all()) {
        wait();
      } else {
        pause_then_wait();
      }
    });
  }

  /// @returns whether more can be accepted soon
  bool accept_all() {
    for (;;) {
      const int connection = ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (connection >= 0) {
        has_complained_ = false;
        server_.admit(connection, checks_host_);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (!has_complained_) server_.say_(fmt::format("a connection cannot be accepted: {}", std::strerror(errno)));
      has_complained_ = true;
      return false;
    }
  }

  /// Where the process lacks file descriptors.
  void pause_then_wait() {
    timer_.expires_after(pause);
    timer_.async_wait([this](error_code error) {
      if (!error) wait();
    });
  }

  Impl& server_;
  bool checks_host_, has_complained_ = false;
  asio::posix::stream_descriptor socket_;
  asio::steady_timer timer_;
};

/// A connection: one request after the other.
class Server::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, int connection, bool checks_host)
      : server_(server),
        peer_(peer_of(connection)),
        checks_host_(checks_host),
        stream_(asio::basic_stream_socket<Protocol>(server.io_, protocol_of(connection), connection)) {
    server_.sessions_.insert(this);
    ++server_.metrics_.connections;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    server_.release(held_);
    --server_.metrics_.connections;
    server_.leave(this);
  }

  [[nodiscard]] bool is_idle() const { return is_idle_; }

  /// Waits for the first byte of a request.
  void wait() {
    is_idle_ = buffer_.size() == 0;
    if (!is_idle_) return read();
    stream_.expires_after(seconds(server_.limits_.idle_sec));
    stream_.async_read_some(buffer_.prepare(first_read), [self = shared_from_this()](error_code error, std::size_t n) {
      if (error) return;  // it left, or was silent for too long
      self->is_idle_ = false;
      self->buffer_.commit(n);
      self->read();
    });
  }

  /// Tells a client of too many that it is one, whatever it asks.
  void turn_away() {
    keep_alive_ = false;
    write(http_refusal(503, "too many connections"));
  }

  /// Ends a connection that has asked nothing.
  void end() {
    error_code ignored;  // it ends in any case
    stream_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
    stream_.cancel();
  }

 private:
  static Protocol protocol_of(int connection) {
    int family = 0;
    socklen_t size = sizeof family;
    if (::getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) family = AF_UNIX;
    return {family, 0};
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(longest_header);
    parser_->body_limit(server_.limits_.body);
    begin_ = Clock::now();
    stream_.expires_after(seconds(server_.limits_.request_sec));
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      error ? self->fail(error) : self->read_body();
    });
  }

  void read_body() {
    const auto& header = parser_->get();
    version_ = header.version();
    keep_alive_ = header.keep_alive();
    is_head_ = header.method() == http::verb::head;
    if (parser_->chunked()) return refuse(411, "a body needs a Content-Length");
    if (checks_host_ && !server_.hosts.contains(host_name(view(header[http::field::host]))))
      return refuse(421, fmt::format("Host \"{}\" is not this service's", shown(view(header[http::field::host]))));
    const std::size_t size = parser_->content_length().value_or(0);
    if (!server_.hold(size)) return refuse(503, "too many large requests at once");
    held_ = size;
    if (beast::iequals(header[http::field::expect], "100-continue")) return read_continued();
    read_rest();
  }

  void read_continued() {
    static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(go_on), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->read_rest();
    });
  }

  void read_rest() {
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      error ? self->fail(error) : self->answer();
    });
  }

  /// Of a request that cannot be read: says why, where the client still listens.
  void fail(error_code error) {
    if (error == beast::error::timeout) return refuse_late();
    if (error == http::error::body_limit)
      return refuse(413, fmt::format("a body has at most {} bytes", server_.limits_.body));
    if (error == http::error::header_limit) return refuse(431, "the header is too long");
    if (error == http::error::end_of_stream || error == http::error::partial_message) return;
    if (error.category() == make_error_code(http::error::end_of_stream).category())
      refuse(400, fmt::format("this is not HTTP/1.1: {}", error.message()));
  }

  /// The stream closes its socket when time is up, so that nothing can be said any more.
  void refuse_late() {
    count(408);
    log(408, 0);
  }

  void refuse(int status, std::string_view why) {
    keep_alive_ = false;
    count(status);
    write(http_refusal(status, why));
  }

  void count(int status) const { server_.metrics_.answered("other", status, since(begin_)); }

  void answer() {
    auto message = parser_->release();
    const std::string_view target = view(message.target());
    HttpRequest request;
    request.method = view(message.method_string());
    request.path = target.substr(0, target.find('?'));
    request.query = target.substr(std::min(request.path.size() + 1, target.size()));
    request.content_type = view(message[http::field::content_type]);
    request.body = std::move(message.body());
    parser_.reset();
    what_ = fmt::format("{} {}", printable(request.method), printable(request.path));
    const bool is_slow = Service::is_slow(request);
    if (is_slow && server_.slow_ == server_.limits_.slow_requests) return refuse(503, "too many slow requests at once");
    if (is_slow) ++server_.slow_;
    asio::post(is_slow ? *server_.slow_pool_ : *server_.quick_,
               [self = shared_from_this(), is_slow, request = std::move(request)] {
                 HttpResponse response = self->server_.service_.answer(request);
                 asio::post(self->server_.io_, [self, is_slow, response = std::move(response)]() mutable {
                   if (is_slow) --self->server_.slow_;
                   self->server_.release(self->held_);
                   self->held_ = 0;
                   self->write(std::move(response));
                 });
               });
  }

  void write(HttpResponse response) {
    if (!server_.hold(response.body.size())) {
      response = http_refusal(503, "too many large answers are being read");
    }
    server_.release(held_);
    held_ = response.body.size();
    if (server_.is_stopping_) keep_alive_ = false;
    const int status = response.status;
    message_.emplace(static_cast<http::status>(status), version_);
    message_->set(http::field::content_type, response.content_type);
    message_->set(http::field::date, fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr))));
    message_->set("X-Content-Type-Options", "nosniff");
    if (status == 503) message_->set(http::field::retry_after, "1");
    for (const auto& [name, value] : response.headers) message_->set(name, value);
    message_->keep_alive(keep_alive_);
    message_->content_length(response.body.size());
    log(status, response.body.size());
    if (!is_head_) message_->body() = std::move(response.body);
    stream_.expires_after(seconds(server_.limits_.write_sec));
    http::async_write(stream_, *message_, [self = shared_from_this()](error_code error, std::size_t) {
      self->message_.reset();
      self->server_.release(self->held_);
      self->held_ = 0;
      if (error) return self->lost(error);
      self->keep_alive_ ? self->wait() : self->close();
    });
  }

  /// The client did not take its answer.
  void lost(error_code error) const {
    server_.say_(fmt::format("{}: {}: the answer was not taken: {}", peer_, what_, error.message()));
  }

  /// Closes so that the client can read what was said, though it may still be sending.
  void close() {
    error_code ignored;  // the client may have closed it already
    stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    stream_.expires_after(linger);
    discard();
  }

  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(small_message), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->discard();
    });
  }

  void log(int status, std::size_t bytes) const {
    if (!server_.logs_requests) return;
    server_.say_(
        fmt::format("{}: {} {} {:.4f} s {} bytes", peer_, what_.empty() ? "-" : what_, status, since(begin_), bytes));
  }

  Impl& server_;
  const std::string peer_;
  const bool checks_host_;
  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> message_;
  std::string what_;  // method and path of the request that was read last
  Clock::time_point begin_ = Clock::now();
  std::size_t held_ = 0;
  unsigned version_ = 11;
  bool is_idle_ = true, keep_alive_ = false, is_head_ = false;
};

void Server::Impl::admit(int connection, bool checks_host) {
  const std::size_t open = sessions_.size();
  if (open >= limits_.connections) ++metrics_.refused_connections;
  if (open >= limits_.connections + refused_at_once) {
    ::close(connection);
    return;
  }
  const auto session = std::make_shared<Session>(*this, connection, checks_host);
  open < limits_.connections ? session->wait() : session->turn_away();
}

void Server::Impl::leave(Session* session) {
  sessions_.erase(session);
  end_if_done();
}

void Server::Impl::end_if_done() {
  if (!is_stopping_ || !sessions_.empty()) return;
  patience_.cancel();
  work_.reset();
}

void Server::Impl::stop(int signal) {
  is_stopping_ = true;
  signals_.clear();  // a second one ends the process
  for (const auto& door : doors_) door->close();
  listening_.clear();  // who comes now is refused, not kept waiting
  const auto busy = std::ranges::count_if(sessions_, [](const Session* one) { return !one->is_idle(); });
  say_(fmt::format("stops at signal {}; {} requests are under way", signal == SIGTERM ? "SIGTERM" : "SIGINT", busy));
  patience_.expires_after(pause);  // what is on its way arrives
  patience_.async_wait([this](error_code error) {
    if (!error) close_idle();
  });
  end_if_done();
}

void Server::Impl::close_idle() {
  for (Session* session : sessions_) {
    if (session->is_idle()) session->end();
  }
}

void Server::Impl::run() {
  constexpr std::size_t other_files = 128;
  allow_files(limits_.connections + refused_at_once + other_files);
  for (const int signal : {SIGTERM, SIGINT}) signals_.add(signal);
  signals_.async_wait([this](error_code error, int signal) {
    if (!error) stop(signal);
  });
  std::signal(SIGPIPE, SIG_IGN);
  quick_.emplace(threads_of(limits_));
  slow_pool_.emplace(2);
  for (const Listening& listening : listening_) {
    doors_.push_back(std::make_unique<Door>(*this, listening));
    say_(fmt::format("listens on {}", listening.name()));
  }
  for (bool again = true; again;) {
    again = false;
    try {
      io_.run();
    } catch (const std::bad_alloc&) {
      say_("out of memory: a connection is lost");
      again = true;
    }
  }
  doors_.clear();
  for (auto* pool : {&quick_, &slow_pool_}) {
    (*pool)->stop();
    (*pool)->join();
  }
}

Server::Server(std::vector<Listening> listening, const ServerLimits& limits, const Service& service, Metrics& metrics,
               Say say)
    : impl_(std::make_unique<Impl>(std::move(listening), limits, service, metrics, std::move(say))) {}

Server::~Server() = default;

void Server::log_requests() { impl_->logs_requests = true; }

void Server::add_host(const std::string& name) { impl_->hosts.insert(name); }

void Server::run() { impl_->run(); }

}  // namespace perfpred
