// Time through restarts, with clocks that the test advances: whatever the phases of the system's two clocks, an item
// with a time to live of n seconds lives n - 1 to n + 1 of them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "embedded/restart_fixture.hpp"
#include "engine/engine_fixture.hpp"

namespace tandem {
namespace {

constexpr std::int64_t ms = 1'000'000;

// System clocks that a test advances while the engine's thread reads them.
class MovedTime final : public TimeSource {
 public:
  explicit MovedTime(std::int64_t phase_ms) : unix_ahead_ns_(1'700'000'000'000 * ms + phase_ms * ms) {}
  SystemTime now() const noexcept override {
    const std::int64_t passed_ns = passed_ns_.load(std::memory_order_relaxed);
    return {.monotonic_ns = 1'000'000 * ms + passed_ns, .unix_ns = unix_ahead_ns_ + passed_ns};
  }
  void pass(std::int64_t passed_ms) { passed_ns_.fetch_add(passed_ms * ms, std::memory_order_relaxed); }
  std::int64_t passed_ms() const { return passed_ns_.load(std::memory_order_relaxed) / ms; }

 private:
  const std::int64_t unix_ahead_ns_;
  std::atomic<std::int64_t> passed_ns_{0};
};

struct RestartTime : RestartTest {
  static constexpr std::int64_t ttl_s = 3;

  static Status run(Engine& engine, Opcode opcode, std::uint32_t expiry_s) {
    const Engine::ContextPtr context = engine.make_context();
    Batch batch(1);
    Query q{};
    q.opcode = opcode;
    q.key = "key";
    q.key_bytes = 3;
    q.value = "value";
    q.value_bytes = 5;
    q.expiry_s = expiry_s;
    return run_alone(*context, batch, q);
  }

  // Processes that each run for run_ms, with away_ms between them: how long the first one's item can be read.
  std::int64_t lifetime_ms(std::int64_t phase_ms, std::int64_t run_ms, std::int64_t away_ms, bool killed) {
    std::remove(file.path().c_str());
    MovedTime system(phase_ms);
    EngineOptions o = engine_options(8 * mib);
    o.huge_pages = false;
    o.time = &system;
    std::int64_t stored_ms = 0;
    for (int process = 0; process < 200; ++process) {
      StoreTime at_the_last_tick{};
      {
        Engine engine(o);
        EXPECT_EQ(engine.restart().has_value(), process != 0) << said;
        if (process == 0) {
          system.pass(phase_ms / 2);  // any moment of the store's own second
          engine.maintain();
          stored_ms = system.passed_ms();
          EXPECT_EQ(run(engine, Opcode::store, engine.shared().clock.expiry_s(ttl_s)), Status::stored);
        }
        if (run(engine, Opcode::get, 0) != Status::hit) return system.passed_ms() - stored_ms;
        system.pass(run_ms / 2);
        engine.maintain();
        at_the_last_tick = saved_time();
        system.pass(run_ms - run_ms / 2);
      }
      if (killed) {
        put(saved_time_at(), at_the_last_tick);
        pretend_killed();
      }
      system.pass(away_ms);
    }
    ADD_FAILURE() << "lives for ever";
    return 0;
  }
};

TEST_F(RestartTime, ItemsLiveAsLongWhateverThePhase) {
  for (const auto& [run_ms, away_ms] : {std::pair{300, 10}, {10, 300}, {200, 200}}) {
    for (std::int64_t phase_ms = 0; phase_ms < 1000; phase_ms += 125) {
      for (const bool killed : {false, true}) {
        const std::int64_t lived_ms = lifetime_ms(phase_ms, run_ms, away_ms, killed);
        EXPECT_GE(lived_ms, (ttl_s - 1) * 1000) << phase_ms << " " << run_ms << " " << away_ms << " " << killed;
        EXPECT_LE(lived_ms, (ttl_s + 1) * 1000) << phase_ms << " " << run_ms << " " << away_ms << " " << killed;
      }
    }
  }
}

// A starting store's second is not that of the file's last process, nor of the beginning of its own recovery.
TEST_F(RestartTime, TimeGoesOnWhileAStoreStarts) {
  MovedTime system(0);
  EngineOptions o = engine_options(8 * mib);
  o.time = &system;
  {
    Engine engine(o);
    EXPECT_EQ(run(engine, Opcode::store, Clock::never), Status::stored);
  }
  o.log = [&](std::string_view) { system.pass(5000); };  // the last step of recovery
  Engine engine(o);
  ASSERT_TRUE(engine.restart());
  EXPECT_EQ(engine.shared().clock.now_s(), 2u + 5);
}

// Killed between any two words of a save, the file has the previous moment or the new one.
TEST(SavedTime, IsWholeAtAnyMoment) {
  SavedTime saved;
  EXPECT_EQ(saved.load().store_ns, 0);
  for (std::int64_t i = 1; i < 5; ++i) {
    const std::uint64_t current = saved.current.load();
    const StoreTime before = saved.load();
    saved.store({i * 7, i * 9});
    EXPECT_EQ(saved.load().store_ns, i * 7);
    EXPECT_EQ(saved.load().unix_ns, i * 9);
    // All of the save except its last word.
    SavedTime unfinished;
    unfinished.current = current;
    for (int m : {0, 1}) {
      unfinished.moments[m].store_ns = saved.moments[m].store_ns.load();
      unfinished.moments[m].unix_ns = saved.moments[m].unix_ns.load();
    }
    EXPECT_EQ(unfinished.load().store_ns, before.store_ns);
    EXPECT_EQ(unfinished.load().unix_ns, before.unix_ns);
  }
}

}  // namespace
}  // namespace tandem
