// mg's flag K over connections: among writers, a client that compares the keys itself and asks again where they differ
// never reads a wrong value.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "index/colliding_keys.hpp"
#include "net/net_test_client.hpp"

namespace tandem::net::test {
namespace {

using std::string;

struct Found {
  string key, value;  // both empty: a miss
};

// The answer to "mg key v K" or "mg key v k".
Found read_named_value(Client& client) {
  const string line = client.read_line();
  if (line.starts_with("EN ")) return {};
  const std::size_t mark = line.find(" k");
  if (!line.starts_with("VA ") || mark == string::npos) throw std::runtime_error("no answer to mg: " + line);
  Found found;
  found.key = line.substr(mark + 2, line.size() - mark - 4);
  found.value = client.read(std::stoul(line.substr(3)) + 2);
  found.value.resize(found.value.size() - 2);
  return found;
}

TEST(CallerCompares, AClientThatAsksAgainReadsWhatIsRight) {
  EngineOptions options = small_engine(16);
  options.hash_seed = 5;
  options.item_bytes_expected = 1 << 20;  // the smallest index
  TestServer server(any_port(2), options);
  std::vector<string> keys;
  for (const CollidingKeys& pair : colliding_keys(options.hash_seed, 4)) keys.insert(keys.end(), {pair.a, pair.b});
  {
    Client client(server.port());
    for (const string& key : keys) {
      EXPECT_EQ(client.ask("set " + key + " 0 0 " + std::to_string(key.size() + 2) + "\r\n" + key + ":0\r\n"),
                "STORED\r\n");
    }
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> again{0}, right{0};
  std::thread writer([&] {
    Client client(server.port());
    for (std::uint64_t n = 1; !stop; ++n) {
      const string &key = keys[n % keys.size()], value = key + ":" + std::to_string(n);
      EXPECT_EQ(client.ask("set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n"),
                "STORED\r\n");
      // The next read need not mark the item.
      client.ask("mg " + key + "\r\n");
    }
  });
  Client client(server.port());
  std::vector<std::uint64_t> last(keys.size());
  string requests;
  for (const string& key : keys) requests += "mg " + key + " v K\r\n";
  for (int round = 0; round < 500 || (again == 0 && round < 100'000); ++round) {
    client.send(requests);
    std::vector<Found> answers;
    for (std::size_t i = 0; i < keys.size(); ++i) answers.push_back(read_named_value(client));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Found found = answers[i];
      ASSERT_TRUE(found.value.starts_with(found.key + ":")) << "key and value of different items";
      ++(found.key == keys[i] ? right : again);
      if (found.key != keys[i]) {
        client.send("mg " + keys[i] + " v k\r\n");
        found = read_named_value(client);
      }
      ASSERT_EQ(found.key, keys[i]);
      const std::uint64_t number = std::stoull(found.value.substr(found.key.size() + 1));
      EXPECT_GE(number, last[i]) << "an older value than before";
      last[i] = number;
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(again, 0u) << "the keys did not collide";
  EXPECT_GT(right, 0u);
}

}  // namespace
}  // namespace tandem::net::test
