#include "router/router.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "router/router_test_support.hpp"

namespace tandem {
namespace {

constexpr unsigned participants = 16;

// Sees that what is cleaned is the present model, and one at a time.
class CleanedStore final : public RoutedStore {
 public:
  void clean(const HotModel& now) noexcept override {
    wrong += cleaning.exchange(true);
    wrong += router->model() != &now;
    wrong += now.number() != cleaned + 1;
    cleaned = now.number();
    cleaning = false;
  }
  Measured measured() noexcept override { return {.operations = operations.load()}; }

  const Router* router = nullptr;
  std::atomic<std::uint64_t> operations{0};
  std::atomic<std::uint32_t> cleaned{0};
  std::atomic<unsigned> wrong{0};
  std::atomic<bool> cleaning{false};
};

struct RouterFixture {
  explicit RouterFixture(std::uint64_t budget_bytes = 64 << 20, const RouterOptions& options = small())
      : budget(budget_bytes), router(options, epochs, budget, store) {
    store.router = &router;
  }
  static RouterOptions small() {
    RouterOptions options;
    options.sketch = {.hot_keys = 1024, .bits = 16, .learning = 1 << 16, .judged = 4096};
    return options;
  }
  // Keys tag * 1000 ..., so many.
  static std::unique_ptr<HotModel> model_of(std::uint64_t tag, std::uint32_t count = 100) {
    std::vector<Fingerprint> keys;
    for (std::uint64_t k = 0; k < count; ++k) keys.push_back(DrawnKeys::fingerprint(tag * 1000 + k));
    return HotModel::of_keys(keys);
  }

  EpochDomain epochs{participants};
  MemoryBudget budget;
  CleanedStore store;
  Router router;
};

// What has not come by then the test finds missing.
template <class F>
void wait_until(F is_done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_done() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Router, BeginsWithoutHotKeys) {
  RouterFixture fixture;
  EXPECT_EQ(fixture.router.model()->size(), 0);
  EXPECT_EQ(fixture.router.stats().model, 0);
  EXPECT_FALSE(fixture.router.model()->may_be_hot(DrawnKeys::fingerprint(1)));
  EXPECT_EQ(fixture.budget.used_bytes(), 0);
}

TEST(Router, PublishesAndCleansWhatIsSetByHand) {
  RouterFixture fixture;
  for (std::uint32_t n = 1; n <= 5; ++n) {
    ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(n)));
    EXPECT_EQ(fixture.router.model()->number(), n);
    EXPECT_TRUE(fixture.router.model()->is_hot(DrawnKeys::fingerprint(n * 1000)));
    EXPECT_FALSE(fixture.router.model()->is_hot(DrawnKeys::fingerprint((n - 1) * 1000)));
    EXPECT_EQ(fixture.store.cleaned, n);
  }
  EXPECT_FALSE(fixture.router.set_model(nullptr));
  EXPECT_EQ(fixture.store.wrong, 0);
  EXPECT_EQ(fixture.router.stats().hot_keys, 100);
}

TEST(Router, AModelLastsAsLongAsItsReadersEpoch) {
  RouterFixture fixture;
  ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(1)));
  EpochDomain::Participant reader(fixture.epochs);
  reader.enter();
  const HotModel* seen = fixture.router.model();
  ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(2)));
  ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(3)));
  EXPECT_EQ(fixture.router.stats().retired, 2);
  EXPECT_TRUE(seen->is_hot(DrawnKeys::fingerprint(1000)));
  reader.exit();
  ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(4)));
  EXPECT_EQ(fixture.router.stats().retired, 1);  // the last one, until the next
}

TEST(Router, AReaderThatStaysHoldsFewModels) {
  RouterFixture fixture;
  EpochDomain::Participant reader(fixture.epochs);
  reader.enter();
  unsigned published = 0;
  for (unsigned n = 0; n < 100; ++n) published += fixture.router.set_model(RouterFixture::model_of(n));
  EXPECT_LT(published, 10);
  EXPECT_EQ(fixture.router.stats().refused, 100 - published);
  EXPECT_EQ(fixture.router.model()->number(), published);
  reader.exit();
  EXPECT_TRUE(fixture.router.set_model(RouterFixture::model_of(7)));
}

