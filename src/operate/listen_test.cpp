#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <system_error>

#include "net/endpoint.hpp"
#include "operate/server_test_client.hpp"

namespace tandem::net::test {
namespace {

TEST(ParseEndpoint, TakesWhatMemcachedTakes) {
  const auto check = [](const char* text, const char* host, int port) {
    const Endpoint e = parse_endpoint(text);
    EXPECT_EQ(e.host, host) << text;
    EXPECT_EQ(e.port, port) << text;
  };
  check("127.0.0.1", "127.0.0.1", -1);
  check("127.0.0.1:80", "127.0.0.1", 80);
  check("localhost:0", "localhost", 0);
  check("::1", "::1", -1);
  check("fe80::1:80", "fe80::1:80", -1);
  check("[::1]", "::1", -1);
  check("[::1]:80", "::1", 80);
  check("*", "", -1);
  check("*:80", "", 80);
  check("", "", -1);
  for (const char* bad : {"a:b", "a:", "a:65536", "a:-1", "[::1", "[::1]x", "[::1]:", "a:1x"}) {
    EXPECT_THROW(parse_endpoint(bad), std::invalid_argument) << bad;
  }
}

TEST(Listen, AnAddressInUseIsNamed) {
  TestServer first;
  ServerOptions options = any_port();
  options.tcp_port = first.port();
  Engine engine(small_engine());
  try {
    const Server second(options, engine);
    FAIL() << "bound twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use);
    EXPECT_NE(std::string(error.what()).find("127.0.0.1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(first.port())), std::string::npos) << error.what();
  }
}

TEST(Listen, AUdpPortInUseIsRefusedThoughSharedAmongWorkers) {
  ServerOptions options = any_port(3);
  options.udp_port = -1;
  TestServer first(options);
  options.udp_port = first.server.udp_port();
  Engine engine(small_engine());
  EXPECT_THROW(Server(options, engine), std::system_error);
}

TEST(Listen, AnUnknownHostIsAnError) {
  ServerOptions options = any_port();
  options.listen = {"no.such.host.invalid"};
  Engine engine(small_engine());
  try {
    const Server server(options, engine);
    FAIL() << "such a host";
  } catch (const std::system_error& error) {
    // The resolver's reason, and nothing behind it.
    const std::string said = error.what(), begin = "cannot listen on no.such.host.invalid: ";
    EXPECT_EQ(said.rfind(begin, 0), 0u) << said;
    EXPECT_EQ(said.find(':', begin.size()), std::string::npos) << said;
  }
}

TEST(Listen, SeveralAddressesAndPorts) {
  ServerOptions options = any_port();
  options.listen = {"127.0.0.1", "127.0.0.2", "localhost:0"};
  TestServer s(options);
  Client c(s.port());
  c.set("a", "x");
  Client other(s.port());
  EXPECT_EQ(other.get("a"), "x");
  int listeners = 0;
  for (const auto& [name, value] : c.stats("conns")) listeners += value == "conn_listening" ? 1 : 0;
  EXPECT_GE(listeners, 3);
}

TEST(Listen, V6) {
  ServerOptions options = any_port();
  options.listen = {"[::1]"};
  Engine engine(small_engine());
  try {
    const Server server(options, engine);
    EXPECT_GT(server.tcp_port(), 0);
    const Fd fd(socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(server.tcp_port()));
    address.sin6_addr = in6addr_loopback;
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(send(fd.get(), "mn\r\n", 4, 0), 4);
    char reply[4];
    EXPECT_EQ(recv(fd.get(), reply, 4, MSG_WAITALL), 4);
    EXPECT_EQ(std::string_view(reply, 4), "MN\r\n");
  } catch (const std::system_error& error) {
    if (error.code().value() != EAFNOSUPPORT && error.code().value() != EADDRNOTAVAIL) throw;
    GTEST_SKIP() << "no IPv6 here";
  }
}

class UnixSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem-net-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    options_ = any_port();
    options_.unix_path = path();
  }
  void TearDown() override {
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/socket"; }
  bool exists() const { return access(path().c_str(), F_OK) == 0; }

  std::string directory_;
  ServerOptions options_;
};

TEST_F(UnixSocket, ServesWithItsModeAndGoes) {
  options_.unix_mask = 0600;
  {
    TestServer s(options_);
    EXPECT_EQ(s.server.tcp_port(), 0);
    struct stat status{};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    Client c(path());
    EXPECT_EQ(c.set("a", "x"), "STORED\r\n");
    EXPECT_EQ(c.get("a"), "x");
    EXPECT_EQ(c.stats("settings").at("domain_socket"), path());
    s.server.stop();
    s.server.wait();
    EXPECT_FALSE(exists());
  }
}

TEST_F(UnixSocket, AModeWiderThanTheUmask) {
  options_.unix_mask = 0777;
  TestServer s(options_);
  struct stat status{};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0777u);
}

TEST_F(UnixSocket, TakesTheFileOfADeadServer) {
  {
    const Fd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(exists());
  TestServer s(options_);
  EXPECT_EQ(Client(path()).ask("mn\r\n"), "MN\r\n");
}

TEST_F(UnixSocket, RefusesALiveServersFile) {
  TestServer first(options_);
  Engine engine(small_engine());
  EXPECT_THROW(Server(options_, engine), std::system_error);
  EXPECT_EQ(Client(path()).ask("mn\r\n"), "MN\r\n");
}

TEST_F(UnixSocket, RefusesAnotherKindOfFile) {
  std::ofstream(path()) << "precious";
  Engine engine(small_engine());
  EXPECT_THROW(Server(options_, engine), std::system_error);
  std::string content;
  std::ifstream(path()) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(UnixSocket, RefusesALongPath) {
  options_.unix_path = std::string(200, 'p');
  Engine engine(small_engine());
  EXPECT_THROW(Server(options_, engine), std::system_error);
}

}  // namespace
}  // namespace tandem::net::test
