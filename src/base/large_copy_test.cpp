#include "base/large_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tandem {
namespace {

// Around the shortest large copy, and with every remainder of lines and pages that the loops meet.
constexpr std::size_t lengths[] = {0,
                                   1,
                                   large_copy_bytes_min - 1,
                                   large_copy_bytes_min,
                                   large_copy_bytes_min + 1,
                                   large_copy_bytes_min + 63,
                                   large_copy_bytes_min + 64,
                                   large_copy_bytes_min + 4095,
                                   large_copy_bytes_min + 4097,
                                   2 * large_copy_bytes_min + 12345,
                                   (std::size_t{8} << 20) + 1};
constexpr std::size_t edge = 128;  // bytes on both sides of a copy, which must not change

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint32_t x = 1;
  std::ranges::generate(text, [&] { return static_cast<char>((x = x * 1664525 + 1013904223) >> 24); });
  return text;
}

template <class Copy>
void expect_exact_copies(Copy copy) {
  const std::string source = pattern(lengths[std::size(lengths) - 1] + edge);
  for (const std::size_t bytes : lengths) {
    for (const std::size_t to_offset : {0u, 1u, 16u, 63u}) {
      for (const std::size_t from_offset : {0u, 7u, 64u}) {
        std::string target(bytes + 2 * edge, 'e');
        copy(target.data() + edge + to_offset, source.data() + from_offset, bytes);
        const std::string_view seen = target;
        ASSERT_TRUE(seen.substr(edge + to_offset, bytes) == std::string_view(source).substr(from_offset, bytes))
            << bytes << " bytes, " << to_offset << ", " << from_offset;
        ASSERT_EQ(seen.substr(0, edge + to_offset).find_first_not_of('e'), std::string_view::npos) << bytes;
        ASSERT_EQ(seen.substr(edge + to_offset + bytes).find_first_not_of('e'), std::string_view::npos) << bytes;
      }
    }
  }
}

TEST(LargeCopy, FromTheHeapIsExact) { expect_exact_copies(copy_from_heap); }
TEST(LargeCopy, ToTheHeapIsExact) { expect_exact_copies(copy_to_heap); }

}  // namespace
}  // namespace tandem
