#include "base/bytes_equal.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

TEST(BytesEqual, SeesEveryByteAtEveryLength) {
  for (std::size_t n = 0; n <= 70; ++n) {
    std::string a(n, '\0');
    for (std::size_t i = 0; i < n; ++i) a[i] = static_cast<char>(i * 37);
    const std::string same = a;
    EXPECT_TRUE(bytes_equal(a.data(), same.data(), n));
    for (std::size_t i = 0; i < n; ++i) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::string other = a;
        other[i] = static_cast<char>(other[i] ^ (1 << bit));
        EXPECT_FALSE(bytes_equal(a.data(), other.data(), n)) << n << " bytes, byte " << i << ", bit " << bit;
      }
    }
  }
}

TEST(BytesEqual, LooksAtNothingElse) {
  for (std::size_t n = 0; n <= 40; ++n) {
    std::string a(n + 2, 'x'), b(n + 2, 'x');
    a.front() = a.back() = '1';
    b.front() = b.back() = '2';
    EXPECT_TRUE(bytes_equal(a.data() + 1, b.data() + 1, n));
  }
}

}  // namespace
}  // namespace tandem
