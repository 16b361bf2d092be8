// Requests that a device answers from its copies of items: these are as current as the items themselves.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "device/sim/sim_device.hpp"
#include "engine/engine_fixture.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

class EngineImages : public testing::Test {
 protected:
  static constexpr std::uint32_t keys_at_once = 256;

  void open(std::uint64_t values_bytes = 64 << 20, std::uint64_t device_bytes = std::uint64_t{1} << 30) {
    EngineOptions o;
    o.hash_seed = 1;
    o.item_bytes_expected = 256;
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
    runner_ = std::make_unique<Runner>(*context_, engine_->schedulers(), 16 * keys_at_once, std::uint64_t{1} << 17,
                                       Runner::Frames::yes, 1);
    runner_->set_patience(1h);
    ASSERT_TRUE(soon([&] { return engine_->schedulers()->serves(); }));
  }
  void TearDown() override {
    runner_.reset();
    context_.reset();
    engine_.reset();
  }

  struct Answer {
    Status status = Status::none;
    std::string value{};
    bool by_device = false;
  };
  // Answers each by the device if it can, else by the host.
  std::vector<Answer> get(const std::vector<std::string>& keys) {
    std::vector<Answer> answers(keys.size());
    ask_device(keys, answers);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!answers[i].by_device) answers[i] = ask_host(keys[i]);
    }
    return answers;
  }
  Answer get(const std::string& key) { return get(std::vector{key})[0]; }
  // A launch may occasionally be refused, and its requests left to the host.
  bool soon_by_device(const std::string& key) {
    return soon([&] { return get(key).by_device; });
  }
  Status set(std::string_view key, std::string_view value, std::uint32_t expiry_s = Clock::never) {
    Query q = query_of(Opcode::store, key);
    q.value = value.data();
    q.value_bytes = static_cast<std::uint32_t>(value.size());
    q.expiry_s = expiry_s;
    return run_alone(*context_, one_, q);
  }
  Status touch(std::string_view key, std::uint32_t expiry_s) {
    Query q = query_of(Opcode::touch, key);
    q.expiry_s = expiry_s;
    return run_alone(*context_, one_, q);
  }
  Planner::Work work() const { return Planner::work_of(context_->counters, 0); }
  // Distinct from those of other numbers.
  static std::vector<std::string> keys_of(int number) {
    std::vector<std::string> keys(keys_at_once);
    for (std::uint32_t i = 0; i < keys_at_once; ++i) keys[i] = std::to_string(number) + "." + std::to_string(i);
    return keys;
  }
  void set_all(const std::vector<std::string>& keys, std::string_view value) {
    for (const std::string& key : keys) set(key, value);
    runner_->relieve();
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
  void ask_device(const std::vector<std::string>& keys, std::vector<Answer>& answers) {
    FrameColumns* const columns = runner_->frames_to_fill(plan_frames);
    if (columns == nullptr) return;
    InputArena& input = runner_->filling().input();
    input.reuse();
    std::string lines;
    for (const std::string& key : keys) lines += "get " + key + "\r\n";
    std::memcpy(input.room(), lines.data(), lines.size());
    input.take(lines.size());
    ASSERT_TRUE(columns->add_stream(0, lines.size()));
    runner_->submit_frames(plan_frames, false);
    static_cast<void>(runner_->begin_answer());
    if (runner_->begin_frames()) {
      std::uint64_t at = 0;
      for (std::size_t i = 0; i < keys.size();) {
        FrameRun run;
        if (!runner_->take_frames(at, lines.size(), run)) {
          at += std::strlen("get \r\n") + keys[i++].size();
          continue;
        }
        at += run.bytes;
        std::string_view replies(runner_->reply(run), run.reply_bytes);
        for (const std::size_t end = i + run.keys; i < end; ++i) answers[i] = take_answer(replies, keys[i]);
      }
    }
    runner_->end_answer();
  }
  // The first of the replies, which is taken off them.
  static Answer take_answer(std::string_view& replies, const std::string& key) {
    constexpr std::string_view end = "END\r\n";
    Answer a{.status = replies.starts_with(end) ? Status::miss : Status::hit, .by_device = true};
    if (a.status == Status::hit) {
      const std::string before = "VALUE " + key + " 0 ";
      EXPECT_TRUE(replies.starts_with(before)) << replies.substr(0, 100);
      std::size_t digits = 0;
      const std::size_t bytes = std::stoul(std::string(replies.substr(before.size(), 10)), &digits);
      a.value = replies.substr(before.size() + digits + 2, bytes);
      replies.remove_prefix(before.size() + digits + 2 + bytes + 2);
    }
    EXPECT_TRUE(replies.starts_with(end)) << replies.substr(0, 100);
    replies.remove_prefix(end.size());
    return a;
  }
  Answer ask_host(const std::string& key) {
    Answer a;
    a.status = run_alone(*context_, one_, query_of(Opcode::get, key), [&] {
      const Result& r = one_.result(0);
      if (r.status == Status::hit) a.value.assign(r.item->bytes() + r.value_offset, r.value_bytes);
    });
    return a;
  }

  std::unique_ptr<Engine> engine_;
  Engine::ContextPtr context_{nullptr, {nullptr}};
  std::unique_ptr<Runner> runner_;
  Batch one_{1};
};

