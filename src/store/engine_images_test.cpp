// Gets that are answered from the device's copies of items are as current as the items themselves.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "device/sim/sim_device.hpp"
#include "index/cuckoo/colliding_keys.hpp"
#include "pipeline/runner.hpp"
#include "store/engine_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

class EngineImages : public testing::Test {
 protected:
  static constexpr std::uint32_t batch_queries = 256;

  static constexpr std::uint64_t hash_seed = 1;

  void open(std::uint64_t values_bytes = 64 << 20, std::uint64_t device_bytes = std::uint64_t{1} << 30,
            std::uint32_t item_bytes_expected = 256) {
    EngineOptions o;
    o.hash_seed = hash_seed;
    o.item_bytes_expected = item_bytes_expected;
    o.memory_bytes = std::uint64_t{32} << 20;
    o.huge_pages = false;
    o.devices = {make_sim_device({.memory_bytes = device_bytes})};
    o.device_values = {.bytes = values_bytes};
    o.follows_load = rests_;
    o.controller = {.queries_min = 64,
                    .leave_ns = 1000,
                    .trial_pause_ns = 3'600'000'000'000,
                    .trial_pause_max_ns = 3'600'000'000'000,
                    .idle_ns = 20'000'000};
    engine_ = std::make_unique<Engine>(o);
    context_ = engine_->make_context();
    batches_ = std::make_unique<Runner>(*context_, engine_->schedulers(), batch_queries);
    ASSERT_TRUE(soon([&] { return engine_->schedulers()->serves(); }));
  }
  void TearDown() override {
    batches_.reset();
    context_.reset();
    engine_.reset();
  }

  // The caller owns the strings, until the query has run.
  static Query get(std::string_view key, std::uint16_t options = 0) {
    Query q{};
    q.opcode = Opcode::get;
    q.key = key.data();
    q.key_bytes = static_cast<std::uint8_t>(key.size());
    q.options = options;
    return q;
  }
  static Query set(std::string_view key, std::string_view value, std::uint32_t expiry_s = Clock::never) {
    Query q = get(key);
    q.opcode = Opcode::store;
    q.value = value.data();
    q.value_bytes = static_cast<std::uint32_t>(value.size());
    q.expiry_s = expiry_s;
    return q;
  }
  static Query touch(std::string_view key, std::uint32_t expiry_s) {
    Query q = get(key);
    q.opcode = Opcode::touch;
    q.expiry_s = expiry_s;
    return q;
  }

  struct Answer {
    Status status = Status::none;
    std::string value{}, key{};
    bool by_image = false;
  };
  struct Answers final : ResponseWriter {
    explicit Answers(const Heap& h) : heap(h) {}
    bool write(Batch& batch, Strip strip) override {
      if (before_write) before_write();
      for (std::uint32_t i = strip.begin; i < strip.end; ++i) {
        const Result& r = batch.result(i);
        Answer a{.status = r.status};
        if (r.status == Status::hit && batch.query(i).opcode == Opcode::get) {
          a.value.assign(r.item->bytes() + r.value_offset, r.value_bytes);
          a.key = r.item->key();
          a.by_image = !heap.holds(r.item);
        }
        all.push_back(a);
      }
      return true;
    }
    void control(Batch&, std::uint32_t) override {}
    const Heap& heap;
    std::vector<Answer> all;
    std::function<void()> before_write;  // when all answers are found, and no value is copied
  };

  // Runs one batch on the device.
  std::vector<Answer> run(const std::vector<Query>& queries, std::function<void()> before_write = {}) {
    for (const Query& q : queries) {
      batches_->filling().next() = q;
      batches_->filling().commit();
    }
    batches_->submit(feasible_plans(engine_->placement()).front());
    Answers writer(engine_->shared().heap);
    writer.before_write = std::move(before_write);
    batches_->answer_oldest(writer);
    return writer.all;
  }
  Answer run(const Query& query) { return run(std::vector{query})[0]; }
  // A batch may occasionally be refused, and its keys searched by the host.
  bool soon_by_image(const Query& query) {
    return soon([&] { return run(query).by_image; });
  }
  // Keys of a batch, distinct from those of other batches.
  Planner::Work work() const { return Planner::work_of(context_->counters, 0); }
  static std::vector<std::string> keys_of_batch(int number) {
    std::vector<std::string> keys(batch_queries);
    for (std::uint32_t i = 0; i < batch_queries; ++i) keys[i] = std::to_string(number) + "." + std::to_string(i);
    return keys;
  }
  void set_all(const std::vector<std::string>& keys, std::string_view value) {
    std::vector<Query> sets;
    for (const std::string& key : keys) sets.push_back(set(key, value));
    run(sets);
  }

