#include "engine/crawler.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "engine/engine_fixture.hpp"

namespace tandem {
namespace {

class CrawlerTest : public testing::Test {
 protected:
  void start(bool crawls) {
    engine_.emplace(EngineOptions{.memory_bytes = std::uint64_t{16} << 20, .huge_pages = false, .crawl = crawls});
    context_ = engine_->make_context();
  }
  ~CrawlerTest() override { context_.reset(); }

  void store(const std::string& key, std::size_t value_bytes, std::uint32_t expiry_s) {
    const std::string value(value_bytes, 'v');
    Batch batch(1);
    Query q = query_of(Opcode::store, key, value);
    q.expiry_s = expiry_s;
    ASSERT_EQ(run_alone(*context_, batch, q), Status::stored);
  }
  void store_many(const char* prefix, int count, std::size_t value_bytes, std::uint32_t expiry_s) {
    for (int i = 0; i < count; ++i) store(prefix + std::to_string(i), value_bytes, expiry_s);
  }
  std::uint64_t items() const { return engine_->stats().items; }
  // Waits for another thread's action, with a generous time limit.
  template <class F>
  static bool eventually(F f) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!f()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  static std::uint64_t sum(const std::vector<std::uint64_t>& values) {
    std::uint64_t total = 0;
    for (const std::uint64_t v : values) total += v;
    return total;
  }

  std::optional<Engine> engine_;
  Engine::ContextPtr context_{nullptr, {nullptr}};
};

TEST_F(CrawlerTest, GivesBackWhatExpiredAndNothingElse) {
  start(false);
  store_many("over", 3000, 20, Clock::already_expired);
  store_many("good", 2000, 20, Clock::never);
  store_many("later", 1000, 20, 1000);
  store("huge over", 900'000, Clock::already_expired);
  store("huge good", 900'000, Clock::never);
  EXPECT_EQ(items(), 6002u);
  engine_->crawler().walk();
  EXPECT_EQ(items(), 3001u);
  const CrawlerStats s = engine_->crawler().stats();
  EXPECT_EQ(sum(s.checked), 6002u);
  EXPECT_EQ(sum(s.reclaimed), 3001u);
  EXPECT_EQ(s.reclaimed.back(), 1u) << "the huge one";
  EXPECT_EQ(s.starts, 0u);
  EXPECT_FALSE(s.enabled);
  const StoreTotals totals = engine_->stats().counters;
  EXPECT_EQ(totals.reclaimed, 3001u);
  EXPECT_EQ(totals.expired_unfetched, 3001u);
  EXPECT_EQ(totals.evictions, 0u);
  engine_->crawler().walk();
  EXPECT_EQ(items(), 3001u);
}

TEST_F(CrawlerTest, WhatItGivesBackCanBeUsedAgain) {
  start(false);
  const std::uint64_t limit = engine_->options().memory_bytes;
  for (int round = 0; round < 5; ++round) {
    store_many("k", 50'000, 150, Clock::already_expired);
    engine_->crawler().walk();
    EXPECT_EQ(items(), 0u);
    EXPECT_LE(engine_->stats().memory_used_bytes, limit);
  }
  EXPECT_EQ(engine_->stats().counters.evictions, 0u) << "eviction had to help";
}

TEST_F(CrawlerTest, FlushedItemsGoByThemselves) {
  start(true);
  store_many("k", 5'000, 50, Clock::never);
  engine_->flush_all(0);
  store_many("new", 10, 50, Clock::never);
  EXPECT_TRUE(eventually([this] { return items() == 10; }));
}

TEST_F(CrawlerTest, ARunThatIsAskedForLooksAtItsClassesOnly) {
  start(true);
  const Heap& heap = engine_->shared().heap;
  store_many("small", 1000, 20, Clock::already_expired);
  const SizeClass large = heap.size_class(Item::total_bytes(0, 6, 5000));
  store_many("large", 100, 5000, Clock::already_expired);
  Crawler& crawler = engine_->crawler();
  Crawler::Classes classes;
  classes[large] = true;
  crawler.set_sleep_us(0);
  ASSERT_EQ(crawler.crawl(classes), Crawler::Asked::started);
  ASSERT_TRUE(eventually([&] { return !crawler.stats().running; }));
  const CrawlerStats s = crawler.stats();
  EXPECT_EQ(s.starts, 1u);
  EXPECT_EQ(s.reclaimed[large], 100u);
}

TEST_F(CrawlerTest, ItemsPerRunEndAClass) {
  start(true);
  store_many("k", 40'000, 10, Clock::never);
  Crawler& crawler = engine_->crawler();
  crawler.set_sleep_us(0);
  crawler.set_items_per_run(1);
  const std::uint64_t before = sum(crawler.stats().checked);
  ASSERT_EQ(crawler.crawl(Crawler::Classes().set()), Crawler::Asked::started);
  ASSERT_TRUE(eventually([&] { return !crawler.stats().running; }));
  const std::uint64_t checked = sum(crawler.stats().checked) - before;
  EXPECT_GT(checked, 0u);
  EXPECT_LT(checked, 40'000u) << "one look, not all";
}

TEST_F(CrawlerTest, OneRunAtATimeAndNoneWhenDisabled) {
  start(true);
  store_many("k", 40'000, 10, Clock::never);
  Crawler& crawler = engine_->crawler();
  crawler.set_sleep_us(1'000'000);
  const Crawler::Classes all = Crawler::Classes().set();
  ASSERT_EQ(crawler.crawl(all), Crawler::Asked::started);
  EXPECT_EQ(crawler.crawl(all), Crawler::Asked::busy);
  EXPECT_TRUE(crawler.set_enabled(false)) << "ends the run, whatever it sleeps";
  EXPECT_EQ(crawler.crawl(all), Crawler::Asked::disabled);
  EXPECT_FALSE(crawler.stats().running);
  EXPECT_TRUE(crawler.set_enabled(true));
  EXPECT_TRUE(crawler.set_enabled(true)) << "again";
  crawler.set_sleep_us(0);
  EXPECT_EQ(crawler.crawl(all), Crawler::Asked::started);
  EXPECT_TRUE(eventually([&] { return !crawler.stats().running; }));
}

TEST_F(CrawlerTest, WritersGoOnMeanwhile) {
  start(true);
  Crawler& crawler = engine_->crawler();
  crawler.set_sleep_us(0);
  for (int round = 0; round < 20; ++round) {
    store_many("k", 2000, 30, round % 2 == 0 ? Clock::already_expired : Clock::never);
    crawler.crawl(Crawler::Classes().set());
    store_many("k", 1000, 300, Clock::never);
  }
  ASSERT_TRUE(eventually([&] { return !crawler.stats().running; }));
  store_many("k", 2000, 30, Clock::never);
  EXPECT_EQ(items(), 2000u);
}

}  // namespace
}  // namespace tandem
