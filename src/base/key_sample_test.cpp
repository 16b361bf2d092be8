#include "base/key_sample.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

TEST(KeySample, KeepsAllThatHaveRoom) {
  KeySample sample(4);
  for (const char* const key : {"a", "b", "c", "d"}) sample.offer(key);
  EXPECT_EQ(std::vector<std::string_view>(sample.keys().begin(), sample.keys().end()),
            (std::vector<std::string_view>{"a", "b", "c", "d"}));
  EXPECT_EQ(sample.each(), 1u);
}

// However many there are: as even as those offered, in the memory of the beginning.
TEST(KeySample, ThinsOutEvenly) {
  std::vector<std::string> keys;
  for (int i = 0; i < 10'000; ++i) keys.push_back(std::to_string(i));
  KeySample sample(64);
  for (std::size_t count = 0; count <= keys.size(); count += 1 + count / 3) {
    sample.clear();
    for (std::size_t i = 0; i < count; ++i) sample.offer(keys[i]);
    const auto kept = sample.keys();
    ASSERT_EQ(kept.size(), (count + sample.each() - 1) / sample.each());
    ASSERT_LE(kept.size(), 64u);
    ASSERT_TRUE(sample.each() == 1 || kept.size() > 31u) << count;
    for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], keys[i * sample.each()]) << count;
  }
}

}  // namespace
}  // namespace tandem