  const Item* item(const std::string& key) {
    EpochDomain::Participant epoch(engine_->shared().epochs);
    epoch.enter();
    ItemVersion seen;
    const Item* const found = engine_->shared().index.find(
        fingerprint_of(key.data(), key.size(), engine_->shared().hash_seed), key, seen, no_location);
    epoch.exit();
    return found;
  }
  bool accessed(const std::string& key) { return word::Accessed::get(item(key)->state_acquire()) != 0; }
  StoreTotals counters() const { return engine_->stats().counters; }
  ReplicaStats replica() { return engine_->device_stats().front().replica; }
  Engine& engine() { return *engine_; }
  bool serves() { return engine_->schedulers()->serves(); }

  bool rests_ = false;

 private:
  std::unique_ptr<Engine> engine_;
  Engine::ContextPtr context_{nullptr, {nullptr}};
  std::unique_ptr<Runner> batches_;
};

TEST_F(EngineImages, AnswerGetsOfSmallItems) {
  ASSERT_NO_FATAL_FAILURE(open());
  std::vector<std::string> keys, values;
  for (std::uint32_t n = 0; n < batch_queries; ++n) {
    keys.push_back("key:" + std::to_string(n));
    values.push_back(std::string(n, static_cast<char>('a' + n % 26)));
  }
  std::vector<Query> sets, gets;
  for (std::uint32_t n = 0; n < batch_queries; ++n) {
    sets.push_back(set(keys[n], values[n]));
    gets.push_back(get(keys[n]));
  }
  for (const Answer& a : run(sets)) EXPECT_EQ(a.status, Status::stored);
  std::vector<Answer> answers;
  std::uint64_t images = 0, batches = 0;
  // A busy device's batch is let go, and searched by the host.
  ASSERT_TRUE(soon([&] {
    const std::uint64_t before = counters().device_images;
    answers = run(gets);
    ++batches;
    images = counters().device_images - before;
    return images != 0;
  }));
  std::uint64_t by_image = 0;
  for (std::uint32_t n = 0; n < batch_queries; ++n) {
    ASSERT_EQ(answers[n].status, Status::hit);
    EXPECT_EQ(answers[n].value, values[n]);
    const bool has_image = Item::total_bytes(0, keys[n].size(), values[n].size()) <= 128;
    EXPECT_EQ(answers[n].by_image, has_image) << values[n].size();
    by_image += has_image;
  }
  EXPECT_EQ(images, by_image);
  EXPECT_EQ(counters().get_hits, batches * batch_queries);
  EXPECT_EQ(run(get("none")).status, Status::miss);
}

// With and without copies of items: the device's result is an answer, with its own key.
TEST_F(EngineImages, MayBeOfAnotherKeyWhereTheCallerCompares) {
  const CollidingKeys keys = colliding_keys(hash_seed, 1)[0];
  for (const std::uint64_t values_bytes : {std::uint64_t{0}, std::uint64_t{64} << 20}) {
    ASSERT_NO_FATAL_FAILURE(open(values_bytes, std::uint64_t{1} << 30, 1 << 20));
    run(set(keys.a, "value of a"));
    run(get(keys.a));
    run(set(keys.b, "value of b"));
    run(get(keys.b));
    // The device has both.
    if (values_bytes != 0) {
      EXPECT_TRUE(soon_by_image(get(keys.a, option::caller_compares)));
    }
    bool was_other = false;
    EXPECT_TRUE(soon([&] {
      const std::uint64_t searched = engine().device_stats().front().queries;
      const std::vector<Answer> answers =
          run({get(keys.a, option::caller_compares), get(keys.b, option::caller_compares), get(keys.b), get(keys.a)});
      for (const Answer& a : answers) {
        EXPECT_EQ(a.status, Status::hit);
        EXPECT_EQ(a.value, a.key == keys.a ? "value of a" : "value of b");
      }
      EXPECT_EQ(answers[0].key, keys.a);
      EXPECT_EQ(answers[2].key, keys.b);
      EXPECT_EQ(answers[3].key, keys.a);
      was_other = answers[1].key == keys.a;
      return was_other && engine().device_stats().front().queries > searched;
    })) << was_other;
    EXPECT_EQ(run(get("none", option::caller_compares)).status, Status::miss);
    TearDown();
  }
}

