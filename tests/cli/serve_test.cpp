// SPDX-License-Identifier: Apache-2.0
// perfpred-serve as clients meet it: over sockets, by strangers' bytes, and at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;

const std::string asked = R"({"id": 1, "network": "resnet50", "batch_size": 64, "device": "L4"})";
constexpr auto patience = std::chrono::seconds(20);  // of a test for what must come

/// Waits for something that must become true.
bool soon(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// One connection of a client that writes and reads bytes.
class Client {
 public:
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd_); }

  [[nodiscard]] bool connected() const { return connected_; }

  /// @returns whether the service took all of it
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// One response, with its header; what came of it if the connection ends before.
  std::string receive() {
    for (;;) {
      const std::size_t end = got_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t at = got_.find("Content-Length: ");
        const std::size_t whole = end + 4 + (at < end ? std::stoul(got_.substr(at + 16)) : 0);
        if (got_.size() >= whole) {
          std::string response = got_.substr(0, whole);
          got_.erase(0, whole);
          return response;
        }
      }
      if (!fill()) return std::exchange(got_, {});
    }
  }

  /// Whether the service closes the connection, without another byte.
  bool is_closed() { return !fill() && got_.empty(); }

 private:
  bool fill() {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) != 1) return false;
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    got_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  int fd_;
  bool connected_ = false;
  std::string got_;
};

