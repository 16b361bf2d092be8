// The instructions of a function on x86-64, counted by single steps, as not every machine lets its counters be read.
#pragma once
#if defined(__x86_64__)
#include <csignal>
#include <cstdint>

namespace tandem {

// By signal: the trap flag is set.
inline std::uint64_t steps_taken = 0;
inline void take_step(int /*signal*/) { ++steps_taken; }

template <class F>
std::uint64_t steps_of(F f) {
  struct sigaction action{};
  action.sa_handler = take_step;
  sigaction(SIGTRAP, &action, nullptr);
  steps_taken = 0;
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  f();
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  return steps_taken;
}

}  // namespace tandem
#endif
