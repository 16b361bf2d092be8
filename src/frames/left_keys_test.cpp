#include "frames/left_keys.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tandem {
namespace {

std::string key_of(std::mt19937_64& random, std::size_t bytes) {
  std::string key(bytes, ' ');
  for (char& c : key) c = static_cast<char>('!' + random() % 90);
  return key;
}

TEST(LeftKeys, HasWhatWasAddedOfAnyLength) {
  std::mt19937_64 random(1);
  LeftKeys keys(random());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> added;
    for (std::size_t bytes = 1; bytes <= 250; ++bytes) {
      added.push_back(key_of(random, bytes));
      ASSERT_TRUE(keys.add(added.back()));
      ASSERT_TRUE(keys.add(added.back())) << "a second time";
    }
    for (const std::string& key : added) {
      EXPECT_TRUE(keys.may_have(key)) << key;
      const std::string lines = "get !\r\nmg ! v k\r\ngets ! " + key + "\r\nget !\r\n";
      EXPECT_TRUE(keys.may_have_any(lines.data(), lines.data() + lines.size())) << lines;
    }
    keys.clear();
    EXPECT_TRUE(keys.empty());
    for (const std::string& key : added) EXPECT_FALSE(keys.may_have(key)) << key;
  }
}

TEST(LeftKeys, SeldomTakesOneKeyForAnother) {
  LeftKeys keys(7);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(keys.add("key:" + std::to_string(i)));
  int wrong = 0;
  for (int i = 1000; i < 100000; ++i) wrong += keys.may_have("key:" + std::to_string(i)) ? 1 : 0;
  EXPECT_LT(wrong, 10);
  EXPECT_FALSE(keys.may_have(std::string("key:1\0", 6))) << "the length counts";
}

// Every form of the grammar of frames, with words that are no keys.
TEST(LeftKeys, LooksAtKeysAlone) {
  LeftKeys keys(7);
  for (const char* word : {"get", "gets", "mg", "v", "k", "Oa", "\r"}) ASSERT_TRUE(keys.add(word));
  const std::string lines = "get a\r\ngets b c d\r\nmg e v\r\nmg f v k Oa\r\nget g\r\n";
  EXPECT_FALSE(keys.may_have_any(lines.data(), lines.data() + lines.size()));
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    LeftKeys one(7);
    ASSERT_TRUE(one.add(key));
    EXPECT_TRUE(one.may_have_any(lines.data(), lines.data() + lines.size())) << key;
  }
}

TEST(LeftKeys, RefusesWhatHasNoPlace) {
  LeftKeys keys(7);
  std::vector<std::string> added;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 2 * LeftKeys::keys_max; ++i) {
    const std::string key = std::to_string(i);
    if (keys.add(key)) {
      added.push_back(key);
    } else {
      ++refused;
    }
  }
  EXPECT_GE(refused, LeftKeys::keys_max);
  EXPECT_GT(added.size(), LeftKeys::keys_max * 9 / 10);
  for (const std::string& key : added) EXPECT_TRUE(keys.may_have(key));
  keys.clear();
  for (const std::string& key : added) ASSERT_FALSE(keys.may_have(key));
}

}  // namespace
}  // namespace tandem
