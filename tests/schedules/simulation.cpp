#include "simulation.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>

namespace tandem::schedules {

struct Thread {
  enum class State : std::uint8_t { absent, ready, waiting, left };
  State state = State::absent;
  unsigned number = 0;
  pthread_t handle{};
  const void* address = nullptr;     // what it waits for
  std::int64_t until_ns = never_ns;  // or until then
  bool timed_out = false;
  bool yielded = false;            // in this round
  std::uint64_t frozen_until = 0;  // a count of points
  std::atomic<std::uint32_t> turn{0};
};

thread_local Thread* self = nullptr;
std::uint64_t points_left = 0;

namespace {

constexpr unsigned threads_max = 64;
constexpr std::int64_t point_ns = 5;
constexpr std::int64_t yield_ns = 200;
constexpr unsigned idle_rounds_max = 16;
constexpr std::int64_t idle_step_max_ns = 500'000;

// splitmix64: small, and the same everywhere.
struct Random {
  std::uint64_t state = 0;
  std::uint64_t operator()() noexcept {
    std::uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t end) noexcept {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>((*this)()) * end >> 64);
  }
};

// Only the thread with the turn touches it; handing over is a release and an acquire.
struct Simulation {
  Random random;
  Thread threads[threads_max];
  unsigned count = 0;
  std::uint64_t turn_mean = 0;      // points of a turn, about
  std::uint64_t freeze_one_in = 0;  // turns that end in a long pause
  std::uint64_t freeze_max = 0;     // points
  std::uint64_t turn_points = 0;    // of this turn
  std::uint64_t points_max = 0;
  std::int64_t ns = 1'000'000'000;
  unsigned idle_rounds = 0;  // in which all ready threads yielded, since one slept, woke another or left
  Report report;
  std::uint64_t dies_at = UINT64_MAX;  // points
  void (*last_words)() = nullptr;
  std::FILE* trace = nullptr;
} sim;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) noexcept {
  long result = 0;
  register long r10 __asm__("r10") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(SYS_futex), "D"(&word), "S"(operation), "d"(value), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

void await_turn(Thread& thread) noexcept {
  while (thread.turn.load(std::memory_order_acquire) == 0) futex(thread.turn, FUTEX_WAIT_PRIVATE, 0);
  thread.turn.store(0, std::memory_order_relaxed);
}

void give_turn(Thread& thread) noexcept {
  thread.turn.store(1, std::memory_order_release);
  futex(thread.turn, FUTEX_WAKE_PRIVATE, 1);
}

void new_turn() noexcept {
  // Lengths of all magnitudes around the mean: most turns short, some long.
  const std::uint64_t spread = sim.random.below(8);
  sim.turn_points = 1 + sim.random.below(spread < 5   ? sim.turn_mean
                                         : spread < 7 ? 4 * sim.turn_mean
                                                      : 16 * sim.turn_mean);
  if (sim.dies_at > sim.report.points) sim.turn_points = std::min(sim.turn_points, sim.dies_at - sim.report.points);
  points_left = sim.turn_points;
}

std::uint64_t points_now() noexcept { return sim.report.points; }

void account() noexcept {
  const std::uint64_t done = sim.turn_points - points_left;
  sim.turn_points = points_left;
  sim.report.points += done;
  sim.ns += static_cast<std::int64_t>(done) * point_ns;
}

[[noreturn]] void fail(const char* why, int code) noexcept {
  std::fprintf(stderr, "schedule: %s after %llu points\n", why, static_cast<unsigned long long>(sim.report.points));
  for (unsigned i = 0; i < sim.count; ++i) {
    const Thread& t = sim.threads[i];
    if (t.state == Thread::State::left) continue;
    std::fprintf(stderr, "  thread %u %s%s\n", i, t.state == Thread::State::waiting ? "waits" : "is ready",
                 &t == self ? ", has the turn" : "");
  }
  std::fflush(nullptr);
  _exit(code);
}

void wake_those_whose_time_has_come() noexcept {
  for (unsigned i = 0; i < sim.count; ++i) {
    Thread& t = sim.threads[i];
    if (t.state != Thread::State::waiting || t.until_ns > sim.ns) continue;
    t.state = Thread::State::ready;
    t.timed_out = true;
  }
}

std::int64_t next_time() noexcept {
  std::int64_t next = never_ns;
  for (unsigned i = 0; i < sim.count; ++i) {
    const Thread& t = sim.threads[i];
    if (t.state == Thread::State::waiting && t.until_ns < next) next = t.until_ns;
  }
  return next;
}

// A ready thread; not the one that has the turn, if it waits for other threads and another is ready.
Thread* choose(bool not_self) noexcept {
  Thread* ready[threads_max];
  unsigned count = 0;
  Thread* thaws_first = nullptr;
  for (unsigned i = 0; i < sim.count; ++i) {
    Thread& t = sim.threads[i];
    if (t.state != Thread::State::ready || (not_self && &t == self)) continue;
    if (t.frozen_until > points_now()) {
      if (thaws_first == nullptr || t.frozen_until < thaws_first->frozen_until) thaws_first = &t;
      continue;
    }
    ready[count++] = &t;
  }
  if (count != 0) return ready[sim.random.below(count)];
  if (thaws_first != nullptr) thaws_first->frozen_until = 0;
  return thaws_first;
}

void write_turn(const Thread& next, const void* at) noexcept {
  if (sim.trace == nullptr) return;
  Dl_info info{};
  const bool known = dladdr(at, &info) != 0 && info.dli_fbase != nullptr;
  std::fprintf(
      sim.trace, "%llu %lld %u -> %u %s+0x%llx\n", static_cast<unsigned long long>(sim.report.points),
      static_cast<long long>(sim.ns), self == nullptr ? 0 : self->number, next.number, known ? info.dli_fname : "?",
      known ? static_cast<unsigned long long>(static_cast<const char*>(at) - static_cast<const char*>(info.dli_fbase))
            : 0ull);
}

// Hands the turn on; `self` may be ready or not. Returns when it is its turn again, unless it has left.
void hand_over(bool not_self, const void* at) noexcept {
  if (sim.report.points >= sim.dies_at) {
    self = nullptr;
    sim.last_words();
  }
  if (sim.report.points > sim.points_max) fail("no end", endless_exit);
  Thread* next = nullptr;
  for (;;) {
    wake_those_whose_time_has_come();
    next = choose(not_self);
    if (next == nullptr && not_self) next = choose(false);
    if (next != nullptr) break;
    const std::int64_t time = next_time();
    if (time == never_ns) fail("all threads wait for ever", deadlock_exit);
    sim.ns = time;
  }
  new_turn();
  sim.report.trace = (sim.report.trace ^ (sim.report.points << 8 | next->number)) * 0x9E3779B97F4A7C15ull;
  sim.report.trace ^= sim.report.trace >> 29;
  if (next == self) return;
  ++sim.report.switches;
  write_turn(*next, at);
  Thread* const me = self;
  const bool leaves = me->state == Thread::State::left;
  give_turn(*next);
  if (!leaves) await_turn(*me);
}

}  // namespace

