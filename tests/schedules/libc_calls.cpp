// The calls of libc with which threads wait for each other, by the names that the program and libstdc++ call them. A
// thread outside the simulation gets libc's own.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <ctime>
#include <memory>

#include "simulation.hpp"

namespace tandem::schedules {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t unix_ns = 1'700'000'000 * second_ns;  // when the simulation's time was 0

template <class F>
F* libc(const char* name) noexcept {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

std::int64_t of(const timespec& t) noexcept { return t.tv_sec * second_ns + t.tv_nsec; }
timespec to_timespec(std::int64_t ns) noexcept { return {ns / second_ns, ns % second_ns}; }
bool is_real_time(clockid_t clock) noexcept { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }
std::int64_t until(clockid_t clock, const timespec& t) noexcept {
  return is_real_time(clock) ? of(t) - unix_ns : of(t);
}

std::int64_t dated_since_ns = 0;  // by the monotonic clock; 0: threads outside have the system's date

int lock(pthread_mutex_t* mutex, const void* at) noexcept {
  static auto* const try_lock = libc<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  point(at);
  for (;;) {
    if (const int error = try_lock(mutex); error != EBUSY) return error;
    static_cast<void>(wait(mutex, never_ns, at));
  }
}

int unlock(pthread_mutex_t* mutex, const void* at) noexcept {
  static auto* const own = libc<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  const int error = own(mutex);
  if (self != nullptr) {
    wake(mutex, INT_MAX);
    point(at);
  }
  return error;
}

int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex, std::int64_t until_ns, const void* at) noexcept {
  static auto* const own = libc<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  point(at);  // after the caller has looked, before a thread can wake it
  own(mutex);
  wake(mutex, INT_MAX);
  const bool woken = wait(condition, until_ns, at);
  lock(mutex, at);
  return woken ? 0 : ETIMEDOUT;
}

struct Start {
  void* (*run)(void*);
  void* argument;
  Thread* thread;
};

// Its destructor runs behind those of thread_local variables.
pthread_key_t leaves_key() noexcept {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, [](void*) {
      if (self != nullptr) leave();
    });
    return made;
  }();
  return key;
}

void* run_thread(void* argument) noexcept {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  enter(start->thread);
  pthread_setspecific(leaves_key(), start->thread);
  return start->run(start->argument);
}

}  // namespace

void keep_date(std::int64_t now_ns) noexcept {
  static auto* const own = libc<int(clockid_t, timespec*)>("clock_gettime");
  timespec now{};
  own(CLOCK_MONOTONIC, &now);
  dated_since_ns = of(now) - now_ns;
}

}  // namespace tandem::schedules

using namespace tandem::schedules;

#define TD_HERE __builtin_return_address(0)

// Seen by libstdc++.
#pragma GCC visibility push(default)
extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const own = libc<int(pthread_mutex_t*)>("pthread_mutex_lock");
  return self == nullptr ? own(mutex) : lock(mutex, TD_HERE);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const own = libc<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  point(TD_HERE);
  return own(mutex);
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept { return unlock(mutex, TD_HERE); }

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const own = libc<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  return self == nullptr ? own(condition, mutex) : wait_for(condition, mutex, never_ns, TD_HERE);
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* time) {
  static auto* const own = libc<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  if (self == nullptr) return own(condition, mutex, time);
  return wait_for(condition, mutex, until(CLOCK_REALTIME, *time), TD_HERE);
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* time) {
  static auto* const own =
      libc<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  if (self == nullptr) return own(condition, mutex, clock, time);
  return wait_for(condition, mutex, until(clock, *time), TD_HERE);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  static auto* const own = libc<int(pthread_cond_t*)>("pthread_cond_signal");
  if (self == nullptr) return own(condition);
  wake(condition, 1);
  point(TD_HERE);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  static auto* const own = libc<int(pthread_cond_t*)>("pthread_cond_broadcast");
  if (self == nullptr) return own(condition);
  wake(condition, INT_MAX);
  point(TD_HERE);
  return 0;
}

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  static auto* const own = libc<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (self == nullptr) return own(handle, attributes, run, argument);
  auto start = std::make_unique<Start>(Start{run, argument, make_thread()});
  const int error = own(handle, attributes, run_thread, start.get());
  if (error != 0) std::abort();  // nothing that a schedule is about
  set_handle(start.release()->thread, *handle);
  point(TD_HERE);
  return 0;
}
int pthread_join(pthread_t handle, void** result) {
  static auto* const own = libc<int(pthread_t, void**)>("pthread_join");
  if (self != nullptr) {
    Thread* const thread = thread_of(handle);
    while (thread != nullptr && !has_left(thread)) static_cast<void>(wait(thread, never_ns, TD_HERE));
  }
  return own(handle, result);
}

int sched_yield() noexcept {
  static auto* const own = libc<int()>("sched_yield");
  if (self == nullptr) return own();
  yield(TD_HERE);
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (self == nullptr) {
    const bool is_dated = dated_since_ns != 0 && is_real_time(clock);
    // Of the kernel: the vDSO reads ticks, which may be hidden.
    const auto error = static_cast<int>(syscall(SYS_clock_gettime, is_dated ? CLOCK_MONOTONIC : clock, time));
    if (is_dated) *time = to_timespec(unix_ns + of(*time) - dated_since_ns);
    return error;
  }
  *time = to_timespec(now_ns() + (is_real_time(clock) ? unix_ns : 0));
  return 0;
}
int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  *time = {t.tv_sec, t.tv_nsec / 1000};
  return 0;
}
time_t time(time_t* out) noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  if (out != nullptr) *out = t.tv_sec;
  return t.tv_sec;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static auto* const own = libc<int(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
  if (self == nullptr) return own(clock, flags, time, left);
  sleep_until((flags & TIMER_ABSTIME) != 0 ? until(clock, *time) : now_ns() + of(*time), TD_HERE);
  return 0;
}
int nanosleep(const timespec* time, timespec* left) {
  static auto* const own = libc<int(const timespec*, timespec*)>("nanosleep");
  if (self == nullptr) return own(time, left);
  sleep_until(now_ns() + of(*time), TD_HERE);
  return 0;
}

// std::atomic::wait, and function-local statics that two threads meet at.
long syscall(long number, ...) noexcept {
  long a[6];
  va_list all;
  va_start(all, number);
  for (long& one : a) one = va_arg(all, long);
  va_end(all);
  if (self != nullptr && number == SYS_futex) {
    const long operation = a[1] & FUTEX_CMD_MASK;
    const auto* const word = reinterpret_cast<const std::uint32_t*>(a[0]);
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) {
      point(TD_HERE);
      if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != static_cast<std::uint32_t>(a[2])) {
        errno = EAGAIN;
        return -1;
      }
      const auto* const limit = reinterpret_cast<const timespec*>(a[3]);
      const std::int64_t end = limit == nullptr          ? never_ns
                               : operation == FUTEX_WAIT ? now_ns() + of(*limit)
                                                         : until(CLOCK_MONOTONIC, *limit);
      if (wait(word, end, TD_HERE)) return 0;
      errno = ETIMEDOUT;
      return -1;
    }
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) {
      wake(word, static_cast<int>(a[2]));
      point(TD_HERE);
      return 0;
    }
  }
  long result = 0;
  register long r10 __asm__("r10") = a[3];
  register long r8 __asm__("r8") = a[4];
  register long r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

}  // extern "C"
#pragma GCC visibility pop
