// What a compiler calls for each access to memory with -fsanitize=thread: here each atomic operation is a point of the
// schedule, and nothing else is looked at.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simulation.hpp"

using tandem::schedules::point;
using tandem::schedules::random_below;
using tandem::schedules::self;

#define TD_HERE __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void*, std::size_t) {}
void __tsan_write_range(void*, std::size_t) {}
void* __tsan_memcpy(void* to, const void* from, std::size_t n) { return std::memcpy(to, from, n); }
void* __tsan_memmove(void* to, const void* from, std::size_t n) { return std::memmove(to, from, n); }
void* __tsan_memset(void* at, int byte, std::size_t n) { return std::memset(at, byte, n); }

#define TD_PLAIN(bytes)                        \
  void __tsan_read##bytes(void*) {}            \
  void __tsan_write##bytes(void*) {}           \
  void __tsan_read_write##bytes(void*) {}      \
  void __tsan_unaligned_read##bytes(void*) {}  \
  void __tsan_unaligned_write##bytes(void*) {} \
  void __tsan_unaligned_read_write##bytes(void*) {}
TD_PLAIN(1)
TD_PLAIN(2)
TD_PLAIN(4)
TD_PLAIN(8)
TD_PLAIN(16)

#define TD_UPDATE(bits, name)                                                                     \
  TD_WORD(bits) __tsan_atomic##bits##_##name(volatile TD_WORD(bits) * at, TD_WORD(bits) v, int) { \
    point(TD_HERE);                                                                               \
    return __atomic_##name(at, v, __ATOMIC_SEQ_CST);                                              \
  }
#define TD_WORD(bits) std::uint##bits##_t
// A weak exchange may fail for no reason; it does, now and then.
#define TD_ATOMIC(bits)                                                                                            \
  TD_WORD(bits) __tsan_atomic##bits##_load(const volatile TD_WORD(bits) * at, int) {                               \
    point(TD_HERE);                                                                                                \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                                \
  void __tsan_atomic##bits##_store(volatile TD_WORD(bits) * at, TD_WORD(bits) v, int) {                            \
    point(TD_HERE);                                                                                                \
    __atomic_store_n(at, v, __ATOMIC_SEQ_CST);                                                                     \
  }                                                                                                                \
  TD_WORD(bits) __tsan_atomic##bits##_exchange(volatile TD_WORD(bits) * at, TD_WORD(bits) v, int) {                \
    point(TD_HERE);                                                                                                \
    return __atomic_exchange_n(at, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                                \
  TD_UPDATE(bits, fetch_add)                                                                                       \
  TD_UPDATE(bits, fetch_sub)                                                                                       \
  TD_UPDATE(bits, fetch_and)                                                                                       \
  TD_UPDATE(bits, fetch_or)                                                                                        \
  TD_UPDATE(bits, fetch_xor)                                                                                       \
  TD_UPDATE(bits, fetch_nand)                                                                                      \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile TD_WORD(bits) * at, TD_WORD(bits) * expected,         \
                                                    TD_WORD(bits) v, int, int) {                                   \
    point(TD_HERE);                                                                                                \
    return __atomic_compare_exchange_n(at, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;        \
  }                                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile TD_WORD(bits) * at, TD_WORD(bits) * expected,           \
                                                  TD_WORD(bits) v, int, int) {                                     \
    point(TD_HERE);                                                                                                \
    if (self != nullptr && random_below(256) == 0) {                                                               \
      *expected = __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                           \
      return 0;                                                                                                    \
    }                                                                                                              \
    return __atomic_compare_exchange_n(at, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;        \
  }                                                                                                                \
  TD_WORD(bits)                                                                                                    \
  __tsan_atomic##bits##_compare_exchange_val(volatile TD_WORD(bits) * at, TD_WORD(bits) expected, TD_WORD(bits) v, \
                                             int, int) {                                                           \
    point(TD_HERE);                                                                                                \
    __atomic_compare_exchange_n(at, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                      \
    return expected;                                                                                               \
  }
TD_ATOMIC(8)
TD_ATOMIC(16)
TD_ATOMIC(32)
TD_ATOMIC(64)

void __tsan_atomic_thread_fence(int) {
  point(TD_HERE);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
