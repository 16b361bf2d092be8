// Batches with input that a device answers whole: every one comes back, with right replies or none, whatever the device
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/sim/sim_device.hpp"
#include "pipeline/flight.hpp"
#include "pipeline/scheduler_fixture.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

using Rig = SchedulerRig;
constexpr unsigned stored_keys = 100;

SchedulerOptions options_with_frames(std::chrono::microseconds cycle = 0us) {
  return {.cycle = cycle, .deadline = long_deadline, .frame_rules = [] {
            FrameRules rules = frame_rules(7);
            rules.now_s = 1000;
            return rules;
          }};
}
ReplicaOptions images_on_device() { return {.failures_max = 1'000'000, .images = {.bytes = std::uint64_t{64} << 20}}; }

// A second worker, which submits lines of gets.
class FramesWorker {
 public:
  static constexpr std::uint64_t input_bytes = 4096;

  explicit FramesWorker(Rig& rig, unsigned flights = Runner::flights_default)
      : context_(rig.shared),
        runner_(context_, &rig.schedulers, Rig::batch_queries, input_bytes, Runner::Frames::yes, flights),
        model_(rig.model),
        pending_(runner_.count()) {}

  Runner& runner() { return runner_; }
  const Context& context() const { return context_; }
  // False: no device takes them.
  bool submit(unsigned first, unsigned gets, const Plan& plan = plan_frames) {
    FrameColumns* const columns = runner_.frames_to_fill(plan);
    if (columns == nullptr) return false;
    Pending pending;
    std::string input;
    for (unsigned i = first; i < first + gets; ++i) {
      const std::string key = "key" + std::to_string(i % (stored_keys + 10));
      input += "get " + key + "\r\n";
      const auto at = model_.find(key);
      if (at == model_.end()) {
        pending.replies += "END\r\n";
      } else {
        pending.replies +=
            "VALUE " + key + " 0 " + std::to_string(at->second.size()) + "\r\n" + at->second + "\r\nEND\r\n";
        ++pending.hits;
      }
    }
    InputArena& arena = runner_.filling().input();
    arena.reuse();
    std::memcpy(arena.room(), input.data(), input.size());
    arena.take(input.size());
    EXPECT_TRUE(columns->add_stream(0, input.size()));
    pending.bytes = input.size();
    pending.gets = gets;
    pending_[runner_.next()] = pending;
    runner_.submit_frames(plan, true);
    return true;
  }
  // Whether the device has located the oldest's keys, which it does rightly. between: called before the answer ends.
  template <class F>
  bool answer_located(F between) {
    const Pending& pending = pending_[runner_.oldest()];
    const Batch& batch = runner_.begin_answer();
    EXPECT_FALSE(runner_.begin_frames());
    EXPECT_EQ(runner_.located(), nullptr);
    const bool is_located = runner_.begin_located();
    if (is_located) {
      LocatedKeys* const keys = runner_.located();
      keys->go_to(batch.input().begin());
      EXPECT_TRUE(keys->find(batch.input().begin(), false));
      EXPECT_EQ(keys->behind() - keys->next(), pending.gets);
      const auto hits = std::count_if(keys->next(), keys->behind(), [&](const LocatedKey& key) {
        return key.location != no_location &&
               context_.shared.heap.at(key.location)->has_key({keys->key_of(key), key.key_bytes});
      });
      EXPECT_EQ(hits, pending.hits);
    }
    between();
    runner_.end_answer();
    EXPECT_EQ(runner_.located(), nullptr);
    return is_located;
  }
  // Whether the device has answered the oldest, which it does rightly.
  bool answer() {
    const Pending& pending = pending_[runner_.oldest()];
    const Batch& batch = runner_.begin_answer();
    EXPECT_EQ(batch.size(), 0u);
    const bool is_answered = runner_.begin_frames();
    if (is_answered) {
      FrameRun run;
      EXPECT_FALSE(runner_.take_frames(0, 0, run)) << "input that follows may begin right there";
      EXPECT_TRUE(runner_.take_frames(0, UINT64_MAX, run));
      EXPECT_EQ(run.bytes, pending.bytes);
      EXPECT_EQ(run.keys, pending.gets);
      EXPECT_EQ(run.hits, pending.hits);
      EXPECT_EQ(std::string_view(runner_.reply(run), run.reply_bytes), pending.replies);
    }
    runner_.end_answer();
    return is_answered;
  }
  // Until the device answers, as when the machine is busy.
  void expect_answered() {
    bool is_answered = false;
    for (int i = 0; i < 20'000 && !is_answered; ++i) {
      if (!submit(0, 50)) std::this_thread::sleep_for(1ms);
      while (runner_.in_flight() != 0) is_answered = answer();
    }
    EXPECT_TRUE(is_answered);
  }