TEST_F(EngineImages, SayNothingOfWhatChangesBehindTheirLaunch) {
  ASSERT_NO_FATAL_FAILURE(open());
  std::vector<Answer> answers;
  EXPECT_TRUE(soon([&] {
    EXPECT_EQ(run(set("k", "old")).status, Status::stored);
    answers = run({get("k"), set("k", "new"), get("k"), set("other", "x"), get("k")});
    return answers[0].by_image;
  }));
  EXPECT_EQ(answers[0].value, "old");
  EXPECT_EQ(answers[2].value, "new");
  EXPECT_FALSE(answers[2].by_image);
  EXPECT_EQ(answers[4].value, "new");
  EXPECT_GT(counters().device_images_changed, 0u);
  EXPECT_EQ(run(get("k")).value, "new");
  EXPECT_TRUE(soon_by_image(get("k")));
}

TEST_F(EngineImages, FollowASetInPlace) {
  ASSERT_NO_FATAL_FAILURE(open());
  run(set("k", "first"));
  const Item* const before = item("k");
  EXPECT_TRUE(soon_by_image(get("k")));
  EXPECT_EQ(run(set("k", "other")).status, Status::stored);
  EXPECT_EQ(item("k"), before) << "the set has rewritten the item";
  Answer last;
  EXPECT_TRUE(soon([&] { return (last = run(get("k"))).by_image; }));
  EXPECT_EQ(last.value, "other");
  EXPECT_EQ(run(set("k", "longer than before")).status, Status::stored);
  EXPECT_NE(item("k"), before);
  EXPECT_EQ(run(get("k")).value, "longer than before");
}

TEST_F(EngineImages, RestWhileTooMuchIsWritten) {
  rests_ = true;
  ASSERT_NO_FATAL_FAILURE(open());
  Planner planner(Preset::automatic, engine().schedulers(), engine().shared().placement);
  planner.join(*engine().steering());
  const std::vector<std::string> keys = keys_of_batch(0);
  const std::atomic<Rewrites>& rewrites = engine().shared().rewrites;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(rewrites, Rewrites::announced);
    EXPECT_TRUE(soon([&] {
      planner.begin(cycles_now());
      set_all(keys, "written");
      planner.end(cycles_now(), work(), false);
      return rewrites == Rewrites::marked;
    }));
    EXPECT_FALSE(serves());
    const std::string last = std::to_string(1'000'000 + round);  // as long, so that it is written in place
    set_all(keys, last);
    EXPECT_EQ(run(get(keys[0])).value, last);
    EXPECT_TRUE(soon([&] { return serves(); })) << "nothing is written now";
    for (const std::string& key : keys) EXPECT_EQ(run(get(key)).value, last);
    EXPECT_TRUE(soon_by_image(get(keys[0])));
  }
  const DeviceStats stats = engine().device_stats().front();
  EXPECT_GE(stats.rests, 3u);
  EXPECT_GE(stats.replica.returns_warm, 3u);
  EXPECT_EQ(stats.replica.uploads, 1u);
}

TEST_F(EngineImages, KeepUpUnlessTheyMayRest) {
  ASSERT_NO_FATAL_FAILURE(open());
  const std::vector<std::string> keys = keys_of_batch(0);
  const auto end = std::chrono::steady_clock::now() + 200ms;
  while (std::chrono::steady_clock::now() < end) set_all(keys, "written");
  EXPECT_EQ(engine().shared().rewrites, Rewrites::announced);
  EXPECT_EQ(engine().device_stats().front().rests, 0u);
}

