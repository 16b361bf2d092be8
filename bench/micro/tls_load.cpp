// Load for bench/micro/tls_bench.py: one thread, `connections` connections with `depth` gets in flight each, with or
// without TLS. Prints its results as one line of JSON. Modes: get (for `seconds`), handshake (connect and close), idle
// (connects, prints "ready", and waits for the end of its input).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

double now_s() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A connected client. Blocks.
class Client {
 public:
  Client(int port, SSL_CTX* tls) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
    if (tls == nullptr) return;
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, fd_);
    if (SSL_connect(ssl_) != 1) throw std::runtime_error("no TLS handshake");
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (ssl_ != nullptr) {
      SSL_shutdown(ssl_);
      SSL_free(ssl_);
    }
    close(fd_);
  }
  int fd() const { return fd_; }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                     : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("cannot send");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  std::size_t receive(char* to, std::size_t bytes) {
    const auto n = ssl_ != nullptr ? SSL_read(ssl_, to, static_cast<int>(bytes)) : ::recv(fd_, to, bytes, 0);
    if (n <= 0) throw std::runtime_error("the server has closed");
    return static_cast<std::size_t>(n);
  }
  bool has_pending() const { return ssl_ != nullptr && SSL_has_pending(ssl_) != 0; }

  std::size_t missing = 0;  // outstanding bytes of the replies in flight

 private:
  int fd_;
  SSL* ssl_ = nullptr;
};

struct Load {
  std::map<std::string, std::string> options = {{"mode", "get"},  {"port", "11211"},     {"tls", "0"},
                                                {"depth", "1"},   {"connections", "50"}, {"seconds", "3"},
                                                {"value", "100"}, {"keys", "10000"}};
  long number(const std::string& name) const { return std::strtol(options.at(name).c_str(), nullptr, 10); }
};

std::string key_of(long i) {
  const std::string digits = std::to_string(i);
  return "key-" + std::string(12 - digits.size(), '0') + digits;
}

void store(Client& c, const Load& load) {
  const std::string value(static_cast<std::size_t>(load.number("value")), 'v');
  for (long i = 0; i < load.number("keys"); ++i) {
    c.send("set " + key_of(i) + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
    char reply[8];
    for (std::size_t got = 0; got < sizeof reply;) got += c.receive(reply + got, sizeof reply - got);
    if (std::memcmp(reply, "STORED\r\n", 8) != 0) throw std::runtime_error("not stored");
  }
}

void get(const Load& load, int port, SSL_CTX* tls) {
  const long depth = load.number("depth"), keys = load.number("keys");
  std::vector<std::unique_ptr<Client>> clients;
  for (long i = 0; i < load.number("connections"); ++i) clients.push_back(std::make_unique<Client>(port, tls));
  store(*clients.front(), load);
  // All replies have the same length, so only their bytes need be counted.
  const std::size_t reply_bytes = std::string("VALUE ").size() + key_of(0).size() + 3 +
                                  load.options.at("value").size() + 2 + static_cast<std::size_t>(load.number("value")) +
                                  7;
  std::vector<std::string> batches;
  std::uint64_t random = 88172645463325252u;
  for (int i = 0; i < 256; ++i) {
    std::string batch;
    for (long d = 0; d < depth; ++d) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      batch += "get " + key_of(static_cast<long>(random % static_cast<std::uint64_t>(keys))) + "\r\n";
    }
    batches.push_back(std::move(batch));
  }
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  for (const auto& c : clients) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = c.get();
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd(), &event);
  }
  std::size_t next = 0;
  long gets = 0;
  const auto ask = [&](Client& c) {
    c.send(batches[next++ % batches.size()]);
    c.missing = reply_bytes * static_cast<std::size_t>(depth);
  };
  std::vector<char> sink(1 << 16);
  for (const auto& c : clients) ask(*c);
  const double begin = now_s(), end = begin + static_cast<double>(load.number("seconds"));
  while (now_s() < end) {
    epoll_event events[64];
    const int count = epoll_wait(epoll, events, 64, 1000);
    for (int i = 0; i < count; ++i) {
      Client& c = *static_cast<Client*>(events[i].data.ptr);
      do {
        const std::size_t got = c.receive(sink.data(), sink.size());
        if (got > c.missing) throw std::runtime_error("a reply is too long");
        c.missing -= got;
        if (c.missing == 0) {
          gets += depth;
          ask(c);
        }
      } while (c.has_pending());
    }
  }
  std::printf("{\"gets\": %ld, \"seconds\": %.6f}\n", gets, now_s() - begin);
}

void shake_hands(const Load& load, int port, SSL_CTX* tls) {
  long count = 0;
  const double begin = now_s(), end = begin + static_cast<double>(load.number("seconds"));
  for (; now_s() < end; ++count) {
    Client c(port, tls);
    c.send("mn\r\n");
    char reply[4];
    c.receive(reply, sizeof reply);
  }
  std::printf("{\"handshakes\": %ld, \"seconds\": %.6f}\n", count, now_s() - begin);
}

void idle(const Load& load, int port, SSL_CTX* tls) {
  std::vector<std::unique_ptr<Client>> clients;
  for (long i = 0; i < load.number("connections"); ++i) {
    clients.push_back(std::make_unique<Client>(port, tls));
    clients.back()->send("mn\r\n");
    char reply[4];
    clients.back()->receive(reply, sizeof reply);
  }
  std::printf("ready\n");
  std::fflush(stdout);
  std::getchar();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  Load load;
  for (int i = 1; i + 1 < argc; i += 2) load.options[std::string(argv[i]).substr(2)] = argv[i + 1];
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX* const tls = load.number("tls") != 0 ? context.get() : nullptr;
  const int port = static_cast<int>(load.number("port"));
  try {
    if (load.options["mode"] == "get") {
      get(load, port, tls);
    } else if (load.options["mode"] == "handshake") {
      shake_hands(load, port, tls);
    } else {
      idle(load, port, tls);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tls_load: %s\n", error.what());
    return 1;
  }
  return 0;
}