 private:
  struct Pending {
    std::string replies;
    std::size_t bytes = 0;
    unsigned gets = 0, hits = 0;
  };
  Context context_;
  Runner runner_;
  const std::map<std::string, std::string>& model_;
  std::vector<Pending> pending_;
};

void store_keys(Rig& rig) {
  rig.wait_until_it_serves();
  for (unsigned i = 0; i < stored_keys; ++i)
    rig.add(Opcode::store, "key" + std::to_string(i), std::string(i % 60, 'v') + std::to_string(i));
  rig.finish();
}

TEST(FramesFlight, SharesLaunchesWithSearches) {
  const auto device = make_sim_device({.latency = 200us});
  Rig rig(*device, options_with_frames(2ms), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig);
  worker.expect_answered();
  std::mt19937_64 random(1);
  const std::uint64_t launches = rig.scheduler.counters().launches.get();
  unsigned answered = 0, batches = 0;
  for (unsigned round = 0; round < 50; ++round) {
    for (; worker.runner().can_fill(); ++batches) {
      ASSERT_TRUE(worker.submit(round * 7, 1 + round));
      for (unsigned i = 0; i < Rig::batch_queries; ++i) rig.add(Opcode::get, "key" + std::to_string(random() % 110));
    }
    while (worker.runner().in_flight() != 0) answered += worker.answer() ? 1u : 0u;
    rig.finish();
  }
  EXPECT_GT(answered, 0u);
  EXPECT_LT(rig.scheduler.counters().launches.get() - launches, 2 * batches) << "some launches had several parts";
}

// They are gathered while a cycle lasts.
TEST(FramesFlight, MayBeMoreThanALaunchTakes) {
  constexpr unsigned flights = frame_parts_max + 8;
  const auto device = make_sim_device();
  Rig rig(*device, options_with_frames(3ms), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig, flights);
  bool all = false;
  for (int round = 0; round < 200 && !all; ++round) {
    while (worker.runner().can_fill()) ASSERT_TRUE(worker.submit(worker.runner().in_flight(), 5));
    all = true;
    while (worker.runner().in_flight() != 0) all = worker.answer() && all;
  }
  EXPECT_TRUE(all);
}

TEST(FramesFlight, OfALostDeviceIsTheHosts) {
  for (unsigned when = 0; when < 20; ++when) {
    const auto device = make_sim_device({.latency = 20us});
    Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20, images_on_device());
    store_keys(rig);
    FramesWorker worker(rig, 8);
    std::mt19937_64 random(when);
    for (unsigned i = 0; i <= when % 8; ++i) ASSERT_TRUE(worker.submit(i, 10));
    rig.run(random, Rig::batch_queries + when, stored_keys, 0);
    if (when % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(10 * when));
    device->lose();
    while (worker.runner().in_flight() != 0) worker.answer();
    rig.run(random, 2 * Rig::batch_queries, stored_keys, 0);
    rig.finish();
    for (int i = 0; i < 20'000 && rig.schedulers.serves(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(worker.submit(0, 1));
  }
}

TEST(FramesFlight, OfARefusedOrFailedLaunchIsTheHosts) {
  const auto device = make_sim_device();
  Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig);
  worker.expect_answered();
  unsigned left = 0;
  for (unsigned i = 0; i < 60; ++i) {
    if (i % 2 == 0) {
      device->refuse(1 + i / 2 % 5);
    } else {
      device->fail(1 + i / 2 % 5);
    }
    while (worker.runner().can_fill() && worker.submit(i, 20)) {
      for (int n = 0; n < 50; ++n) rig.add(Opcode::get, "key" + std::to_string(n));
      rig.submit();
      if (!rig.batches.can_fill()) rig.answer();
    }
    while (worker.runner().in_flight() != 0) left += worker.answer() ? 0u : 1u;
    rig.finish();
    device->refuse(0);
    device->fail(0);
    worker.expect_answered();
  }
  EXPECT_FALSE(device->lost());
  EXPECT_GT(left, 0u);
}

// The columns are the device's until it is done; what it has written by then is nothing.
TEST(FramesFlight, IsTheHostsWhenItIsLetGo) {
  const auto device = make_sim_device();
  Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig);
  for (int round = 0; round < 20; ++round) {
    worker.expect_answered();
    if (round % 2 == 0) device->hang();
    ASSERT_TRUE(worker.submit(0, 20));
    ASSERT_TRUE(worker.submit(20, 20));
    if (round % 2 != 0) {
      while (!worker.runner().oldest_is_done()) std::this_thread::yield();
    }
    worker.runner().let_go();
    if (round % 2 == 0) device->resume();
    EXPECT_FALSE(worker.answer());
    EXPECT_FALSE(worker.answer());
  }
  worker.expect_answered();
}

// --- keys that are located