void begin(std::uint64_t seed, std::uint64_t points_max, std::FILE* trace) {
  sim.random.state = seed * 0xD1342543DE82EF95ull + 1;
  constexpr std::uint64_t means[] = {3, 10, 30, 100, 300, 1000};
  sim.turn_mean = means[sim.random.below(6)];
  constexpr std::uint64_t freezes[] = {0, 200, 50, 15};
  sim.freeze_one_in = freezes[sim.random.below(4)];
  sim.freeze_max = std::uint64_t{100} << sim.random.below(10);
  sim.points_max = points_max;
  sim.trace = trace;
  self = make_thread();
  new_turn();
}

void die_within(std::uint64_t within, void (*last_words)()) {
  sim.last_words = last_words;
  sim.dies_at = sim.report.points + 1 + sim.random.below(within);
}

void die_never() { sim.dies_at = UINT64_MAX; }

Report so_far() {
  sim.report.now_ns = sim.ns;
  return sim.report;
}

Report end() {
  account();
  for (unsigned i = 0; i < sim.count; ++i) {
    if (&sim.threads[i] != self && sim.threads[i].state != Thread::State::left) fail("a thread is left over", 72);
  }
  self = nullptr;
  return so_far();
}

void end_turn(const void* at) noexcept {
  account();
  if (sim.freeze_one_in != 0 && sim.random.below(sim.freeze_one_in) == 0)
    self->frozen_until = points_now() + 1 + sim.random.below(sim.freeze_max);
  hand_over(false, at);
}