// Readers see whole models, one after the other, while they are replaced.
TEST(Router, PublicationUnderReaders) {
  RouterFixture fixture;
  ASSERT_TRUE(fixture.router.set_model(RouterFixture::model_of(1)));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, looked{0};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      EpochDomain::Participant self(fixture.epochs);
      std::uint32_t last = 0;
      while (!stop) {
        self.enter();
        const HotModel* model = fixture.router.model();
        const std::uint32_t number = model->number();
        wrong += number < last || model->size() != 100;
        for (std::uint64_t k = 0; k < 100; k += 9) wrong += !model->is_hot(DrawnKeys::fingerprint(number * 1000 + k));
        wrong += model->number() != number;
        last = number;
        self.exit();
        ++looked;
      }
    });
  }
  // A publication may have to wait for readers that are not running.
  std::uint32_t published = 1;
  while (published < 300 || looked < 1000)
    published += fixture.router.set_model(RouterFixture::model_of(published + 1));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(fixture.store.wrong, 0);
  EXPECT_EQ(fixture.router.stats().model, published);
}

TEST(Router, LearnsFromItsWorkers) {
  RouterFixture fixture;
  EXPECT_TRUE(fixture.router.start());
  EXPECT_TRUE(fixture.router.start());
  EXPECT_TRUE(fixture.router.is_training());
  EXPECT_FALSE(fixture.router.set_model(RouterFixture::model_of(1)));
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < 2; ++t) {
    workers.emplace_back([&, t] {
      const auto samples = fixture.router.join();
      DrawnKeys keys(100'000, 0.99, t);
      while (!stop) {
        for (unsigned i = 0; i < 1000; ++i) samples->offer(DrawnKeys::fingerprint(keys.draw()), i % 10 == 0);
        fixture.store.operations += 1000;
        std::this_thread::yield();
      }
    });
  }
  EpochDomain::Participant self(fixture.epochs);
  const auto is_hot = [&] {
    self.enter();
    const bool hot = fixture.router.model()->is_hot(DrawnKeys::fingerprint(0));
    self.exit();
    return hot;
  };
  wait_until([&] { return is_hot() && fixture.router.stats().hot_share > 0.2; });
  EXPECT_TRUE(is_hot());
  const RouterStats stats = fixture.router.stats();
  EXPECT_GT(stats.samples, 1000);
  EXPECT_GT(stats.hot_share, 0.2);
  EXPECT_GE(stats.sampled_one_in, 1);
  EXPECT_GT(stats.trainer_share, 0);
  stop = true;
  for (std::thread& worker : workers) worker.join();
  fixture.router.stop();
  EXPECT_EQ(fixture.router.stats().sampled_one_in, 0);
  EXPECT_EQ(fixture.store.wrong, 0);
  EXPECT_TRUE(fixture.router.set_model(RouterFixture::model_of(1)));
}

TEST(Router, WorkersComeAndGo) {
  RouterFixture fixture;
  ASSERT_TRUE(fixture.router.start());
  const std::uint64_t before = fixture.budget.used_bytes();
  constexpr unsigned workers = 200;
  for (unsigned i = 0; i < workers; ++i) fixture.router.join()->offer(DrawnKeys::fingerprint(i), false);
  wait_until([&] { return fixture.budget.used_bytes() <= before; });
  EXPECT_EQ(fixture.budget.used_bytes(), before);
  EXPECT_EQ(fixture.router.stats().samples, workers);
}

TEST(Router, MemoryIsTheBudgetsAndGivenBack) {
  EpochDomain epochs(participants);
  MemoryBudget budget(64 << 20);
  CleanedStore store;
  {
    Router router(RouterFixture::small(), epochs, budget, store);
    store.router = &router;
    const auto samples = router.join();
    EXPECT_EQ(budget.used_bytes(), Samples::ring_bytes);
    ASSERT_TRUE(router.set_model(RouterFixture::model_of(1)));
    EXPECT_EQ(budget.used_bytes(), Samples::ring_bytes + router.model()->bytes());
    ASSERT_TRUE(router.start());
    EXPECT_GE(budget.used_bytes(), Samples::ring_bytes + router.model()->bytes() + (2 << 16));
    router.stop();
    ASSERT_TRUE(router.start());  // again
  }
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(Router, WithoutMemoryNothingIsHot) {
  RouterFixture fixture(4096);
  EXPECT_FALSE(fixture.router.start());
  EXPECT_FALSE(fixture.router.set_model(RouterFixture::model_of(1)));
  EXPECT_EQ(fixture.router.stats().refused, 1);
  const auto samples = fixture.router.join();
  for (unsigned i = 0; i < 10'000; ++i) samples->offer({1, i}, false);
  EXPECT_EQ(samples->taken(), 0);
  EXPECT_EQ(fixture.router.model()->size(), 0);
  EXPECT_EQ(fixture.budget.used_bytes(), 0);
}

}  // namespace
}  // namespace tandem
