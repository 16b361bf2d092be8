// The real monitoring endpoint, over loopback: any bytes, in pieces, from clients that wait for the answer, shut down
// their side or disconnect. Every answer is HTTP, only requests with this machine as Host get content, and another
// client gets its metrics afterwards. No thread and no socket is leaked.
//
// civetweb parses the requests. It is the system's library, without coverage, so seeds and dictionary guide the fuzzer.
//
// Input: a byte (its lower 2 bits: pieces less one; bit 2: the client disconnects at once; bit 3: it shuts down its
// side; bit 4: the endpoint asks for a token), then the request.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "monitor/monitor.hpp"
#include "net/fd.hpp"
#include "operate/server.hpp"

namespace tandem::monitor {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::seconds patience(15);

EngineOptions engine_options() {
  EngineOptions options;
  options.memory_bytes = std::uint64_t{16} << 20;
  options.huge_pages = false;
  return options;
}
ServerOptions server_options() {
  ServerOptions options;
  options.tcp_port = -1;
  options.threads = 1;
  return options;
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

std::size_t count_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}
// Only sockets: libFuzzer opens files and pipes of its own.
std::size_t count_sockets() {
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:")) ++count;
  return count;
}

constexpr std::string_view metrics_token = "fuzz-token";

std::string token_file() {
  const std::string path = std::filesystem::temp_directory_path() / ("tandem-http-fuzz-" + std::to_string(getpid()));
  std::ofstream(path) << metrics_token << '\n';
  return path;
}

class Client {
 public:
  // Each has its own address, so that the ports of closed connections are never all in use.
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    static std::uint32_t number = 0;
    TD_ASSERT(static_cast<bool>(socket_));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7f000002u + ++number % 0xffff00u);
    TD_ASSERT(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    TD_ASSERT(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const linger reset{1, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  // False: the server has closed.
  bool send(std::string_view bytes) const {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes);
  }
  void end() const { shutdown(socket_.get(), SHUT_WR); }
  // Everything that the server sends until it closes.
  std::string receive() const {
    std::string all;
    const auto until = Steady::now() + patience;
    for (;;) {
      pollfd one{socket_.get(), POLLIN, 0};
      TD_ASSERT(Steady::now() < until);
      if (poll(&one, 1, 100) != 1) continue;
      char bytes[16384];
      const ssize_t n = recv(socket_.get(), bytes, sizeof bytes, 0);
      if (n <= 0) return all;
      all.append(bytes, static_cast<std::size_t>(n));
    }
  }

 private:
  net::Fd socket_;
};

// Whether it is one of our pages; its body has the stated length, or is cut off.
bool is_page(const std::string& reply) {
  // civetweb may repeat text that it could not parse as the version in its refusal.
  TD_ASSERT(reply.starts_with("HTTP/"));
  if (!reply.starts_with("HTTP/1.1 200 ")) return false;
  const std::size_t head = reply.find("\r\n\r\n"), length = reply.find("\r\nContent-Length: ");
  if (head != std::string::npos) {
    TD_ASSERT(length < head);
    TD_ASSERT(reply.size() - head - 4 <= std::strtoull(reply.c_str() + length + 18, nullptr, 10));
  }
  return true;
}

class Harness {
 public:
  Harness()
      : engine_(engine_options()),
        server_(server_options(), engine_),
        token_file_(token_file()),
        monitor_("127.0.0.1:0", "", "fuzz", ""),
        secured_("127.0.0.1:0", token_file_, "fuzz", "") {
    std::filesystem::remove(token_file_);
    monitor_.watch(server_.telemetry());
    secured_.watch(server_.telemetry());
    witness();
    threads_ = count_threads();
    sockets_ = count_sockets();
  }

  void run(unsigned how, std::string_view request) {
    ask(how, request);
    if (++runs_ % 16 == 0) witness();
    if (runs_ % 256 == 0) look_for_leaks();
  }

 private:
  void ask(unsigned how, std::string_view request) const {
    const bool is_secured = (how & 16) != 0;
    const Client client(is_secured ? secured_.port() : monitor_.port());
    const std::size_t piece = request.size() / (how % 4 + 1) + 1;
    for (std::string_view left = request; !left.empty(); left.remove_prefix(std::min(piece, left.size())))
      if (!client.send(left.substr(0, piece))) break;
    if ((how & 8) != 0) client.end();
    if ((how & 4) != 0) return;
    // The server waits for the rest of an incomplete request, so nothing more is sent.
    if ((how & 8) == 0 && !client.send("\r\n\r\n")) return;
    client.end();
    const std::string reply = client.receive();
    check(reply, request);
    if (is_secured && reply.size() >= 5 && is_page(reply)) check_permission(request);
  }
  // Basic has the token behind any user, so its base64 has one of three forms: the user's length decides.
  static void check_permission(std::string_view request) {
    const std::string text = lower(request);
    TD_ASSERT(text.find("/healthz") != std::string::npos || text.find("basic") != std::string::npos ||
              request.find(metrics_token) != std::string_view::npos);
  }
  static void check(const std::string& reply, std::string_view request) {
    if (reply.size() < 5) return;  // not HTTP, or ended before it was a request, or reset
    if (!is_page(reply)) return;
    const std::string text = lower(request);
    TD_ASSERT(text.find("host") != std::string::npos);
    TD_ASSERT(text.find("localhost") != std::string::npos || text.find("127.") != std::string::npos ||
              text.find("[::1]") != std::string::npos);
    TD_ASSERT(reply.find("\r\nX-Frame-Options: DENY\r\n") != std::string::npos);  // it is our page, no file
  }
  void witness() const {
    const Client client(monitor_.port());
    TD_ASSERT(client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const std::string reply = client.receive();
    TD_ASSERT(is_page(reply));
    TD_ASSERT(reply.find("\ntandem_items ") != std::string::npos && reply.ends_with('\n'));
  }
  // The server closes a moment after its client.
  void look_for_leaks() const {
    const auto until = Steady::now() + patience;
    while (count_threads() > threads_ || count_sockets() > sockets_) {
      TD_ASSERT(Steady::now() <= until);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Engine engine_;
  Server server_;
  const std::string token_file_;
  Monitor monitor_, secured_;
  std::uint64_t runs_ = 0;
  std::size_t threads_ = 0, sockets_ = 0;
};

}  // namespace
}  // namespace tandem::monitor

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  // Never destroyed: libFuzzer's own threads still run at exit.
  static auto* const harness = new tandem::monitor::Harness;
  if (bytes != 0) harness->run(data[0], {reinterpret_cast<const char*>(data) + 1, bytes - 1});
  return 0;
}