TEST_F(EngineImages, AnswerGetsOfSmallItems) {
  ASSERT_NO_FATAL_FAILURE(open());
  std::vector<std::string> keys, values;
  for (std::uint32_t n = 0; n < keys_at_once; ++n) {
    keys.push_back("key:" + std::to_string(n));
    values.push_back(std::string(n, static_cast<char>('a' + n % 26)));
    EXPECT_EQ(set(keys[n], values[n]), Status::stored);
  }
  std::vector<Answer> answers;
  ASSERT_TRUE(soon([&] { return (answers = get(keys))[0].by_device; }));
  std::uint64_t by_device = 0;
  for (std::uint32_t n = 0; n < keys_at_once; ++n) {
    ASSERT_EQ(answers[n].status, Status::hit);
    EXPECT_EQ(answers[n].value, values[n]);
    const bool has_copy = Item::total_bytes(0, keys[n].size(), values[n].size()) <= 128;
    EXPECT_EQ(answers[n].by_device, has_copy) << values[n].size();
    by_device += has_copy;
  }
  EXPECT_EQ(counters().device_images, by_device);
  EXPECT_EQ(get("none").status, Status::miss);
}

TEST_F(EngineImages, FollowASetInPlace) {
  ASSERT_NO_FATAL_FAILURE(open());
  set("k", "first");
  const Item* const before = item("k");
  EXPECT_TRUE(soon_by_device("k"));
  EXPECT_EQ(set("k", "other"), Status::stored);
  EXPECT_EQ(item("k"), before) << "the set has rewritten the item";
  Answer last;
  EXPECT_TRUE(soon([&] { return (last = get("k")).by_device; }));
  EXPECT_EQ(last.value, "other");
  EXPECT_EQ(set("k", "longer than before"), Status::stored);
  EXPECT_NE(item("k"), before);
  EXPECT_EQ(get("k").value, "longer than before");
}

TEST_F(EngineImages, RestWhileTooMuchIsWritten) {
  rests_ = true;
  ASSERT_NO_FATAL_FAILURE(open());
  Planner planner(Preset::automatic, engine().schedulers(), engine().shared().placement);
  planner.join(engine().steering());
  ASSERT_TRUE(planner.is_steered());
  const std::vector<std::string> keys = keys_of(0);
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
    EXPECT_EQ(get(keys[0]).value, last);
    EXPECT_TRUE(soon([&] { return serves(); })) << "nothing is written now";
    for (const Answer& a : get(keys)) EXPECT_EQ(a.value, last);
    EXPECT_TRUE(soon_by_device(keys[0]));
  }
  const DeviceStats stats = engine().device_stats().front();
  EXPECT_GE(stats.rests, 3u);
  EXPECT_GE(stats.replica.returns_warm, 3u);
  EXPECT_EQ(stats.replica.uploads, 1u);
}

TEST_F(EngineImages, KeepUpUnlessTheyMayRest) {
  ASSERT_NO_FATAL_FAILURE(open());
  const std::vector<std::string> keys = keys_of(0);
  const auto end = std::chrono::steady_clock::now() + 200ms;
  while (std::chrono::steady_clock::now() < end) set_all(keys, "written");
  EXPECT_EQ(engine().shared().rewrites, Rewrites::announced);
  EXPECT_EQ(engine().device_stats().front().rests, 0u);
}

