// Shared by the tests of replies.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "engine/reply_harness.hpp"

namespace tandem::codec {

inline const std::string bad_format = "CLIENT_ERROR bad command line format\r\n";
inline const std::string long_key(251, 'k');  // one byte too long

inline void expect(ReplyHarness& server, std::initializer_list<Exchange> exchanges) {
  for (const Exchange& e : exchanges)
    EXPECT_EQ(server.exchange(e.request), e.reply) << "to " << e.request.substr(0, 80);
}

}  // namespace tandem::codec
