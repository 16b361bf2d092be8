#include "base/epoch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace tandem {
namespace {

using Participant = EpochDomain::Participant;

TEST(Epoch, NothingIsHeldBackWithoutReaders) {
  EpochDomain domain(4);
  const std::uint64_t stamp = domain.retire_stamp();
  EXPECT_TRUE(domain.is_safe(stamp));
}

TEST(Epoch, StampsGrow) {
  EpochDomain domain(1);
  const std::uint64_t first = domain.retire_stamp();
  EXPECT_LT(first, domain.retire_stamp());
}

TEST(Epoch, ReaderThatEnteredBeforeHoldsMemoryBack) {
  EpochDomain domain(4);
  Participant reader(domain);
  reader.enter();
  const std::uint64_t stamp = domain.retire_stamp();
  EXPECT_FALSE(domain.is_safe(stamp));
  reader.exit();
  EXPECT_TRUE(domain.is_safe(stamp));
}

TEST(Epoch, ReaderThatEnteredAfterDoesNot) {
  EpochDomain domain(4);
  Participant reader(domain);
  const std::uint64_t stamp = domain.retire_stamp();
  reader.enter();
  EXPECT_TRUE(domain.is_safe(stamp));
  EXPECT_FALSE(domain.is_safe(domain.retire_stamp()));
}

TEST(Epoch, OldestReaderDecides) {
  EpochDomain domain(4);
  Participant old_reader(domain);
  Participant young_reader(domain);
  old_reader.enter();
  const std::uint64_t first = domain.retire_stamp();
  young_reader.enter();
  const std::uint64_t second = domain.retire_stamp();
  EXPECT_FALSE(domain.is_safe(first));
  old_reader.exit();
  EXPECT_TRUE(domain.is_safe(first));
  EXPECT_FALSE(domain.is_safe(second));
  young_reader.exit();
  EXPECT_TRUE(domain.is_safe(second));
}

TEST(Epoch, ActiveTellsWhetherInside) {
  EpochDomain domain(1);
  Participant reader(domain);
  EXPECT_FALSE(reader.active());
  reader.enter();
  EXPECT_TRUE(reader.active());
  reader.exit();
  EXPECT_FALSE(reader.active());
}

TEST(Epoch, PlacesAreBoundedAndReused) {
  EpochDomain domain(2);
  auto first = std::make_unique<Participant>(domain);
  const Participant second(domain);
  EXPECT_THROW(Participant{domain}, std::runtime_error);
  first.reset();
  EXPECT_NO_THROW(first = std::make_unique<Participant>(domain));
}

TEST(Epoch, ParticipantThatGoesInsideABatchHoldsNothingBack) {
  EpochDomain domain(1);
  auto reader = std::make_unique<Participant>(domain);
  reader->enter();
  const std::uint64_t stamp = domain.retire_stamp();
  reader.reset();
  EXPECT_TRUE(domain.is_safe(stamp));
}

TEST(Epoch, SynchronizeWaitsForBatchesInFlight) {
  EpochDomain domain(2);
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  std::thread reader([&] {
    Participant self(domain);
    self.enter();
    inside.store(true, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left.store(true, std::memory_order_relaxed);
    self.exit();
  });
  while (!inside.load(std::memory_order_acquire)) std::this_thread::yield();
  domain.synchronize();
  EXPECT_TRUE(left.load(std::memory_order_relaxed));
  reader.join();
}

// Writers replace nodes in a table, overwrite each old one and reuse it as soon as its stamp is safe. A reader must
// never see an overwritten one. ThreadSanitizer would see it as a data race on `value`.
TEST(Epoch, ReusedMemoryIsNeverSeenByReaders) {
  constexpr int replacements = is_sanitized ? 20'000 : 60'000;
  constexpr std::size_t places = 8;
  constexpr std::uint64_t spoiled = 0xdeaddeaddeaddead;
  struct Node {
    std::uint64_t value;
    std::uint64_t check;
  };
  EpochDomain domain(8);
  std::array<std::atomic<Node*>, places> table{};
  std::vector<std::unique_ptr<Node>> all;
  for (auto& place : table) {
    all.push_back(std::make_unique<Node>(Node{1, ~std::uint64_t{1}}));
    place.store(all.back().get(), std::memory_order_release);
  }
  std::atomic<int> writers_left{2};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> reused{0};
  std::vector<std::unique_ptr<Node>> spare[2];
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < 2; ++w) {
    for (int i = 0; i < 64; ++i) spare[w].push_back(std::make_unique<Node>(Node{0, 0}));
    threads.emplace_back([&, w] {
      std::vector<Node*> free;
      for (auto& node : spare[w]) free.push_back(node.get());
      std::deque<std::pair<std::uint64_t, Node*>> retired;
      for (int i = 0; i < replacements;) {
        while (!retired.empty() && domain.is_safe(retired.front().first)) {
          Node* node = retired.front().second;
          retired.pop_front();
          node->value = spoiled;
          free.push_back(node);
          reused.fetch_add(1, std::memory_order_relaxed);
        }
        if (free.empty()) {
          std::this_thread::yield();
          continue;
        }
        Node* node = free.back();
        free.pop_back();
        node->value = static_cast<std::uint64_t>(i) + 2;
        node->check = ~node->value;
        Node* old = table[static_cast<std::size_t>(i) % places].exchange(node, std::memory_order_acq_rel);
        retired.emplace_back(domain.retire_stamp(), old);
        ++i;
      }
      writers_left.fetch_sub(1, std::memory_order_release);
    });
  }
  for (unsigned r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      Participant self(domain);
      while (writers_left.load(std::memory_order_acquire) != 0) {
        self.enter();
        for (const auto& place : table) {
          const Node* node = place.load(std::memory_order_acquire);
          for (int again = 0; again < 3; ++again) {
            if (node->value == spoiled || node->check != ~node->value) wrong.fetch_add(1, std::memory_order_relaxed);
          }
        }
        self.exit();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(reused.load(), 0u);
}

}  // namespace
}  // namespace tandem