// Without copies of items, beside searches; and beside answers where there are copies.
TEST(LocatedFlight, SharesLaunchesWithOthers) {
  for (const bool has_images : {false, true}) {
    const auto device = make_sim_device();
    Rig rig(*device, options_with_frames(2ms), 1 << 14, std::uint64_t{32} << 20,
            has_images ? images_on_device() : ReplicaOptions{});
    store_keys(rig);
    FramesWorker worker(rig);
    unsigned located = 0, answered = 0;
    for (unsigned round = 0; round < 2000 && (located < 20 || (has_images && answered < 10)); ++round) {
      const bool asks = has_images && worker.submit(round, 9);
      while (worker.runner().can_fill() && worker.submit(round, 50, plan_located)) continue;
      for (int n = 0; n < 50; ++n) rig.add(Opcode::get, "key" + std::to_string(n));
      if (asks) answered += worker.answer() ? 1u : 0u;
      while (worker.runner().in_flight() != 0) located += worker.answer_located([] {}) ? 1u : 0u;
      rig.finish();
    }
    EXPECT_GE(located, 20u);
    EXPECT_GE(answered, has_images ? 10u : 0u);
  }
}

// Its epoch protects the items: without it nothing follows their locations.
TEST(LocatedFlight, HasNoKeysWhenItIsLetGo) {
  const auto device = make_sim_device();
  Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20);
  store_keys(rig);
  FramesWorker worker(rig);
  worker.runner().set_patience(1h);
  const auto in_one = [&](auto between) {
    while (!worker.submit(0, 20, plan_located)) std::this_thread::sleep_for(1ms);
    return worker.answer_located(between);
  };
  ASSERT_TRUE(in_one([&] { EXPECT_NE(worker.runner().located(), nullptr); }));
  ASSERT_TRUE(in_one([&] {
    worker.runner().let_go();
    EXPECT_EQ(worker.runner().located(), nullptr);
  }));
  ASSERT_TRUE(in_one([&] {
    worker.runner().end_answers();
    EXPECT_EQ(worker.runner().located(), nullptr);
  }));
  // Before it has landed.
  while (!worker.submit(0, 20, plan_located)) std::this_thread::sleep_for(1ms);
  worker.runner().let_go();
  EXPECT_FALSE(worker.answer_located([&] { EXPECT_EQ(worker.runner().located(), nullptr); }));
}

// A launch of answers of both kinds of which a step is refused: what was queued is not given back before it has ended,
// and what comes back is right.
TEST(LocatedFlight, OfHalfARefusedLaunchIsTheHosts) {
  const auto device = make_sim_device({.latency = 200us});
  Rig rig(*device, options_with_frames(2ms), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig, 8);
  worker.expect_answered();
  unsigned left = 0, answered = 0, located = 0;
  for (unsigned i = 0; i < 200; ++i) {
    device->refuse(1 + i % 7);
    unsigned asked = 0;
    for (; asked < 8 && worker.submit(i + asked, 20, asked % 2 == 0 ? plan_frames : plan_located); ++asked) continue;
    for (unsigned n = 0; n < asked; ++n) {
      const bool is_right = n % 2 == 0 ? worker.answer() : worker.answer_located([] {});
      (n % 2 == 0 ? answered : located) += is_right ? 1u : 0u;
      left += is_right ? 0u : 1u;
    }
    device->refuse(0);
    if (i % 20 == 0) worker.expect_answered();
  }
  EXPECT_FALSE(device->lost());
  EXPECT_GT(left, 0u);
  EXPECT_GT(answered, 0u);
  EXPECT_GT(located, 0u);
}

TEST(LocatedFlight, OfALostOrRefusingDeviceIsTheHosts) {
  for (unsigned when = 0; when < 20; ++when) {
    const auto device = make_sim_device({.latency = 20us});
    Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20);
    store_keys(rig);
    FramesWorker worker(rig, 8);
    while (!rig.schedulers.serves()) std::this_thread::sleep_for(1ms);
    for (unsigned i = 0; i <= when % 8; ++i) ASSERT_TRUE(worker.submit(i, 10, plan_located));
    if (when % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(10 * when));
    if (when % 2 == 0) {
      device->lose();
    } else {
      device->refuse(1 + when / 2 % 3);
    }
    while (worker.runner().in_flight() != 0) worker.answer_located([] {});
    if (when % 2 != 0) continue;
    for (int i = 0; i < 20'000 && rig.schedulers.serves(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(worker.submit(0, 1, plan_located));
  }
}

