// Verified load for the tests of servers with batches that go through devices.
#pragma once
#include <string>
#include <thread>
#include <vector>

#include "operate/server_test_client.hpp"

namespace tandem::net::test {

#if defined(TANDEM_SANITIZED)
inline constexpr int less = 10;
#else
inline constexpr int less = 1;
#endif

// A client with keys of its own: pipelines sets and gets of every age, and checks all answers.
inline void talk(int port, int self, int rounds) {
  Client c(port);
  for (int round = 0; round < rounds; ++round) {
    constexpr int keys = 200;
    std::string requests, expected;
    for (int k = 0; k < keys; ++k) {
      const std::string key = "k" + std::to_string(self) + ":" + std::to_string(k);
      const auto value = [&](int of) { return std::to_string(k) + "@" + std::to_string(of); };
      const auto hit = [&](const std::string& v) {
        return "VALUE " + key + " 0 " + std::to_string(v.size()) + "\r\n" + v + "\r\nEND\r\n";
      };
      requests += "get " + key + "\r\n";
      expected += round == 0 || k % 5 == 4 ? "END\r\n" : hit(value(round - 1));
      requests += "set " + key + " 0 0 " + std::to_string(value(round).size()) + "\r\n" + value(round) + "\r\n";
      expected += "STORED\r\n";
      requests += "get " + key + "\r\n";
      expected += hit(value(round));
      if (k % 5 == 4) {
        requests += "delete " + key + "\r\nget " + key + "\r\n";
        expected += "DELETED\r\nEND\r\n";
      }
    }
    std::thread sender([&] { EXPECT_TRUE(c.send(requests)); });
    const std::string got = c.read(expected.size());
    sender.join();
    ASSERT_TRUE(got == expected) << "client " << self << ", round " << round;
  }
}

// Clients first, first + 1, ...: none of them has talked before.
inline void talk_together(int port, int clients, int rounds, int first = 0) {
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back([=] { talk(port, first + i, rounds); });
  for (std::thread& t : threads) t.join();
}

}  // namespace tandem::net::test