TEST_F(EngineImages, KnowWhatIsOver) {
  ASSERT_NO_FATAL_FAILURE(open());
  constexpr std::uint32_t now_s = 1000, short_s = 100;
  engine().shared().clock.freeze_for_test(now_s);
  set("stays", "1");
  set("goes", "2");
  set("touched", "3", now_s + short_s);
  EXPECT_TRUE(soon_by_device("goes"));
  EXPECT_EQ(touch("goes", now_s + short_s), Status::hit);
  EXPECT_EQ(touch("touched", Clock::never), Status::hit);
  engine().shared().clock.freeze_for_test(now_s + short_s);
  EXPECT_TRUE(soon_by_device("stays"));
  EXPECT_EQ(get("goes").status, Status::miss);
  EXPECT_EQ(get("touched").value, "3");
  EXPECT_TRUE(soon_by_device("touched")) << "the change in place has reached the device";
  engine().flush_all(0);
  EXPECT_EQ(get("stays").status, Status::miss);
}

// An item that is only read by its copy looks used to CLOCK, and again after the hand has passed.
TEST_F(EngineImages, LeaveTheMarksThatClockLooksFor) {
  ASSERT_NO_FATAL_FAILURE(open());
  set("k", "v");
  set("idle", "v");
  for (int n = 0; n < 100; ++n)  // of another class; its hand does not move
    set_all(keys_of(n), "a value of another class than the others");
  EXPECT_FALSE(accessed("k"));
  EXPECT_TRUE(soon_by_device("k"));
  EXPECT_TRUE(accessed("k"));
  EXPECT_NE(word::Fetched::get(item("k")->state_acquire()), 0u);
  EXPECT_FALSE(accessed("idle"));
  Heap& heap = engine().shared().heap;
  ASSERT_TRUE(soon([&] { return replica().mark_clears > 0; }));  // by time: the next time-based one is 10 s away
  EXPECT_TRUE(soon_by_device("k"));
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
  EXPECT_TRUE(soon_by_device("k"));
  EXPECT_TRUE(accessed("k"));
}

TEST_F(EngineImages, ReachAsFarAsTheirMemory) {
  ASSERT_NO_FATAL_FAILURE(open(2 * page_bytes));
  const std::string value(64, 'v');
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) set_all(keys_of(round), value);
  EXPECT_TRUE(soon_by_device(keys_of(0)[0]));
  std::uint64_t by_device = 0, gets = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const Answer& a : get(keys_of(round))) {
      ASSERT_EQ(a.status, Status::hit);
      ASSERT_EQ(a.value, value);
      by_device += a.by_device;
      ++gets;
    }
  }
  EXPECT_GT(by_device, 0u);
  EXPECT_LT(by_device, gets / 2);
}

TEST_F(EngineImages, AreOfAsManyItemsAsTheDeviceHasMemoryFor) {
  ASSERT_NO_FATAL_FAILURE(open(64 << 20, 32 << 20));
  set("k", "v");
  EXPECT_TRUE(soon_by_device("k"));
  EXPECT_FALSE(replica().images_given_up);
  EXPECT_LT(replica().image_bytes, std::uint64_t{31} << 20);
  EXPECT_TRUE(engine().schedulers()->has_images());
}

TEST_F(EngineImages, AreDoneWithoutWhereTheDeviceHasNoMemory) {
  ASSERT_NO_FATAL_FAILURE(open(64 << 20, 12 << 20));
  set("k", "v");
  const Answer a = get("k");
  EXPECT_EQ(a.value, "v");
  EXPECT_FALSE(a.by_device);
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
  set("k", "v");
  EXPECT_TRUE(soon_by_device("k"));
  constexpr int rounds_max = 2000;
  for (int n = 0; n < rounds_max && !replica().images_given_up; ++n) set_all(keys_of(n), "");
  EXPECT_GE(engine().stats().index_growths, 1u);
  ASSERT_TRUE(soon([&] { return replica().images_given_up && replica().state == ReplicaState::current; }));
  const Answer a = get("k");
  EXPECT_EQ(a.value, "v");
  EXPECT_FALSE(a.by_device);
}

TEST(EngineOfSeveralDevices, KeepsNoCopiesThatNoPlanReads) {
  EngineOptions o;
  o.memory_bytes = std::uint64_t{32} << 20;
  o.huge_pages = false;
  o.device_values = {.bytes = 64 << 20};
  std::string warned;
  o.warn = [&](std::string_view line) { warned += line; };
  for (int device = 0; device < 2; ++device) o.devices.push_back(make_sim_device({}));
  const Engine engine(o);
  EXPECT_EQ(engine.schedulers()->image_granules(), 0u);
  EXPECT_NE(warned.find("no copies"), std::string::npos) << warned;
}

}  // namespace
}  // namespace tandem
