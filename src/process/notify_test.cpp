#include "process/notify.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace tandem::cli {
namespace {

// A service manager's socket, at a path or (`@name`) an abstract address; while it lives, $NOTIFY_SOCKET names it.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes), 0) << std::strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
    if (name_[0] == '/') unlink(name_.c_str());
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // The next message, empty when there is none.
  std::string take() const {
    char buffer[64];
    const ssize_t bytes = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    return bytes < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(bytes));
  }

 private:
  std::string name_;
  int fd_;
};

std::string own_name() { return "tandem_notify_test_" + std::to_string(getpid()); }

TEST(Notify, ReachesASocketFile) {
  const Manager manager((std::filesystem::temp_directory_path() / own_name()).string());
  ServiceManager().tell("READY=1");
  ServiceManager().tell("STOPPING=1");
  EXPECT_EQ(manager.take(), "READY=1");
  EXPECT_EQ(manager.take(), "STOPPING=1");
  EXPECT_EQ(manager.take(), "");
}

TEST(Notify, ReachesAnAbstractAddress) {
  const Manager manager("@" + own_name());
  ServiceManager().tell("READY=1");
  EXPECT_EQ(manager.take(), "READY=1");
}

TEST(Notify, SaysNothingWithoutASocketOrWithABadOne) {
  unsetenv("NOTIFY_SOCKET");
  ServiceManager().tell("READY=1");
  for (const std::string& name : {std::string(), std::string("/"), std::string("relative"), std::string("vsock:2:1"),
                                  std::string("/nobody/listens"), std::string(200, '/')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceManager().tell("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
}

// Fills the queue of the abstract address from one socket. False when not even one message was accepted.
bool fill(const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  bool is_any = false;
  while (send(fd, "x", 1, MSG_DONTWAIT) == 1) is_any = true;
  close(fd);
  return is_any;
}

TEST(Notify, GivesUpOnAManagerThatDoesNotRead) {
  const Manager manager("@" + own_name());
  while (fill(own_name())) {  // a socket's own buffer may fill before the queue
  }
  ServiceManager().tell("READY=1");
  std::string last;
  for (std::string next = manager.take(); !next.empty(); next = manager.take()) last = next;
  EXPECT_EQ(last, "x");
}

}  // namespace
}  // namespace tandem::cli
