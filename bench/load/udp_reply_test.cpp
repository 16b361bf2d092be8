#include "bench/load/udp_reply.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tandem::load {
namespace {

using enum UdpReply::Status;

TEST(UdpReplyFrame, IsBigEndian) {
  const UdpReplyFrame frame = UdpReplyFrame::read({"\xfe\x01\x02\x03\xa0\x05\0\0", 8});
  EXPECT_EQ(frame.id, 0xfe01);
  EXPECT_EQ(frame.sequence, 0x0203);
  EXPECT_EQ(frame.total, 0xa005);
}

TEST(UdpReply, ADatagramsOrderDoesNotMatter) {
  std::vector<std::uint16_t> order{0, 1, 2};
  const char* const texts[] = {"one ", "two ", "three"};
  do {
    UdpReply reply;
    for (std::size_t i = 0; i < 3; ++i) {
      const UdpReply::Status status = reply.add({7, order[i], 3}, texts[order[i]]);
      EXPECT_EQ(status == whole && reply.bytes() == "one two three", i == 2);
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(UdpReply, MessagesOneAfterTheOtherAddUp) {
  UdpReply reply;
  EXPECT_EQ(reply.add({7, 0, 1}, "a"), whole);
  EXPECT_EQ(reply.bytes(), "a");
  EXPECT_EQ(reply.add({7, 0, 0}, ""), more);  // memcached, for an absent key
  EXPECT_EQ(reply.add({7, 0, 1}, "b"), whole);
  EXPECT_EQ(reply.bytes(), "ab");
  EXPECT_EQ(reply.add({7, 0, 2}, "c"), more);
  EXPECT_EQ(reply.add({7, 1, 2}, "d"), whole);
  EXPECT_EQ(reply.bytes(), "abcd");
}

TEST(UdpReply, FramesThatFitNothingAreWrong) {
  UdpReply reply;
  EXPECT_EQ(reply.add({7, 0, 0}, "x"), wrong);
  EXPECT_EQ(reply.add({7, 3, 3}, "x"), wrong);
}

TEST(UdpReply, AMessageOfWhichAPartComesTwiceIsNotWhole) {
  UdpReply reply;
  EXPECT_EQ(reply.add({7, 0, 2}, "a"), more);
  EXPECT_EQ(reply.add({7, 0, 2}, "a"), more);
}

}  // namespace
}  // namespace tandem::load
