// mg's flag K over connections: among writers, a client that compares the keys itself and asks again where they differ
// never reads a wrong value.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "index/cuckoo/colliding_keys.hpp"
#include "operate/server_test_client.hpp"
#include "tandem/getk.hpp"

namespace tandem::net::test {
namespace {

using std::string;

using Code = GetkReply::Code;

// A client's socket as getk_batch() wants it; receives as few bytes at a time as it is told.
struct Connection {
  bool send(std::string_view bytes) { return client.send(bytes); }
  std::size_t receive(std::span<char> room) {
    for (;;) {
      const ssize_t n = recv(client.fd(), room.data(), std::min(room.size(), most), 0);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) return 0;
    }
  }
  Client& client;
  std::size_t most = SIZE_MAX;
};

string set_of(const string& key, const string& value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

TEST(CallerCompares, ARequestIsOfAKeyThatLinesHave) {
  string out;
  for (const string& bad :
       {string(), string("a b"), string("a\r\n"), string("\x7f"), string(251, 'k'), string("\0", 1)})
    EXPECT_FALSE(append_getk(out, bad));
  EXPECT_EQ(out, "");
  EXPECT_TRUE(append_getk(out, string(250, 'k')));
  EXPECT_EQ(out, "mg " + string(250, 'k') + " v K\r\n");
}

TEST(CallerCompares, RepliesAreReadWhole) {
  struct Case {
    string received;
    Code code;
    string value = "";
  };
  const Case cases[] = {
      {"VA 5 kkey\r\nhello\r\n", Code::hit, "hello"},
      {"VA 0 kkey\r\n\r\n", Code::hit},
      {"VA 5 f30 kkey t-1\r\nk\r\nk\r\r\n", Code::hit, "k\r\nk\r"},
      {"VA 3 kanother\r\nabc\r\n", Code::other_key},
      // A key that was stored in binary is named in base64.
      {"VA 5 ka2V5 b\r\nhello\r\n", Code::hit, "hello"},
      {"VA 5 kkey b\r\nhello\r\n", Code::other_key},
      {"VA 5 ka2V5\r\nhello\r\n", Code::other_key},
      {"VA 5 ka2V6 b\r\nhello\r\n", Code::other_key},
      {"VA 5 ka2V5MQ== b\r\nhello\r\n", Code::other_key},
      {"EN kkey\r\n", Code::miss},
      {"EN\r\n", Code::wrong},
      {"EN kother\r\n", Code::wrong},
      {"VA 5\r\nhello\r\n", Code::wrong},
      {"VA x kkey\r\nhello\r\n", Code::wrong},
      {"VA  kkey\r\nhello\r\n", Code::wrong},
      {"VA 99999999999 kkey\r\n", Code::wrong},
      {"VA 4294967295 kkey\r\n", Code::wrong},
      {"VA 3 kkey\r\nhello\r\n", Code::wrong},
      {"HD kkey\r\n", Code::wrong},
      {"SERVER_ERROR out of memory\r\n", Code::wrong},
      {"VA 3 k" + string(600, 'k'), Code::wrong},
  };
  for (const Case& c : cases) {
    const string received = c.received + "EN kkey\r\n";
    const GetkReply reply = read_getk_reply(received, "key");
    EXPECT_EQ(reply.code, c.code) << c.received;
    EXPECT_EQ(reply.bytes, c.code == Code::wrong ? 0 : c.received.size()) << c.received;
    EXPECT_EQ(reply.value, c.value);
    if (c.code == Code::wrong) continue;
    for (std::size_t n = 0; n < c.received.size(); ++n)
      EXPECT_EQ(read_getk_reply(c.received.substr(0, n), "key").code, Code::partial) << n << " of " << c.received;
  }
}

TEST(CallerCompares, KeysStoredInBinaryAreRead) {
  TestServer server;
  Client client(server.port());
  for (const auto& [key, base64] :
       {std::pair("foo", "Zm9v"), std::pair("food", "Zm9vZA=="), std::pair("foods", "Zm9vZHM=")}) {
    EXPECT_EQ(client.ask("ms " + string(base64) + " 3 b\r\nabc\r\n"), "HD\r\n");
    Connection connection{client};
    std::vector<string> values;
    const std::vector<std::string_view> asked{key, base64};
    EXPECT_EQ(getk_batch(connection, asked,
                         [&](std::size_t i, std::string_view v) { values.push_back(std::to_string(i) + string(v)); })
                  .end,
              GetkBatch::End::done);
    EXPECT_EQ(values, std::vector<string>{"0abc"});
  }
}

TEST(CallerCompares, ManyKeysAreAskedForByOneCall) {
  TestServer server;
  Client client(server.port());
  std::vector<string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("name" + std::to_string(i));
  const auto value_of = [](std::size_t i) { return string(i % 7 == 0 ? 100 * i : i, static_cast<char>('a' + i % 26)); };
  for (std::size_t i = 0; i < names.size(); i += 3) EXPECT_EQ(client.ask(set_of(names[i], value_of(i))), "STORED\r\n");
  const std::vector<std::string_view> keys(names.begin(), names.end());
  for (const std::size_t most : {std::size_t{999}, SIZE_MAX}) {
    Connection connection{client, most};
    std::vector<bool> seen(keys.size());
    const GetkBatch all = getk_batch(connection, keys, [&](std::size_t i, std::string_view value) {
      EXPECT_FALSE(seen[i]);
      seen[i] = true;
      EXPECT_EQ(value, value_of(i));
    });
    EXPECT_EQ(all.end, GetkBatch::End::done);
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(seen[i], i % 3 == 0);
  }
  Connection connection{client};
  const auto none = [](std::size_t, std::string_view) { ADD_FAILURE(); };
  const std::string_view bad[] = {"name0", "na me"};
  EXPECT_EQ(getk_batch(connection, bad, none).end, GetkBatch::End::bad_key);
  // Another's reply comes first.
  client.send("mg name1 v k\r\n");
  const std::string_view two[] = {"name2"};
  EXPECT_EQ(getk_batch(connection, two, none).end, GetkBatch::End::wrong);
  Client closed(server.port());
  closed.send("quit\r\n");
  EXPECT_TRUE(closed.is_closed());
  Connection gone{closed};
  EXPECT_EQ(getk_batch(gone, two, none).end, GetkBatch::End::closed);
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
      EXPECT_EQ(client.ask(set_of(key, key + ":0")), "STORED\r\n");
    }
  }
  std::atomic<bool> stop{false};
  std::uint64_t again = 0, right = 0;
  std::thread writer([&] {
    Client client(server.port());
    for (std::uint64_t n = 1; !stop; ++n) {
      const string &key = keys[n % keys.size()], value = key + ":" + std::to_string(n);
      EXPECT_EQ(client.ask(set_of(key, value)), "STORED\r\n");
      // The next read need not mark the item.
      client.ask("mg " + key + "\r\n");
    }
  });
  Client client(server.port());
  Connection connection{client};
  std::vector<std::uint64_t> last(keys.size());
  const std::vector<std::string_view> asked(keys.begin(), keys.end());
  // The table that a device has alone is too large for them to meet in it.
  const bool collide = !test_index_is_on_device();
  Client watcher(server.port());
  for (int round = 0; round < 500 || (collide && again == 0 && round < 100'000); ++round) {
    // The lane compares keys itself. Where events are watched there is none, and no device answers whole requests.
    if (round == 250) {
      ASSERT_EQ(watcher.ask("watch evictions\r\n"), "OK\r\n");
    }
    const GetkBatch all = getk_batch(connection, asked, [&](std::size_t i, std::string_view value) {
      ASSERT_TRUE(value.starts_with(keys[i] + ":")) << "key and value of different items";
      const std::uint64_t number = std::stoull(string(value.substr(keys[i].size() + 1)));
      EXPECT_GE(number, last[i]) << "an older value than before";
      last[i] = number;
      ++right;
    });
    ASSERT_EQ(all.end, GetkBatch::End::done);
    again += all.asked_again;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(again > 0, collide) << "the keys " << (collide ? "did not collide" : "collided");
  EXPECT_GT(right, 0u);
}

}  // namespace
}  // namespace tandem::net::test
