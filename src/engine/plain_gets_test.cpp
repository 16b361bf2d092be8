// Gets in the form that nearly all clients send, which are parsed and answered many at a time: the same queries and
// replies as one by one.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "codec/packet_builder.hpp"
#include "codec/parse_harness.hpp"
#include "engine/reply_harness.hpp"

namespace tandem::codec {
namespace {

using std::string;

// Queries and their lines, from input in these parts.
std::vector<string> parse(const std::vector<string>& parts) {
  ParseHarness harness(ProtocolOptions{}, 2048);
  std::vector<string> lines;
  harness.on_batch = [&](Parser&, Batch& batch, const char*, std::size_t) {
    for (std::uint32_t i = 0; i < batch.size(); ++i) {
      const Query& q = batch.query(i);
      lines.push_back(string(q.wire, q.wire_bytes) + " continues" + std::to_string(q.continues_line));
    }
  };
  for (const string& part : parts) harness.offer(part);
  std::vector<string> all = harness.queries;
  all.insert(all.end(), lines.begin(), lines.end());
  return all;
}

string join(const std::vector<string>& parts) {
  string all;
  for (const string& part : parts) all += part;
  return all;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  // Mostly valid keys.
  string key(std::size_t one_bad_in) {
    string key(one_in(20) ? 245 + below(8) : 1 + below(40), 'k');
    for (char& c : key) c = static_cast<char>('!' + below(94));
    constexpr char odd[] = {' ', '\0', '\t', '\r', '\n', '\x01', '\x1f', '\x7f', '\x80', '\xff'};
    if (one_in(one_bad_in)) key[below(key.size())] = odd[below(sizeof odd)];
    return key;
  }

 private:
  std::mt19937 engine_;
};

TEST(PlainGets, LinesTogetherAndOneByOne) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const bool meta = seed % 3 == 1, both = seed % 3 == 2;
    const char* const flags = seed % 4 < 2 ? " v" : " v K";
    const std::size_t one_bad_in = seed % 2 == 0 ? 30 : 1000;
    std::vector<string> parts;
    for (std::size_t i = random.below(60); i != 0; --i) {
      const string key = random.key(one_bad_in);
      string line = meta || (both && random.one_in(2)) ? "mg " + key + flags : "get " + key;
      if (random.one_in(20)) line = "mg " + key + " v K";
      if (random.one_in(one_bad_in)) line += random.one_in(2) ? " " : " q";
      if (random.one_in(one_bad_in)) line = line.substr(0, random.below(line.size()));
      if (random.one_in(one_bad_in)) line = "set a 0 0 4\r\na\nb\n";
      if (random.one_in(one_bad_in)) {
        for (std::size_t keys = random.below(30); keys != 0; --keys) line += " " + random.key(100);
      }
      if (random.one_in(one_bad_in)) line += ' ';
      // A part ends at a line's end.
      line += random.one_in(one_bad_in) ? "\n" : "\r\n";
      parts.push_back(line);
    }
    EXPECT_EQ(parse({join(parts)}), parse(parts)) << "seed " << seed;
  }
}

TEST(PlainGets, PacketsTogetherAndOneByOne) {
  namespace o = binary::opcode;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<string> parts;
    for (std::size_t i = random.below(60); i != 0; --i) {
      constexpr std::uint8_t gets[] = {o::get, o::getq, o::getk, o::getkq};
      const string key = random.key(2);
      binary::Parts with{.key = key};
      if (random.one_in(50)) with.extras = "four";
      if (random.one_in(50)) with.value = "v";
      if (random.one_in(100)) with.magic = 0x81;
      parts.push_back(random.one_in(20) ? binary::packet(o::noop) : binary::packet(gets[random.below(4)], with));
    }
    EXPECT_EQ(parse({join(parts)}), parse(parts)) << "seed " << seed;
  }
}

// Small and larger values behind keys of every kind of length: consecutive replies do not damage each other.
TEST(PlainGets, RepliesOfEveryLength) {
  ReplyHarness text, packets;
  std::vector<std::size_t> lengths = {255, 256, 257, 500, 998, 999, 1000, 1001, 5000};
  for (std::size_t bytes = 0; bytes <= 140; ++bytes) lengths.push_back(bytes);
  for (const std::size_t key_bytes : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 100u, 249u, 250u}) {
    for (const std::size_t bytes : lengths) {
      string key(key_bytes, 'k'), value(bytes, 'v');
      for (std::size_t i = 0; i < key_bytes; ++i) key[i] = static_cast<char>('A' + i % 26);
      for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>('a' + i % 26);
      const string n = std::to_string(bytes), flags = bytes % 5 == 4 ? "4294967295" : "0";
      ASSERT_EQ(text.exchange("set " + key + " " + flags + " 0 " + n + "\r\n" + value + "\r\n"), "STORED\r\n");
      const string hit = "VALUE " + key + " " + flags + " " + n + "\r\n" + value + "\r\n";
      const string alone = "VA " + n + "\r\n" + value + "\r\n";
      ASSERT_EQ(text.exchange("get " + key + "\r\nmg " + key + " v\r\nget " + key + " nosuch " + key + "\r\nmg " + key +
                              " v\r\nmg " + key + " q v s\r\nmg " + key + " v T0 q\r\nmg " + key + "\r\nget nosuch " +
                              key + "\r\nget " + key + "\r\n"),
                hit + "END\r\n" + alone + hit + hit + "END\r\n" + alone + "VA " + n + " s" + n + "\r\n" + value +
                    "\r\n" + alone + "HD\r\n" + hit + "END\r\n" + hit + "END\r\n");

      const string named = "VA " + n + " k" + key + "\r\n" + value + "\r\n";
      ASSERT_EQ(text.exchange("mg " + key + " v K\r\nmg " + key + " v\r\nmg " + key + " K v\r\nmg " + key +
                              " v K\r\nmg nosuch v K\r\nmg " + key + " v  K\r\nmg " + key + " K\r\n"),
                named + alone + named + named + "EN knosuch\r\n" + named + "HD k" + key + "\r\n");

      const string with_cas = text.exchange("gets " + key + " nosuch " + key + "\r\n");
      const string before_cas = "VALUE " + key + " " + flags + " " + n + " ";
      ASSERT_TRUE(with_cas.starts_with(before_cas));
      const string one = with_cas.substr(0, with_cas.find('\n') + 1) + value + "\r\n";
      ASSERT_EQ(with_cas, one + one + "END\r\n");

      namespace o = binary::opcode;
      const std::uint32_t number = bytes % 5 == 4 ? 4294967295 : 0;
      const string stored = packets.exchange(
          binary::packet(o::set, {.key = key, .extras = binary::store_extras(number), .value = value}));
      const auto cas = binary::read<std::uint64_t>(stored.data() + binary::at::cas);
      const string extras = binary::number_text(number);
      string requests, replies;
      for (const std::uint8_t opcode : {o::get, o::getkq, o::getk, o::getq, o::get}) {
        const bool with_key = opcode == o::getk || opcode == o::getkq;
        requests += binary::packet(opcode, {.key = key, .opaque = opcode});
        replies += binary::response(opcode, binary::Status::ok,
                                    {.key = with_key ? std::string_view(key) : std::string_view(),
                                     .extras = extras,
                                     .value = value,
                                     .cas = cas,
                                     .opaque = opcode});
      }
      ASSERT_EQ(packets.exchange(requests), replies);
    }
  }
}

}  // namespace
}  // namespace tandem::codec