TEST_F(EngineImages, KnowWhatIsOver) {
  ASSERT_NO_FATAL_FAILURE(open());
  constexpr std::uint32_t now_s = 1000, short_s = 100;
  engine().shared().clock.freeze_for_test(now_s);
  run({set("stays", "1"), set("goes", "2"), set("touched", "3", now_s + short_s)});
  EXPECT_TRUE(soon_by_image(get("goes")));
  EXPECT_EQ(run(touch("goes", now_s + short_s)).status, Status::hit);
  EXPECT_EQ(run(touch("touched", Clock::never)).status, Status::hit);
  engine().shared().clock.freeze_for_test(now_s + short_s);
  EXPECT_TRUE(soon_by_image(get("stays")));
  EXPECT_EQ(run(get("goes")).status, Status::miss);
  EXPECT_EQ(run(get("touched")).value, "3");
  EXPECT_TRUE(soon_by_image(get("touched"))) << "the change in place has reached the device";
  engine().flush_all(0);
  EXPECT_EQ(run(get("stays")).status, Status::miss);
}

// A meta reply may contain the last access time, which only the item has.
TEST_F(EngineImages, AreNotForMetaCommands) {
  ASSERT_NO_FATAL_FAILURE(open());
  run(set("k", "v"));
  const Answer a = run(get("k", option::meta));
  EXPECT_EQ(a.value, "v");
  EXPECT_FALSE(a.by_image);
}

// An item that is only read by its image looks used to CLOCK, and again after the hand has passed.
// A value that is copied from an item may be newer than what was found: another thread rewrites it in place. An image
// is as old as that, so it would take a later get of the same batch back in time.
TEST_F(EngineImages, AnswerNoGetBehindOneThatReadsTheItem) {
  open();
  run(set("key", "old"));
  run(set("other", "value"));
  const Query by_item = get("key", option::no_bump);
  const Engine::ContextPtr context = engine().make_context();
  Runner another(*context, nullptr, 1);
  const auto rewrite = [&] {
    Answers stored(engine().shared().heap);
    another.filling().next() = set("key", "new");
    another.filling().commit();
    another.filling().plan = plan_cpu;
    another.run(another.filling(), stored);
    another.filling().clear();
  };
  for (const std::vector<Query>& queries :
       {std::vector{by_item, get("key")}, std::vector{by_item, set("other", "other"), get("key")}}) {
    run(set("key", "old"));
    ASSERT_TRUE(soon_by_image(get("key")));
    const std::vector<Answer> answers = run(queries, rewrite);
    EXPECT_EQ(answers.front().value, "new");
    EXPECT_EQ(answers.back().value, "new");
  }
  for (const std::vector<Query>& queries :
       {std::vector{get("key"), by_item}, std::vector{get("key"), set("other", "other"), by_item}})
    EXPECT_TRUE(soon([&] { return run(queries).front().by_image; }));
}

TEST_F(EngineImages, LeaveTheMarksThatClockLooksFor) {
  ASSERT_NO_FATAL_FAILURE(open());
  run({set("k", "v"), set("idle", "v")});
  for (int n = 0; n < 100; ++n) {  // of another class; its hand does not move
    set_all(keys_of_batch(n), "a value of another class than the others");
  }
  EXPECT_FALSE(accessed("k"));
  EXPECT_TRUE(soon_by_image(get("k")));
  EXPECT_TRUE(accessed("k"));
  EXPECT_NE(word::Fetched::get(item("k")->state_acquire()), 0u);
  EXPECT_FALSE(accessed("idle"));
  Heap& heap = engine().shared().heap;
  ASSERT_TRUE(soon([&] { return replica().mark_clears > 0; }));  // by time: the next time-based one is 10 s away
  EXPECT_TRUE(soon_by_image(get("k")));
  // Because the hand has passed: by time each one would take ten seconds. A busy machine may once be as late.
  bool is_by_hand = false;
  for (int tries = 0; tries < 5 && !is_by_hand; ++tries) {
    const std::uint64_t clears = replica().mark_clears;
    const auto begin = std::chrono::steady_clock::now();
    Location victims[64];
    EpochDomain::Participant epoch(engine().shared().epochs);
    epoch.enter();
    heap.sweep(heap.class_of(heap.location_of(item("k"))), victims, 1 << 16, nullptr, nullptr);
    epoch.exit();
    EXPECT_FALSE(accessed("k"));
    ASSERT_TRUE(soon([&] { return replica().mark_clears > clears; }));
    is_by_hand = std::chrono::steady_clock::now() - begin < 5s;
  }
  EXPECT_TRUE(is_by_hand);
  EXPECT_TRUE(soon_by_image(get("k")));
  EXPECT_TRUE(accessed("k"));
}

