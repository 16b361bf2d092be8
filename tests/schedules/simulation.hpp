// One thread at a time, chosen by a seed: what a program's threads do to each other becomes a function of that seed.
//
// Threads of the program are real ones, of which one has the turn. It keeps it until it has done so many atomic
// operations as the seed says, or waits: the program is compiled with -fsanitize=thread. Its calls for each atomic
// operation come here (tsan_calls.cpp) and not to ThreadSanitizer; locks, condition variables, sleeps, clocks and
// threads come here by the names they have in libc (libc_calls.cpp). Time is the simulation's: an operation takes some
// nanoseconds, and when all wait it is the next moment for which a thread waits. Some that lose their turn are
// kept from it for long: the pause of a thread that the system has preempted between two instructions.
//
// Between operations memory is sequentially consistent: orders that only a processor makes, by delaying stores, are not
// seen here; ThreadSanitizer and the model checker (tests/model) look for those.
//
// After "Finding and Reproducing Heisenbugs in Concurrent Programs" (CHESS, OSDI 2008) and "A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs" (PCT, ASPLOS 2010): we switch at random with a rate that the seed chooses,
// not at d points, since spinning threads would never let go of a priority.
#pragma once
#include <pthread.h>

#include <cstdint>
#include <cstdio>

namespace tandem::schedules {

inline constexpr std::int64_t never_ns = INT64_MAX;

// Exit codes of a process that cannot go on.
inline constexpr int deadlock_exit = 70, endless_exit = 71;

struct Report {
  std::uint64_t points = 0;    // atomic operations and calls at which another thread could have had its turn
  std::uint64_t switches = 0;  // at which one had
  std::uint64_t trace = 0;     // a hash of all turns: equal runs have equal ones
  std::int64_t now_ns = 0;
};

// The calling thread becomes the first of the simulation; those that it starts, and theirs, belong to it too.
// points_max: more are an endless loop, and end the process with `endless_exit`. trace: a line for each turn, or
// nullptr. REQUIRES: this process has no other thread, and had no simulation before.
void begin(std::uint64_t seed, std::uint64_t points_max, std::FILE* trace);
// The process is to end abruptly after a number of points below `within`, that the seed chooses: `last_words`, which
// does not return, is called on whatever thread has the turn, as one outside the simulation.
void die_within(std::uint64_t within, void (*last_words)());
void die_never();
// Threads outside have the simulation's date, which goes on from its time now_ns. REQUIRES: this process has no other
// thread.
void keep_date(std::int64_t now_ns) noexcept;
// Of a simulation that goes on.
Report so_far();
// REQUIRES: all other threads have ended.
Report end();

// --- for the calls of libc and of ThreadSanitizer. All of them are for threads of the simulation alone.

struct Thread;
extern thread_local Thread* self;  // nullptr: a thread outside

extern std::uint64_t points_left;  // to the end of the turn
void end_turn(const void* at) noexcept;
// Something that other threads can see is about to happen. at: where, for the trace.
inline void point(const void* at) noexcept {
  if (self != nullptr && --points_left == 0) end_turn(at);
}
// It waits for other threads without telling for which.
void yield(const void* at) noexcept;
std::int64_t now_ns() noexcept;
void sleep_until(std::int64_t ns, const void* at) noexcept;
// Waits for wake(address), or the time; false: the time came. Also returns for no reason, as condition variables may.
bool wait(const void* address, std::int64_t until_ns, const void* at) noexcept;
// Wakes so many that wait for that.
void wake(const void* address, int count) noexcept;
std::uint64_t random_below(std::uint64_t end) noexcept;

// A thread is made by its maker, has its first turn when it is chosen, and leaves as the last thing that it does.
Thread* make_thread() noexcept;
void enter(Thread* thread) noexcept;
void leave() noexcept;
bool has_left(const Thread* thread) noexcept;
void set_handle(Thread* thread, pthread_t handle) noexcept;
Thread* thread_of(pthread_t handle) noexcept;

}  // namespace tandem::schedules
