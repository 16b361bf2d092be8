#include "heap/item_rewrite.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "base/spin_wait.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t live = static_cast<std::uint64_t>(ItemState::live);
constexpr std::uint32_t value_bytes = 100;

// An item with key "k" and a value of 100 times the same byte.
struct Rewritten {
  explicit Rewritten(char byte = 'a', std::uint64_t cas = 1) {
    item()->set_fixed(word::CasLow::put(word::ValueBytes::put(word::KeyBytes::put(0, 1), value_bytes), cas));
    item()->state_word.store(live, std::memory_order_relaxed);
    std::memset(item()->value(), byte, value_bytes);
  }
  Item* item() { return reinterpret_cast<Item*>(bytes.data()); }
  // As a set does, without the redo record.
  void rewrite(char byte, std::uint64_t cas) {
    ItemVersion seen = settled_version(item());
    ASSERT_TRUE(lock_item(item(), seen));
    fence_release();
    item()->fixed_word.store(word::CasLow::put(seen.fixed, cas), std::memory_order_relaxed);
    std::array<char, value_bytes> value;
    value.fill(byte);
    racing_copy(item()->value(), value.data(), value.size());
    unlock_item(item(), seen.state & ~word::Fetched::mask);
  }
  alignas(64) std::array<char, 256> bytes{};
};

TEST(RacingCopy, CopiesExactlyTheBytes) {
  std::array<char, 80> from{}, to{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i + 1);
  for (std::size_t bytes = 0; bytes <= 70; ++bytes) {
    for (std::size_t at = 0; at < 4; ++at) {
      to.fill(0);
      EXPECT_EQ(racing_copy(to.data() + at, from.data() + 1, bytes), to.data() + at + bytes);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= at && i < at + bytes;
        ASSERT_EQ(to[i], inside ? from[i - at + 1] : 0) << bytes << " at " << at << ", byte " << i;
      }
    }
  }
}

TEST(ItemRewrite, AnUnpublishedItemIsNotOneThatIsRewritten) {
  EXPECT_FALSE(is_rewriting(static_cast<std::uint64_t>(ItemState::filling)));
  EXPECT_FALSE(is_rewriting(live | word::Fetched::mask));
  EXPECT_FALSE(is_rewriting(static_cast<std::uint64_t>(ItemState::dead) | word::Fetched::mask));
  EXPECT_TRUE(is_rewriting(rewriting_state(live)));
  EXPECT_TRUE(is_rewriting(rewriting_state(~std::uint64_t{0})));
}

TEST(ItemRewrite, ACopyStandsThoughMarksChangeAndFallsWhenTheIdDoes) {
  Rewritten r;
  const ItemVersion seen = ItemVersion::of(r.item());
  EXPECT_EQ(seen.cas(), 1u);
  r.item()->state_word.fetch_or(word::Accessed::mask | word::Fetched::mask);
  EXPECT_TRUE(is_still(r.item(), seen));
  r.rewrite('b', 2);
  EXPECT_FALSE(is_still(r.item(), seen));
  EXPECT_EQ(Item::state_of(r.item()->state_acquire()), ItemState::live);
}

// The state word is the same before and after; only the id differs.
TEST(ItemRewrite, ALockIsRefusedWhereOnlyTheFixedWordTells) {
  Rewritten r;
  ItemVersion seen = ItemVersion::of(r.item());
  r.rewrite('b', 2);
  ASSERT_EQ(r.item()->state_acquire(), seen.state);
  ASSERT_FALSE(lock_item(r.item(), seen));
  EXPECT_EQ(r.item()->state_acquire(), seen.state) << "given back";
  seen = ItemVersion::of(r.item());
  EXPECT_TRUE(lock_item(r.item(), seen));
  EXPECT_TRUE(is_rewriting(r.item()->state_acquire()));
}

// And where only the state word differs: in the id's upper part, or by being dead.
TEST(ItemRewrite, ALockIsRefusedWhereOnlyTheStateWordTells) {
  for (const std::uint64_t now : {word::CasHigh::put(live, 1), static_cast<std::uint64_t>(ItemState::dead)}) {
    Rewritten r;
    ItemVersion seen = ItemVersion::of(r.item());
    r.item()->state_word.store(now, std::memory_order_relaxed);
    EXPECT_FALSE(lock_item(r.item(), seen));
    EXPECT_EQ(r.item()->state_acquire(), now) << "untouched";
  }
}

TEST(ItemRewrite, ADeadItemIsCopiedOnceWithItsLastWords) {
  Rewritten r;
  const std::uint64_t found = word::ExpiryS::put(live, 5);
  const auto dead = word::ExpiryS::put(static_cast<std::uint64_t>(ItemState::dead) | word::CasHigh::put(0, 3), 77);
  const std::uint64_t marks = word::Stale::mask | word::Win::mask;
  // Where a link has replaced the expiry, that of the word with which it was found.
  for (const auto& [state, expiry] : {std::pair{dead, 77u}, std::pair{dead | marks, 5u}}) {
    r.item()->state_word.store(state);
    int calls = 0;
    copy_slowly(r.item(), found, [&](const ItemVersion& seen) {
      ++calls;
      EXPECT_EQ(Item::expiry_of(seen.state), expiry);
      EXPECT_EQ(word::CasHigh::get(seen.state), 3u);
    });
    EXPECT_EQ(calls, 1);
  }
}

TEST(ItemRewrite, TheThirdCopyIsMadeUnderTheLock) {
  Rewritten r;
  std::uint64_t cas = 1;
  int calls = 0;
  copy_slowly(r.item(), live, [&](const ItemVersion& seen) {
    if (++calls < 3) return r.rewrite('b', ++cas);
    EXPECT_TRUE(is_rewriting(r.item()->state_acquire()));
    EXPECT_EQ(seen.cas(), cas);
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(Item::state_of(r.item()->state_acquire()), ItemState::live);
}

// Two writers, two readers: each copy is from one writer, with the id that was written with it.
TEST(ItemRewrite, NoCopyIsTorn) {
  Rewritten r('a', 'a');
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> copies{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        std::array<char, value_bytes> copy{};
        std::uint64_t cas = 0;
        copy_validated(r.item(), live, [&](const ItemVersion& seen) {
          cas = seen.cas();
          racing_copy(copy.data(), r.item()->value(), value_bytes);
        });
        for (const char c : copy) ASSERT_EQ(static_cast<std::uint64_t>(static_cast<unsigned char>(c)), cas & 0xff);
        copies.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::atomic<std::uint64_t> next{1};
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      for (int i = 0; i < 20'000 || copies.load(std::memory_order_relaxed) < 1000; ++i) {
        const std::uint64_t cas = next.fetch_add(1, std::memory_order_relaxed);
        ItemVersion seen;
        do {
          seen = settled_version(r.item());
        } while (!lock_item(r.item(), seen));
        fence_release();
        r.item()->fixed_word.store(word::CasLow::put(seen.fixed, cas), std::memory_order_relaxed);
        std::array<char, value_bytes> value;
        value.fill(static_cast<char>(cas & 0xff));
        racing_copy(r.item()->value(), value.data(), value.size());
        unlock_item(r.item(), seen.state);
      }
    });
  }
  for (std::thread& t : writers) t.join();
  stop.store(true);
  for (std::thread& t : readers) t.join();
  EXPECT_GE(copies.load(), 1000u);
}

}  // namespace
}  // namespace tandem
