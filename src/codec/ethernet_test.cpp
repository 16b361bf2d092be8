// Frames against code that reads and writes them byte by byte (ethernet_builder.hpp), at the end of what may be read.
#include "codec/ethernet.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <string>

#include "codec/ethernet_builder.hpp"

namespace tandem::ethernet {
namespace {

using std::string;

// Memory that ends at what cannot be read.
class Fence {
 public:
  static constexpr std::size_t page = 4096, room = 4 * page;

  Fence()
      : begin_(static_cast<char*>(
            mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(begin_, MAP_FAILED);
    EXPECT_EQ(mprotect(begin_ + room, page, PROT_NONE), 0);
  }
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  ~Fence() { munmap(begin_, room + page); }
  const char* put(std::string_view bytes) {
    char* const at = begin_ + room - bytes.size();
    std::memcpy(at, bytes.data(), bytes.size());
    return at;
  }

 private:
  char* begin_;
};

Udp read(Fence& fence, std::string_view frame) {
  return read_frame(fence.put(frame), static_cast<std::uint32_t>(frame.size()));
}
Fault fault_of(std::string_view frame) {
  Fence fence;
  return read(fence, frame).fault;
}

// RFC 1071, 3: the numeric example.
TEST(Checksum, IsThatOfRfc1071) {
  const string example("\x00\x01\xf2\x03\xf4\xf5\xf6\xf7", 8);
  EXPECT_EQ(network_order(sum_of(example.data(), 8)), 0xddf2u);
  EXPECT_EQ(rfc_1071_sum(example), 0xddf2u);
  EXPECT_EQ(network_order(fold(sum_of(example.data(), 4) + sum_of(example.data() + 4, 4))), 0xddf2u);
  // A header of an IPv4 datagram of 115 bytes between two machines of one network; its checksum is 0xb861.
  const string header("\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\xb8\x61\xc0\xa8\x00\x01\xc0\xa8\x00\xc7", 20);
  EXPECT_EQ(sum_of(header.data(), 20), 0xffffu);
}

TEST(Checksum, IsTheSameFromEveryAddressOn) {
  std::mt19937 random(1);
  alignas(8) char bytes[1600] = {};
  for (int round = 0; round < 20000; ++round) {
    const bool is_high = round % 4 == 0;  // many carries
    for (int i = 0; i < 64; ++i) bytes[random() % sizeof bytes] = static_cast<char>(is_high ? 0xff : random());
    const auto at = static_cast<std::uint32_t>(8 + random() % 16);
    const auto count = static_cast<std::uint32_t>(random() % (round % 3 == 0 ? 1500 : 20));
    const std::uint32_t expected = rfc_1071_sum({bytes + at, count});
    ASSERT_EQ(network_order(sum_of(bytes + at, count)), expected) << at << " " << count;
    ASSERT_EQ(network_order(sum_by_words(bytes + at, count)), expected) << at << " " << count;
  }
  EXPECT_EQ(fold(~std::uint64_t{0}), 0xffffu);
  EXPECT_EQ(fold(0xffffffff), 0xffffu);
  EXPECT_EQ(fold(0x1ffff), 1u);
}

TEST(Frame, OfARequestHasItsPayload) {
  Fence fence;
  for (std::uint32_t bytes = 0; bytes <= payload_bytes_max; bytes += bytes < 100 ? 1 : 97) {
    const string frame = frame_of(string(bytes, 'p'));
    const Udp udp = read(fence, frame);
    ASSERT_EQ(udp.fault, Fault::none) << bytes;
    ASSERT_EQ(udp.payload_bytes, bytes);
    // What fills a frame up to 60 bytes is no part of the datagram.
    const Udp padded = read(fence, frame + string(18, '\x7f'));
    ASSERT_EQ(padded.fault, Fault::none) << bytes;
    ASSERT_EQ(padded.payload_bytes, bytes);
  }
}

TEST(Frame, MayEndAnywhere) {
  const string frame = frame_of("get key\r\n");
  Fence fence;
  for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
    const Udp udp = read(fence, std::string_view(frame).substr(0, bytes));
    EXPECT_EQ(udp.fault, Fault::length) << bytes;
    EXPECT_EQ(udp.payload_bytes, 0);
  }
}

// Each bit of a frame: only those that no sum is over can change.
TEST(Frame, WithAWrongBitIsFound) {
  const string frame = frame_of("get key\r\n");
  Fence fence;
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    string wrong = frame;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
    const bool in_mac = bit / 8 < 12, of_group = bit == 0 || bit == 6 * 8;
    EXPECT_EQ(read(fence, wrong).fault == Fault::none, in_mac && !of_group) << bit;
  }
}

TEST(Frame, ThatIsNotPlainUdpSaysWhy) {
  const string good = frame_of("get key\r\n");
  const auto with = [&](std::size_t at, std::string_view bytes) {
    string frame = good;
    frame.replace(at, bytes.size(), bytes);
    seal(frame);
    return fault_of(frame);
  };
  using std::literals::operator""sv;
  EXPECT_EQ(with(0, good.substr(0, 12)), Fault::none);
  EXPECT_EQ(with(12, "\x86\xdd"sv), Fault::type) << "IPv6";
  EXPECT_EQ(with(12, "\x08\x06"sv), Fault::type) << "ARP";
  string tagged = good;
  EXPECT_EQ(fault_of(tagged.insert(12, "\x81\x00\x00\x05"sv)), Fault::type) << "VLAN";
  EXPECT_EQ(with(14, "\x65"), Fault::type);
  EXPECT_EQ(with(23, "\x06"), Fault::type) << "TCP";
  EXPECT_EQ(with(14, "\x46"), Fault::options);
  EXPECT_EQ(with(14, "\x44"), Fault::options);
  EXPECT_EQ(with(14, "\x4f"), Fault::options);
  EXPECT_EQ(with(20, "\x20\x00"sv), Fault::fragment) << "the first";
  EXPECT_EQ(with(20, "\x00\x01"sv), Fault::fragment) << "a later one";
  EXPECT_EQ(with(20, "\x1f\xff"sv), Fault::fragment);
  EXPECT_EQ(with(20, "\x00\x00"sv), Fault::none) << "may be fragmented";
  EXPECT_EQ(with(0, "\xff\xff\xff\xff\xff\xff"sv), Fault::address);
  EXPECT_EQ(with(6, "\x03"), Fault::address);
  EXPECT_EQ(with(26, "\xe0"), Fault::address);
  EXPECT_EQ(with(26, "\0\0\0\0"sv), Fault::address);
  EXPECT_EQ(with(30, "\xff\xff\xff\xff"sv), Fault::address);
  EXPECT_EQ(with(34, "\0\0"sv), Fault::address) << "from port 0";
  EXPECT_EQ(with(36, "\0\0"sv), Fault::none);
}

TEST(Frame, WithAWrongLengthIsFound) {
  const string payload(100, 'p'), good = frame_of(payload);
  for (std::uint32_t ip = 0; ip < 300; ++ip) {
    string frame = good;
    put_big(frame, 16, ip);
    put_big(frame, 24, 0);
    put_big(frame, 24, ~rfc_1071_sum(std::string_view(frame).substr(14, 20)));
    EXPECT_EQ(fault_of(frame), ip != 128 ? Fault::length : Fault::none) << ip;
  }
  for (std::uint32_t udp = 0; udp < 300; ++udp) {
    string frame = good;
    put_big(frame, 38, udp);
    if (udp >= 8 && udp <= 108) seal(frame);  // it may end before its IPv4 datagram does
    EXPECT_EQ(fault_of(frame), udp >= 8 && udp <= 108 ? Fault::none : Fault::length) << udp;
  }
  for (const std::uint32_t n : {0x7fffu, 0x8000u, 0xffffu}) {
    string frame = good;
    put_big(frame, 16, n);
    EXPECT_EQ(fault_of(frame), Fault::length);
    frame = good;
    put_big(frame, 38, n);
    EXPECT_EQ(fault_of(frame), Fault::length);
  }
}

TEST(Frame, WithoutAUdpChecksumIsTaken) {
  string frame = frame_of("get key\r\n");
  put_big(frame, 40, 0);
  EXPECT_EQ(fault_of(frame), Fault::none);
  put_big(frame, 40, 1);
  EXPECT_EQ(fault_of(frame), Fault::udp_sum);
  frame = frame_of("get key\r\n");
  put_big(frame, 24, 0);
  EXPECT_EQ(fault_of(frame), Fault::ip_sum) << "of IPv4 there is always one";
}

TEST(Frame, OfAReplyIsThatOfTheBuilder) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    string addresses(8, '\0'), mac(12, '\0'), payload(random() % (round % 3 == 0 ? 1473 : 80), '\0');
    for (string* s : {&addresses, &mac, &payload}) {
      for (char& c : *s) c = static_cast<char>(round % 5 == 0 ? 0xff : random());
    }
    for (const std::size_t first : {std::size_t{0}, std::size_t{4}})
      addresses[first] = static_cast<char>(1 + random() % 223);
    for (const std::size_t first : {std::size_t{0}, std::size_t{6}}) mac[first] = static_cast<char>(mac[first] & 0xfe);
    const string request = frame_of(
        "get key\r\n", {mac, std::string_view(addresses).substr(0, 4), std::string_view(addresses).substr(4),
                        static_cast<std::uint16_t>(1 + random() % 65535), static_cast<std::uint16_t>(random())});
    ASSERT_EQ(fault_of(request), Fault::none);
    string reply(header_bytes, '\x55');
    reply += payload;
    write_reply_headers(request.data(), static_cast<std::uint32_t>(payload.size()), reply.data());
    string without = reply_frame(request, payload);
    put_big(without, 40, 0);
    ASSERT_EQ(reply, without);
    ASSERT_EQ(fault_of(reply) == Fault::none, big(request, 36) != 0);
    write_udp_sum(reply.data(), static_cast<std::uint32_t>(payload.size()));
    ASSERT_EQ(reply, reply_frame(request, payload));
    ASSERT_NE(big(reply, 40), 0u);
    ASSERT_EQ(udp_sum(reply), 0xffffu);
  }
}

// A checksum that comes to 0 is sent as 0xffff: 0 says that there is none.
TEST(Frame, OfAReplyHasAChecksumThatIsNotZero) {
  const string request = frame_of("get key\r\n");
  string reply(header_bytes, '\0'), payload(2, '\0');
  write_reply_headers(request.data(), 2, reply.data());
  put_big(payload, 0, ~udp_sum(reply + payload));
  reply += payload;
  write_udp_sum(reply.data(), 2);
  EXPECT_EQ(big(reply, 40), 0xffffu);
  EXPECT_EQ(fault_of(reply), Fault::none);
}

}  // namespace
}  // namespace tandem::ethernet
