// The small parts: scanning, words, numbers, digits, base64, output and the UDP frame.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <random>
#include <string>

#include "codec/base64.hpp"
#include "codec/digits.hpp"
#include "codec/output.hpp"
#include "codec/scan.hpp"
#include "codec/tokens.hpp"
#include "codec/udp.hpp"

namespace tandem::codec {
namespace {

using std::string;

// Every length up to 70, every place of the byte, every start: against the plain loop.
template <class Find, class Matches>
void check_find(Find find, Matches matches) {
  for (std::size_t size = 0; size <= 70; ++size) {
    const std::unique_ptr<char[]> text(new char[size]);
    for (std::size_t at = 0; at <= size; ++at) {
      for (const int byte : {0, 1, 13, 31, 32, 33, 127, 128, 160, 255}) {
        std::memset(text.get(), 'x', size);
        if (at < size) text[at] = static_cast<char>(byte);
        if (at + 1 < size) text[at + 1] = '\xa0';  // a top bit behind it
        for (std::size_t from = 0; from <= size; from += 7) {
          std::size_t expected = from;
          while (expected < size && !matches(text[expected])) ++expected;
          ASSERT_EQ(find(text.get() + from, text.get() + size, text.get()), text.get() + expected);
        }
      }
    }
  }
}

TEST(Scan, FindsTheFirst) {
  check_find(find_delimiter, [](char c) { return static_cast<unsigned char>(c) <= ' '; });
  check_find(find_control, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  check_find(find_space, [](char c) { return c == ' '; });
}

// The 8-byte steps of processors without SSE2.
TEST(Scan, EightByteSteps) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    std::uint64_t w = random();
    if (i % 2 == 0) w = (w & 0x8181818181818181) ^ 0x2020202020202020;  // many near the limit
    const auto first = [&](auto matches) {
      unsigned at = 0;
      while (at < 8 && !matches(static_cast<char>(w >> (8 * at)))) ++at;
      return at;
    };
    const auto found = [](std::uint64_t tops) { return static_cast<unsigned>(std::countr_zero(tops)) / 8; };
    ASSERT_EQ(found(detail::Below<33>::tops(w)), first(detail::Below<33>::matches));
    ASSERT_EQ(found(detail::Equal<' '>::tops(w)), first(detail::Equal<' '>::matches));
  }
}

TEST(Scan, CopiesShortStrings) {
  for (std::size_t size = 0; size <= 300; ++size) {
    const std::unique_ptr<char[]> from(new char[size]), to(new char[size]);
    for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<char>(i * 7);
    ASSERT_EQ(copy_short(to.get(), from.get(), size), to.get() + size);
    ASSERT_EQ(std::memcmp(to.get(), from.get(), size), 0);
  }
}

TEST(Words, SplitAtSpacesOnly) {
  const string line = "  set  a\tb \r c";
  Tokens tokens(line.data(), line.data() + line.size());
  string_view word;
  for (const char* expected : {"set", "a\tb", "\r", "c"}) {
    ASSERT_TRUE(tokens.next(word));
    EXPECT_EQ(word, expected);
  }
  EXPECT_FALSE(tokens.next(word));
  const Words words(string_view(line).substr(2, 3), line.data() + line.size());
  EXPECT_EQ(words.count(), 4u);
  EXPECT_EQ(words[1], "a\tb");
  EXPECT_EQ(words[4], "");
  EXPECT_TRUE(words.last_is("c"));
}

TEST(Words, TwentyThreeAtMost) {
  string line = "w";
  for (int i = 0; i < 40; ++i) line += " w" + std::to_string(i);
  const Words words({line.data(), 1}, line.data() + line.size());
  EXPECT_EQ(words.count(), Words::max);
  EXPECT_EQ(words.last(), "w21");
}

TEST(Numbers, AsMemcachedReadsThem) {
  struct Case {
    const char* text;
    bool ok64, ok32;
    std::uint64_t u64;
    std::int32_t i32;
  };
  const Case cases[] = {
      {"0", true, true, 0, 0},
      {"-0", true, true, 0, 0},
      {"+7", true, true, 7, 7},
      {"\t\n\v\f\r7", true, true, 7, 7},
      {"7\tx", true, true, 7, 7},
      {"0007", true, true, 7, 7},
      {"-7", false, true, 0, -7},
      {"4294967296", true, true, 4294967296, 0},
      {"2147483648", true, true, 2147483648, INT32_MIN},
      {"9223372036854775807", true, true, 9223372036854775807u, -1},
      {"9223372036854775808", true, false, 9223372036854775808u, 0},
      {"-9223372036854775808", false, true, 0, 0},
      {"-9223372036854775809", true, false, 9223372036854775807u, 0},
      {"18446744073709551615", true, false, UINT64_MAX, 0},
      {"18446744073709551615\t-", false, false, 0, 0},
      {"18446744073709551616", false, false, 0, 0},
      {"-18446744073709551615", true, false, 1, 0},
      {"99999999999999999999999999", false, false, 0, 0},
      {"", false, false, 0, 0},
      {"-", false, false, 0, 0},
      {"+-7", false, false, 0, 0},
      {"x", false, false, 0, 0},
      {"7x", false, false, 0, 0},
      {"0x7", false, false, 0, 0},
      {"7.0", false, false, 0, 0},
  };
  for (const Case& c : cases) {
    std::uint64_t u64 = 0;
    std::int32_t i32 = 0;
    EXPECT_EQ(number::read_u64(c.text, u64), c.ok64) << c.text;
    EXPECT_EQ(number::read_i32(c.text, i32), c.ok32) << c.text;
    EXPECT_EQ(u64, c.ok64 ? c.u64 : 0) << c.text;
    EXPECT_EQ(i32, c.ok32 ? c.i32 : 0) << c.text;
  }
  std::uint32_t u32 = 0;
  EXPECT_TRUE(number::read_u32("4294967297", u32));
  EXPECT_EQ(u32, 1u);
}

TEST(Numbers, PlainOnes) {
  const auto read = [](const string& text, std::uint32_t& to) {
    const std::unique_ptr<char[]> exact(new char[text.size()]);
    std::memcpy(exact.get(), text.data(), text.size());
    const char* const end = number::read_plain(exact.get(), exact.get() + text.size(), to);
    return end == nullptr ? -1 : static_cast<int>(end - exact.get());
  };
  std::uint32_t n = 0;
  EXPECT_EQ(read("0 ", n), 1);
  EXPECT_EQ(n, 0u);
  EXPECT_EQ(read("999999999\r", n), 9);
  EXPECT_EQ(n, 999999999u);
  EXPECT_EQ(read("1000000000 ", n), -1) << "left to the careful one";
  for (const char* text : {"", " ", "-1 ", "+1 ", "x", "123"}) EXPECT_EQ(read(text, n), -1) << text;
}

TEST(Digits, EveryLength) {
  std::mt19937_64 random(1);
  std::uint64_t bound = 1;
  for (int digits = 0; digits <= 20; ++digits, bound *= 10) {
    for (int i = -50; i < 50; ++i) {
      const std::uint64_t n = i < 0 ? random() % bound : bound - 1 + static_cast<std::uint64_t>(i);
      char text[digits_max];
      ASSERT_EQ(string(text, static_cast<std::size_t>(write_digits(text, n) - text)), std::to_string(n));
    }
  }
  char text[digits_max];
  EXPECT_EQ(string(text, static_cast<std::size_t>(write_digits(text, UINT64_MAX) - text)), "18446744073709551615");
}

TEST(Base64, Vectors) {
  // RFC 4648, section 10.
  const char* const vectors[][2] = {{"f", "Zg=="},        {"fo", "Zm8="},        {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [binary, text] : vectors) {
    char to[16];
    EXPECT_EQ(string(to, static_cast<std::size_t>(base64_encode(to, binary, std::strlen(binary)) - to)), text);
    EXPECT_EQ(base64_bytes(std::strlen(binary)), std::strlen(text));
    EXPECT_EQ(string(to, base64_decode(to, text, std::strlen(text))), binary);
  }
}

TEST(Base64, EveryBinaryStringComesBack) {
  std::mt19937 random(1);
  for (std::size_t size = 1; size <= 250; ++size) {
    const std::unique_ptr<char[]> binary(new char[size]), text(new char[base64_bytes(size)]);
    for (std::size_t i = 0; i < size; ++i) binary[i] = static_cast<char>(random());
    ASSERT_EQ(base64_encode(text.get(), binary.get(), size), text.get() + base64_bytes(size));
    const std::unique_ptr<char[]> back(new char[base64_binary_bytes_max(base64_bytes(size))]);
    ASSERT_EQ(base64_decode(back.get(), text.get(), base64_bytes(size)), size);
    ASSERT_EQ(std::memcmp(back.get(), binary.get(), size), 0);
  }
}

TEST(Output, KeepsBytesAndPinsInOrder) {
  Output out;
  EXPECT_TRUE(out.empty());
  out.append("ab");
  const char external[] = "EXTERNAL";
  out.append_pinned(external, 8, 5);
  out.append("cd");
  out.append("");
  EXPECT_EQ(out.size(), 4u);
  EXPECT_EQ(out.pinned_bytes(), 8u);
  ASSERT_EQ(out.externals().size(), 1u);
  EXPECT_EQ(out.externals()[0].offset, 2u);
  EXPECT_EQ(out.externals()[0].pin, 5u);

  Output moved = std::move(out);
  EXPECT_TRUE(out.empty());  // NOLINT(bugprone-use-after-move): what is left behind is what is tested
  EXPECT_EQ(out.pinned_bytes(), 0u);
  EXPECT_EQ(string(moved.data(), moved.size()), "abcd");
  const std::size_t size = moved.size(), externals = moved.externals().size();
  moved.append_pinned(external, 3, 6);
  moved.append(string(100000, 'x'));
  EXPECT_EQ(moved.pinned_bytes(), 11u);
  moved.truncate(size, externals);
  EXPECT_EQ(moved.pinned_bytes(), 8u);
  EXPECT_EQ(string(moved.data(), moved.size()), "abcd");
  out = std::move(moved);
  EXPECT_EQ(out.size(), 4u);
  out.clear();
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(out.pinned_bytes(), 0u);
  EXPECT_GE(out.capacity(), 100000u);
  out.release();
  EXPECT_EQ(out.capacity(), 0u);
  out.append("again");
  EXPECT_EQ(string(out.data(), out.size()), "again");
}

TEST(Udp, Frame) {
  const char datagram[] =
      "\x12\x34\x00\x05\x00\x01\xff\xff"
      "mn\r\n";
  UdpFrame frame{};
  ASSERT_TRUE(read_udp_frame(datagram, 12, frame));
  EXPECT_EQ(frame.request_id, 0x1234);
  EXPECT_EQ(frame.sequence, 5);
  EXPECT_EQ(frame.total, 1);
  for (std::size_t size = 0; size <= udp_frame_bytes; ++size) EXPECT_FALSE(read_udp_frame(datagram, size, frame));
  for (const char total : {'\0', '\2'}) {
    string other(datagram, 12);
    other[5] = total;
    EXPECT_FALSE(read_udp_frame(other.data(), other.size(), frame));
  }
  char out[udp_frame_bytes];
  write_udp_frame({0xfffe, 0x0102, 0x8001}, out);
  EXPECT_EQ(string(out, sizeof out), string("\xff\xfe\x01\x02\x80\x01\x00\x00", 8));
}

}  // namespace
}  // namespace tandem::codec
