// A memcached-like server as a child process on its own port, and one connection to it.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::bench {

class ServerProcess {
 public:
  // `command` is the program and its options except address and threads (one worker). Throws std::runtime_error.
  explicit ServerProcess(const std::vector<std::string>& command) {
    const std::uint16_t port = next_port();
    std::vector<std::string> words = command;
    words.insert(words.end(), {"-p", std::to_string(port), "-U", "0", "-l", "127.0.0.1", "-t", "1"});
    if (geteuid() == 0) words.insert(words.end(), {"-u", "root"});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execvp(arguments[0], arguments.data());
      std::perror(arguments[0]);
      _exit(127);
    }
    for (int tries = 0; tries < 500; ++tries) {
      socket_ = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
        const int on = 1;
        setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return;
      }
      close(socket_);
      if (waitpid(process_, nullptr, WNOHANG) != 0) break;
      usleep(10'000);
    }
    throw std::runtime_error("no answer from " + command.front());
  }
  ~ServerProcess() {
    close(socket_);
    kill(process_, SIGTERM);
    waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) throw std::runtime_error("the server closed the connection");
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // Appends the next received bytes to `reply`.
  void receive(std::string& reply) const {
    char bytes[64 * 1024];
    const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
    if (n <= 0) throw std::runtime_error("the server closed the connection");
    reply.append(bytes, static_cast<std::size_t>(n));
  }
  // One number of `stats`; waits until everything sent before was processed.
  std::uint64_t stat(std::string_view name) const {
    send_all("stats\r\n");
    std::string reply;
    while (!reply.ends_with("END\r\n")) receive(reply);
    const std::size_t at = reply.find("STAT " + std::string(name) + " ");
    if (at == std::string::npos) throw std::runtime_error("no statistic " + std::string(name));
    return std::strtoull(reply.c_str() + at + 6 + name.size(), nullptr, 10);
  }
  std::uint64_t resident_bytes() const {
    const std::string path = "/proc/" + std::to_string(process_) + "/statm";
    std::FILE* file = std::fopen(path.c_str(), "r");
    unsigned long total = 0;
    unsigned long resident = 0;
    if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) throw std::runtime_error(path);
    std::fclose(file);
    return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }

 private:
  static std::uint16_t next_port() {
    static std::uint16_t last = static_cast<std::uint16_t>(20'000 + getpid() % 10'000);
    return ++last;
  }

  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace tandem::bench