// Sets rewrite items in place while drains copy them. A value is of one version, and no older than an answered set.
TEST(FramesFlight, RepliesWithValuesThatAreRewritten) {
  constexpr std::size_t value_bytes = 224;  // the longer, the more often a copy meets a set
  constexpr unsigned keys = 4, answers_wanted = TD_THREAD_SANITIZER ? 1000 : 12'000;
  const auto device = make_sim_device();
  ReplicaOptions options = images_on_device();
  options.images.item_bytes = image_granules_limit * granule_bytes;
  Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20, options);
  store_keys(rig);
  for (unsigned i = 0; i < keys; ++i) rig.add(Opcode::store, "key" + std::to_string(i), std::string(value_bytes, 'a'));
  rig.finish();
  FramesWorker worker(rig);
  worker.expect_answered();
  std::atomic<bool> stop{false};
  std::atomic<unsigned> rounds{0};  // all keys have at least this round's value
  const auto value_of = [](unsigned round) { return std::string(value_bytes, static_cast<char>('a' + round % 26)); };
  std::uint64_t rewritten = 0;
  std::thread writer([&] {
    Context context(rig.shared);
    Batch batch(keys);
    Comparing comparing;
    const std::vector<Expected> stored(keys, {Status::stored, {}});
    std::vector<std::string> names;
    for (unsigned i = 0; i < keys; ++i) names.push_back("key" + std::to_string(i));
    for (unsigned round = 1; !stop; ++round) {
      const std::string value = value_of(round);
      for (const std::string& name : names) {
        batch.next() = query_of(Opcode::store, name, value);
        batch.commit();
      }
      comparing.expected = &stored;
      OneByOne(context).run(batch, comparing);
      batch.clear();
      rounds.store(round, std::memory_order_release);
    }
    rewritten = context.counters.total_items.get();
  });
  Runner& runner = worker.runner();
  unsigned answers = 0;
  for (int i = 0; i < 200'000 && answers < answers_wanted && !testing::Test::HasFailure(); ++i) {
    const unsigned before = rounds.load(std::memory_order_acquire);
    if (!worker.submit(0, keys)) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    runner.begin_answer();
    FrameRun run;
    if (runner.begin_frames() && runner.take_frames(0, UINT64_MAX, run)) {
      ++answers;
      const unsigned after = rounds.load(std::memory_order_acquire) + 1;
      std::string_view reply(runner.reply(run), run.reply_bytes);
      for (std::size_t at; (at = reply.find("\r\n")) != std::string_view::npos && reply.starts_with("VALUE");) {
        const std::string_view value = reply.substr(at + 2, value_bytes);
        EXPECT_EQ(value, std::string(value_bytes, value[0]));
        bool is_current = after - before >= 26;
        for (unsigned round = before; round <= after && !is_current; ++round) is_current = value == value_of(round);
        EXPECT_TRUE(is_current) << value[0] << ", rounds " << before << " to " << after;
        reply.remove_prefix(at + 2 + value_bytes + std::string_view("\r\nEND\r\n").size());
      }
    }
    runner.end_answer();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(answers, answers_wanted);
  EXPECT_GT(rewritten, 0u);
}

// The key is stored when the device has been told what has changed: its miss is not the answer.
TEST(FramesFlight, HasMissesConfirmed) {
  const auto device = make_sim_device();
  Rig rig(*device, options_with_frames(), 1 << 14, std::uint64_t{32} << 20, images_on_device());
  store_keys(rig);
  FramesWorker worker(rig);
  Runner& runner = worker.runner();
  Context other(rig.shared);
  unsigned cut = 0;
  for (unsigned round = 0; round < 20 && cut == 0; ++round) {
    worker.expect_answered();
    device->hang();
    const Counter& launches = rig.scheduler.counters().launches;
    const std::uint64_t before = launches.get();
    ASSERT_TRUE(worker.submit(stored_keys - 1, 2));  // one that is there, and one that is not
    for (int i = 0; i < 20'000 && launches.get() == before; ++i) std::this_thread::sleep_for(1ms);
    const std::string key = "key" + std::to_string(stored_keys);
    Batch batch(1);
    batch.next() = query_of(Opcode::store, key);
    batch.commit();
    const std::vector<Expected> stored(1, {Status::stored, {}});
    Comparing writer;
    writer.expected = &stored;
    OneByOne(other).run(batch, writer);
    device->resume();
    runner.begin_answer();
    FrameRun run;
    if (runner.begin_frames()) {
      ++cut;
      ASSERT_TRUE(runner.take_frames(0, UINT64_MAX, run));
      EXPECT_EQ(run.requests, 1);
      EXPECT_EQ(run.hits, 1);
      EXPECT_FALSE(runner.take_frames(run.bytes, UINT64_MAX, run));
      EXPECT_GE(worker.context().counters.device_rechecks.get(), 1u);
    }
    runner.end_answer();
    rig.add(Opcode::remove, key);
    rig.expected[rig.batches.next()].back().status = Status::removed;
    rig.finish();
  }
  EXPECT_EQ(cut, 1u);
}

}  // namespace
}  // namespace tandem