// All ready threads only wait for the rest: those wait for a time, or all for time itself.
static void pass_time() noexcept {
  const unsigned doubled = std::min(sim.idle_rounds - idle_rounds_max, 12u);
  const std::int64_t step = std::min(yield_ns << doubled, idle_step_max_ns), next = next_time();
  sim.ns = next > sim.ns && next - sim.ns < step ? next : sim.ns + step;
}

void yield(const void* at) noexcept {
  account();
  ++sim.report.points;
  sim.ns += yield_ns;
  self->yielded = true;
  bool all_yielded = true;
  for (unsigned i = 0; i < sim.count; ++i)
    all_yielded &= sim.threads[i].state != Thread::State::ready || sim.threads[i].yielded;
  if (all_yielded) {
    for (unsigned i = 0; i < sim.count; ++i) sim.threads[i].yielded = false;
    if (++sim.idle_rounds > idle_rounds_max) pass_time();
  }
  hand_over(true, at);
}

std::int64_t now_ns() noexcept {
  account();
  return sim.ns;
}

void sleep_until(std::int64_t ns, const void* at) noexcept {
  account();
  while (sim.ns < ns) static_cast<void>(wait(self, ns, at));
}

bool wait(const void* address, std::int64_t until_ns, const void* at) noexcept {
  account();
  ++sim.report.points;
  if (sim.random.below(64) == 0) {
    hand_over(false, at);
    return true;
  }
  self->state = Thread::State::waiting;
  self->address = address;
  self->until_ns = until_ns;
  self->timed_out = false;
  hand_over(true, at);
  self->address = nullptr;
  self->until_ns = never_ns;
  sim.idle_rounds = 0;
  return !self->timed_out;
}

void wake(const void* address, int count) noexcept {
  account();
  sim.idle_rounds = 0;
  for (; count > 0; --count) {
    Thread* waiting[threads_max];
    unsigned found = 0;
    for (unsigned i = 0; i < sim.count; ++i) {
      Thread& t = sim.threads[i];
      if (t.state == Thread::State::waiting && t.address == address) waiting[found++] = &t;
    }
    if (found == 0) return;
    Thread& t = *waiting[sim.random.below(found)];
    t.state = Thread::State::ready;
    t.until_ns = never_ns;
  }
}

std::uint64_t random_below(std::uint64_t end) noexcept { return sim.random.below(end); }

Thread* make_thread() noexcept {
  for (unsigned i = 0; i < threads_max; ++i) {
    Thread& t = sim.threads[i];
    if (t.state != Thread::State::absent) continue;
    t.state = Thread::State::ready;
    t.number = i;
    t.handle = pthread_self();
    if (i >= sim.count) sim.count = i + 1;
    return &t;
  }
  fail("too many threads", 72);
}

void enter(Thread* thread) noexcept {
  await_turn(*thread);
  self = thread;
}

void leave() noexcept {
  account();
  Thread* const me = self;
  me->state = Thread::State::left;
  wake(me, INT_MAX);
  sim.idle_rounds = 0;
  hand_over(true, nullptr);
  self = nullptr;
}

bool has_left(const Thread* thread) noexcept { return thread->state == Thread::State::left; }
void set_handle(Thread* thread, pthread_t handle) noexcept { thread->handle = handle; }
Thread* thread_of(pthread_t handle) noexcept {
  // A handle may have been another's, that has left.
  for (unsigned i = sim.count; i-- > 0;) {
    Thread& t = sim.threads[i];
    if (t.state != Thread::State::absent && pthread_equal(t.handle, handle)) return &t;
  }
  return nullptr;
}

}  // namespace tandem::schedules