std::string post(const std::string& body, const std::string& path = "/v1/predict", const std::string& more = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string get(const std::string& path, const std::string& host = "localhost") {
  return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

int status_of(const std::string& response) {
  return response.starts_with("HTTP/1.") ? std::stoi(response.substr(9, 3)) : 0;
}

Json document_of(const std::string& response) {
  return Json::parse(response.substr(response.find("\r\n\r\n") + 4), nullptr, false);
}

/// The program at work, until stop().
class Running {
 public:
  /// @param socket  a listening one, which the program gets as systemd gives it; -1: none
  explicit Running(std::vector<std::string> options, int socket = -1) {
    options.insert(options.begin(), testing::program("serve"));
    std::vector<char*> arguments;
    for (std::string& option : options) arguments.push_back(option.data());
    arguments.push_back(nullptr);
    const std::string err = folder_.write("err", "");
    child_ = ::fork();
    if (child_ != 0) return;
    if (socket >= 0) {
      ::dup2(socket, 3);
      ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
      ::setenv("LISTEN_FDS", "1", 1);
    }
    const int fd = ::open(err.c_str(), O_WRONLY);
    ::dup2(fd, 2);
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }

  [[nodiscard]] std::string said() const { return testing::slurp(folder_.file("err")); }
  bool says(const std::string& what) const {
    return soon([&] { return said().find(what) != std::string::npos; });
  }
  void signal(int number) const { ::kill(child_, number); }

  /// The exit code, once it has ended; 128 + the signal that ended it.
  int wait() {
    int status = 0;
    if (!soon([&] { return ::waitpid(child_, &status, WNOHANG) == child_; })) return -1;
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] std::uint16_t port() const {
    const std::string text = said(), mark = "http://127.0.0.1:";
    const std::size_t at = text.find(mark);
    return at == std::string::npos ? std::uint16_t{0}
                                   : static_cast<std::uint16_t>(std::stoi(text.substr(at + mark.size())));
  }

 private:
  TemporaryFolder folder_;
  pid_t child_ = -1;
};

class Serve : public ::testing::Test {
 protected:
  /// Starts the program on a socket, and waits until it listens.
  void start(std::vector<std::string> options = {}) {
    for (const char* word : {"--socket", socket_.c_str()}) options.emplace_back(word);
    running_.emplace(options);
    ASSERT_TRUE(running_->says("listens on")) << running_->said();
  }

  std::string ask(const std::string& bytes) {
    Client client(socket_);
    EXPECT_TRUE(client.send(bytes));
    return client.receive();
  }

  TemporaryFolder folder_;
  std::string socket_ = folder_.file("socket");
  std::optional<Running> running_;
};

TEST_F(Serve, AnswersWhatPredictAnswers) {
  start();
  const Json expected = Json::parse(testing::spawn({testing::program("predict"), "--jsonl"}, asked + "\n").out);
  Client client(socket_);
  for (int again = 0; again < 3; ++again) {  // on one connection
    ASSERT_TRUE(client.send(post(asked)));
    const std::string response = client.receive();
    EXPECT_EQ(status_of(response), 200);
    EXPECT_EQ(document_of(response), expected);
  }
  ASSERT_TRUE(client.send(post(asked) + get("/healthz") + post("[" + asked + "]")));  // before the first is answered
  EXPECT_EQ(document_of(client.receive()), expected);
  EXPECT_EQ(document_of(client.receive())["status"], "ok");
  EXPECT_EQ(document_of(client.receive()).size(), 1);
}

TEST_F(Serve, SpeaksHttp) {
  start();
  Client old(socket_);
  ASSERT_TRUE(old.send("GET /healthz HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(status_of(old.receive()), 200);
  EXPECT_TRUE(old.is_closed()) << "HTTP/1.0 has one request a connection";
  const std::string head = ask("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_THAT(head, HasSubstr("Content-Type: text/html"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "a body";
  EXPECT_EQ(status_of(ask("OPTIONS /v1/predict HTTP/1.1\r\nHost: x\r\n\r\n")), 405);
  EXPECT_EQ(status_of(ask("nonsense\r\n\r\n")), 400);
  EXPECT_EQ(status_of(ask("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n")), 431);
  EXPECT_EQ(status_of(ask("POST /v1/predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), 411);
  Client client(socket_);
  ASSERT_TRUE(
      client.send("POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                  "Content-Length: " +
                  std::to_string(asked.size()) + "\r\n\r\n"));
  EXPECT_EQ(status_of(client.receive()), 100);
  ASSERT_TRUE(client.send(asked));
  EXPECT_EQ(status_of(client.receive()), 200);
}

TEST_F(Serve, RefusesLargeBodiesUnread) {
  start({"--max-body", "100KiB"});
  Client client(socket_);
  ASSERT_TRUE(client.send(
      "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"));
  const std::string response = client.receive();
  EXPECT_EQ(status_of(response), 413);
  EXPECT_THAT(response, HasSubstr("at most 102400 bytes"));
  EXPECT_EQ(status_of(ask(post(std::string(100 << 10, ' ')))), 400) << "as large as it may be";
  EXPECT_EQ(status_of(ask(post(asked))), 200);
}

TEST_F(Serve, SilentClientsAndSlowReadersKeepNobodyWaiting) {
  start({"--request-sec", "600", "--idle-sec", "600", "--write-sec", "600"});
  std::vector<std::unique_ptr<Client>> silent, slow;
  for (int i = 0; i < 256; ++i) {
    silent.push_back(std::make_unique<Client>(socket_));
    ASSERT_TRUE(silent.back()->connected());
    if (i % 2 == 0) {
      ASSERT_TRUE(silent.back()->send("POST /v1/predict HTTP/1.1\r\nContent-Le"));
    }
  }
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<Client>(socket_));
    for (int many = 0; many < 20; ++many)
      ASSERT_TRUE(slow.back()->send(get("/v1/devices")));  // 6 MB, and reads nothing
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(status_of(ask(post(asked))), 200);
}

TEST_F(Serve, ClosesWhoeverIsSilentOrLate) {
  start({"--request-sec", "0.2", "--idle-sec", "0.2"});
  Client silent(socket_), late(socket_);
  ASSERT_TRUE(late.send("GET /hea"));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(late.is_closed());
  EXPECT_EQ(status_of(ask(get("/healthz"))), 200);
}

TEST_F(Serve, TellsConnectionsOfTooManyThatTheyAre) {
  start({"--max-connections", "3"});
  std::vector<std::unique_ptr<Client>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(std::make_unique<Client>(socket_));
    ASSERT_TRUE(open.back()->send(get("/healthz")));
    EXPECT_EQ(status_of(open.back()->receive()), 200);
  }
  Client fourth(socket_);
  const std::string response = fourth.receive();
  EXPECT_EQ(status_of(response), 503);
  EXPECT_THAT(response, HasSubstr("Retry-After: 1"));
  ASSERT_TRUE(open.front()->send(post(asked)));
  EXPECT_EQ(status_of(open.front()->receive()), 200) << "who is there stays";
  open.pop_back();
  EXPECT_TRUE(soon([&] { return status_of(ask(get("/healthz"))) == 200; }));
}

TEST_F(Serve, FinishesRequestsUnderWayAtSigterm) {
  start();
  const std::string bytes = post(asked);
  Client half(socket_), idle(socket_), behind(socket_);
  ASSERT_TRUE(half.send(bytes.substr(0, bytes.size() / 2)));
  ASSERT_TRUE(idle.send(get("/healthz")));
  EXPECT_EQ(status_of(idle.receive()), 200);
  running_->signal(SIGTERM);
  ASSERT_TRUE(running_->says("stops at signal SIGTERM"));
  EXPECT_TRUE(idle.is_closed());
  ASSERT_TRUE(half.send(bytes.substr(bytes.size() / 2)));
  const std::string response = half.receive();
  EXPECT_EQ(status_of(response), 200);
  EXPECT_THAT(response, HasSubstr("Connection: close"));
  EXPECT_EQ(running_->wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(Serve, SaysThatAReaderIsGone) {
  start();
  {
    Client gone(socket_);
    for (int many = 0; many < 20; ++many) ASSERT_TRUE(gone.send(get("/v1/devices")));
  }
  EXPECT_TRUE(running_->says("the answer was not taken"));
  EXPECT_EQ(status_of(ask(post(asked))), 200);
  running_->signal(SIGTERM);
  EXPECT_EQ(running_->wait(), 0);
  const std::string said = running_->said();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;  // listens, gone, stops
}

TEST_F(Serve, LogsWhoAskedWhat) {
  start({"--log-requests"});
  (void)ask(post(asked));
  EXPECT_TRUE(running_->says("pid " + std::to_string(::getpid()) + ", uid " + std::to_string(::getuid()) + ", gid " +
                             std::to_string(::getgid()) + ": POST /v1/predict 200"))
      << running_->said();
}

TEST_F(Serve, TheSocketHasTheModeThatIsAskedFor) {
  start({"--socket-mode", "0600"});
  struct stat found {};
  ASSERT_EQ(::stat(socket_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  testing::expect_refusal(testing::spawn({testing::program("serve"), "--socket", socket_}), 2,
                          "another process listens there");
  running_->signal(SIGKILL);
  EXPECT_EQ(running_->wait(), 128 + SIGKILL);
  running_.reset();
  start();  // in place of what the killed one left
  EXPECT_EQ(status_of(ask(get("/healthz"))), 200);
}

TEST_F(Serve, ListensOnLoopbackForLocalNamesAlone) {
  Running running({"--port", "0", "--host", "perfpred.example"});
  ASSERT_TRUE(running.says("listens on http://127.0.0.1:"));
  const auto ask_as = [&](const std::string& host) {
    Client client(running.port());
    EXPECT_TRUE(client.send(get("/healthz", host)));
    return status_of(client.receive());
  };
  for (const char* host : {"localhost", "localhost:8650", "127.0.0.1:1", "[::1]:8650", "perfpred.example"})
    EXPECT_EQ(ask_as(host), 200) << host;
  for (const char* host : {"", "evil.example", "localhost.evil.example"}) EXPECT_EQ(ask_as(host), 421) << host;
  running.signal(SIGINT);
  EXPECT_EQ(running.wait(), 0);
}

TEST_F(Serve, TakesTheSocketThatSystemdGives) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 8), 0);
  Client early(socket_);  // before the service is there
  ASSERT_TRUE(early.send(get("/healthz")));
  Running running({}, fd);
  EXPECT_EQ(status_of(early.receive()), 200);
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(socket_)) << "it is systemd's";
  Running with_both({"--socket", folder_.file("other")}, fd);
  EXPECT_EQ(with_both.wait(), 2);
  EXPECT_THAT(with_both.said(), HasSubstr("--socket is for a service that systemd gives no socket"));
  ::close(fd);
}

TEST_F(Serve, ReadsAReplacedModelByItself) {
  const std::string model =
      folder_.write("lab.json", testing::slurp(PERFPRED_SOURCE_DIR "/tests/data/stored_regressor.json"));
  start({"--model", "lab=" + model});
  const auto rows = [&] { return document_of(ask(get("/v1/models")))["models"][0]["rows"].get<int>(); };
  EXPECT_GT(rows(), 0);
  std::filesystem::rename(folder_.write("next.json", testing::slurp(PERFPRED_SOURCE_DIR "/tests/data/stored_ops.json")),
                          model);
  EXPECT_TRUE(soon([&] { return rows() == 0; }));
  folder_.write("lab.json", "{");
  EXPECT_TRUE(running_->says("model lab stays as it was"));
  EXPECT_EQ(rows(), 0);
}

TEST(ServeOptions, AreRefusedInOneLine) {
  const auto refused = [](std::vector<std::string> options, const std::string& what) {
    options.insert(options.begin(), testing::program("serve"));
    testing::expect_refusal(testing::spawn(options), 2, what);
  };
  refused({"--model", "lab=/nosuch.json"}, "/nosuch.json");
  refused({"--model", "=m.json"}, "name=model.json");
  refused({"--socket", std::string(200, 'x')}, "a path has 1 to");
  refused({"--socket", "/nosuch/socket"}, "/nosuch/socket");
  refused({"--socket", "/dev/null"}, "is a file, and no socket");
  refused({"--socket", "s", "--port", "1"}, "--port");
  refused({"--socket", "s", "--socket-mode", "0999"}, "--socket-mode");
  refused({"--max-connections", "100000000"}, "may be open");
  refused({"--slurm-mode", "observe"}, "--slurm-table");
  const testing::TemporaryFolder folder;
  const std::string table = folder.file("table");
  refused({"--port", "0", "--slurm-table", table, "--slurm-mode", "enforce"}, "needs --slurm-startup-sec");
  refused({"--port", "0", "--slurm-table", table, "--slurm-device", "L4"}, "PARTITION=DEVICE");
  refused({"--port", "0", "--slurm-table", table, "--slurm-device", "a=L4", "--slurm-device", "a=T4"}, "twice");
  refused({"--port", "0", "--slurm-table", table, "--slurm-device", "a=nosuch"}, "nosuch");
  refused({"--port", "0", "--slurm-table", "/nosuch/table"}, "/nosuch/table: cannot be written");
  refused({"--port", "0", "--spool", folder.file("spool")}, "a spool needs --model");
  refused({"--port", "0", "--spool-model", "lab"}, "--spool");
}

TEST_F(Serve, KeepsATableForSlurmAndLearnsFromAFolder) {
  const std::string table = folder_.file("table"), spool = folder_.file("spool");
  const std::string model =
      folder_.write("lab.json", testing::slurp(PERFPRED_SOURCE_DIR "/tests/data/stored_ops.json"));
  start({"--model", "lab=" + model, "--slurm-table", table, "--slurm-mode", "enforce", "--slurm-startup-sec", "5:00",
         "--slurm-device", "gpu=L4", "--spool", spool});
  const auto has = [&](const std::string& text) { return testing::slurp(table).find(text) != std::string::npos; };
  EXPECT_TRUE(soon([&] { return has(" mode=enforce rows=0 "); }));
  folder_.write("table.requests", "gpu network=resnet18;batch_size=8;epochs=1\n");
  EXPECT_TRUE(soon([&] { return has("gpu network=resnet18;batch_size=8;epochs=1\tok\t"); }));
  EXPECT_TRUE(has("other_sec=300.000;"));
  folder_.write("spool/run.csv", "no table");
  EXPECT_TRUE(running_->says("spool: run.csv is refused"));
}

}  // namespace
}  // namespace perfpred