// A write searches its key, too; only the get after it fetches the item.
TEST_F(EngineImages, AreNotForWrites) {
  ASSERT_NO_FATAL_FAILURE(open());
  run(set("k", "v"));
  Query add = set("k", "w");
  add.mode = StoreMode::add;
  EXPECT_EQ(run(add).status, Status::not_stored);
  EXPECT_EQ(word::Fetched::get(item("k")->state_acquire()), 0u);
  EXPECT_TRUE(soon_by_image(get("k")));
  EXPECT_EQ(word::Fetched::get(item("k")->state_acquire()), 1u);
}

TEST_F(EngineImages, ReachAsFarAsTheirMemory) {
  ASSERT_NO_FATAL_FAILURE(open(2 * page_bytes));
  const std::string value(64, 'v');
  std::uint64_t by_image = 0, gets = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::string> keys = keys_of_batch(round);
    set_all(keys, value);
    std::vector<Query> reads;
    for (const std::string& key : keys) reads.push_back(get(key));
    for (const Answer& a : run(reads)) {
      ASSERT_EQ(a.status, Status::hit);
      ASSERT_EQ(a.value, value);
      by_image += a.by_image;
      ++gets;
    }
  }
  EXPECT_GT(by_image, 0u);
  EXPECT_LT(by_image, gets / 2);
}

TEST_F(EngineImages, AreOfAsManyItemsAsTheDeviceHasMemoryFor) {
  ASSERT_NO_FATAL_FAILURE(open(64 << 20, 32 << 20));
  run(set("k", "v"));
  EXPECT_TRUE(soon_by_image(get("k")));
  EXPECT_FALSE(replica().images_given_up);
  EXPECT_LT(replica().image_bytes, std::uint64_t{31} << 20);
  EXPECT_TRUE(engine().schedulers()->has_images());
}

TEST_F(EngineImages, AreDoneWithoutWhereTheDeviceHasNoMemory) {
  ASSERT_NO_FATAL_FAILURE(open(64 << 20, 12 << 20));
  run(set("k", "v"));
  const Answer a = run(get("k"));
  EXPECT_EQ(a.value, "v");
  EXPECT_FALSE(a.by_image);
  EXPECT_TRUE(replica().images_given_up);
  EXPECT_EQ(replica().state, ReplicaState::current);
  EXPECT_FALSE(engine().schedulers()->has_images());
  const IndexPlacement& placement = engine().shared().placement;
  EXPECT_EQ(Planner(Preset::mirrored, engine().schedulers(), placement).plan_for(1000), plan_located)
      << "no whole requests, of which it could answer none";
}

// The index has priority.
TEST_F(EngineImages, MakeRoomForALargerIndex) {
  ASSERT_NO_FATAL_FAILURE(open(64 << 20, (64 << 20) + (4 << 20)));
  run(set("k", "v"));
  EXPECT_TRUE(soon_by_image(get("k")));
  constexpr int batches_max = 2000;
  for (int n = 0; n < batches_max && !replica().images_given_up; ++n) {
    set_all(keys_of_batch(n), "");
  }
  EXPECT_GE(engine().stats().index_growths, 1u);
  ASSERT_TRUE(soon([&] { return replica().images_given_up && replica().state == ReplicaState::current; }));
  const Answer a = run(get("k"));
  EXPECT_EQ(a.value, "v");
  EXPECT_FALSE(a.by_image);
}

}  // namespace
}  // namespace tandem
