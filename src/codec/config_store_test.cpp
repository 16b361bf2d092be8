#include "codec/config_store.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

using std::string;

constexpr const char* one_node = "1\na|192.0.2.1|11211\n";

string stored_in(const ConfigStore& store, const string& key) {
  string bytes = "none";
  store.get(key, [&](const ConfigStore::Value& value) { bytes = value.bytes; });
  return bytes;
}

TEST(ConfigStore, KeepsValuesAndFlags) {
  ConfigStore store;
  EXPECT_EQ(store.set("x", 7, string("\0\r\n", 3)), "");
  EXPECT_TRUE(store.get("x", [](const ConfigStore::Value& value) {
    EXPECT_EQ(value.flags, 7u);
    EXPECT_EQ(value.bytes, string("\0\r\n", 3));
  }));
  EXPECT_EQ(store.set("x", 0, ""), "");
  EXPECT_EQ(stored_in(store, "x"), "");
  EXPECT_EQ(store.version(), 0u);
  EXPECT_TRUE(store.remove("x"));
  EXPECT_FALSE(store.remove("x"));
  EXPECT_EQ(stored_in(store, "x"), "none");
}

TEST(ConfigStore, HasEightKeysAtMost) {
  ConfigStore store;
  for (std::size_t i = 0; i < ConfigStore::values_max; ++i) EXPECT_EQ(store.set(std::to_string(i), 0, "v"), "");
  EXPECT_EQ(store.set("more", 0, "v"), "has 8 keys at most: delete one first");
  EXPECT_EQ(store.set("3", 0, "changed"), "") << "a key that it has";
  EXPECT_TRUE(store.remove("4"));
  EXPECT_EQ(store.set("more", 0, "v"), "");
  EXPECT_EQ(store.keys(), (std::vector<string>{"0", "1", "2", "3", "5", "6", "7", "more"}));
}

TEST(ConfigStore, AListNeverGoesBack) {
  ConfigStore store;
  const string later = "5\na|192.0.2.1|11211 b|192.0.2.2|11211\n";
  EXPECT_EQ(store.set("cluster", 0, later), "");
  EXPECT_EQ(store.version(), 5u);
  EXPECT_EQ(store.set("cluster", 0, later), "") << "the same again";
  for (const char* const bad : {"4\na|192.0.2.1|11211\n", "5\na|192.0.2.1|11211\n"}) {
    EXPECT_EQ(store.set("cluster", 0, bad), "cluster has version 5: a change needs a greater one");
    EXPECT_EQ(stored_in(store, "cluster"), later);
  }
  EXPECT_NE(store.set("cluster", 1, later), "") << "other flags are a change";
  EXPECT_EQ(store.set("cluster", 0, "6\na|192.0.2.1|11211\n"), "");
  EXPECT_EQ(store.version(), 6u);
  EXPECT_TRUE(store.remove("cluster"));
  EXPECT_EQ(store.version(), 0u);
  EXPECT_EQ(store.set("cluster", 0, one_node), "");
}

TEST(ConfigStore, TakesOnlyListsThatClientsRead) {
  ConfigStore store;
  ASSERT_EQ(store.set("cluster", 0, one_node), "");
  const string nodes = "\na|192.0.2.1|11211\n";
  for (const char* const version :
       {"", "0", "02", "-2", "+2", " 2", "2 ", "2\r", "two", "9007199254740992", "99999999999999999999"})
    EXPECT_EQ(store.set("cluster", 0, string(version) + nodes),
              "cluster begins with a line that has its version, a number from 1 to 2^53-1")
        << version;
  for (const char* const list :
       {"2\na|192.0.2.1|11211", "2\na|192.0.2.1|11211\n\n", "2\na|192.0.2.1|11211\nb|192.0.2.2|11211\n", "2"})
    EXPECT_EQ(store.set("cluster", 0, list),
              "cluster has two lines, each with a line feed behind it: the version and the nodes")
        << list;
  const auto bad_node = [&](const string& list, int number) {
    EXPECT_EQ(store.set("cluster", 0, "2\n" + list + "\n"),
              "cluster: node " + std::to_string(number) +
                  " is not <host in lower case>|<ip>|<port>, with one space between nodes")
        << list;
  };
  for (const char* const text :
       {"", "a", "a|192.0.2.1", "a|192.0.2.1|", "a||11211", "|192.0.2.1|11211", "a|192.0.2|11211", "a|host|11211",
        "a|192.0.2.1|0", "a|192.0.2.1|65536", "a|192.0.2.1|011211", "a|192.0.2.1|11211|1", "BACKEND|192.0.2.1|11211",
        "a_b|192.0.2.1|11211", "a|192.0.2.1|11211\r", " a|192.0.2.1|11211", "a\t|192.0.2.1|11211"}) {
    const string node = text;
    bad_node(node, 1);
    if (!node.empty()) bad_node("a|192.0.2.1|11211 " + node, 2);
  }
  for (const char* const host : {"-", "...", "a..b", ".a", "-a"}) bad_node(string(host) + "|192.0.2.1|11211", 1);
  bad_node(string("a|192.0.2.1\0END|evil|11211", 27), 1);
  bad_node(string(254, 'a') + "|192.0.2.1|11211", 1);
  bad_node("a|192.0.2.1|11211 ", 2);
  bad_node("a|192.0.2.1|11211  b|192.0.2.2|11211", 2);
  EXPECT_EQ(stored_in(store, "cluster"), one_node) << "a refusal changes nothing";
  EXPECT_EQ(store.set("cluster", 0, "9007199254740991\ntandem-0.x|192.0.2.1|1 tandem-1.x|fd00::1|65535\n"), "");
}

TEST(ConfigStore, KeepsTheServersOwnNames) {
  ConfigStore store;
  EXPECT_EQ(store.set("tandem:keys", 0, "v"), "keys that begin with tandem: are the server's own");
  EXPECT_EQ(store.size(), 0u);
}

}  // namespace
}  // namespace tandem
