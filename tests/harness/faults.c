// Preloaded into a server by the tests: fails allocations, mappings, threads and calls for blocks of a file, shortens
// input and output and moves the wall clock, as the first words of the file $FAULTS say, which the test changes while the
// server runs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
  _Atomic int64_t fail_from;    // allocations before the first that fails; negative: none fails
  _Atomic int64_t fail_count;   // how many fail then
  _Atomic int64_t failed;       // that did
  _Atomic int64_t io;           // of 100 calls, how many are interrupted, empty or short
  _Atomic int64_t io_faults;    // that were
  _Atomic uint64_t state;       // of the random numbers
  _Atomic int64_t wall_ahead_ms;  // of the real one
  _Atomic int64_t bytes_min;      // smaller allocations do not count, and do not fail
  // The same three for what asks the system for address space, memory or a thread: mmap, mremap, mprotect, madvise,
  // pthread_create. Those of glibc itself (malloc's, a thread's stack) are not seen.
  _Atomic int64_t map_from;
  _Atomic int64_t map_count;
  _Atomic int64_t map_failed;
  _Atomic int64_t blocks_error;  // errno of calls that give a file blocks; 0: they do as always
  _Atomic int64_t punch_error;   // and of those that take some: these are taken all the same
  _Atomic int64_t disk_failed;   // calls for blocks that did
  _Atomic int64_t live_bytes, live_blocks;  // that were allocated and not freed
  // errno that tells of pages that could not be written to a disk, of sync_file_range and of fsync; 0: as always
  _Atomic int64_t write_error, fsync_error;
  _Atomic int64_t io_faults_of[6];  // by enum call
};

enum call { RECEIVE, SEND, WAIT, ACCEPT, RECEIVE_MANY, SEND_MANY };

static struct faults* faults;

__attribute__((constructor(101))) static void begin(void) {
  const char* const path = getenv("FAULTS");
  const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const at = mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);  // faults == NULL
  close(fd);
  if (at != MAP_FAILED) faults = at;
}

static int is_turn(_Atomic int64_t* from, const _Atomic int64_t* count, _Atomic int64_t* failed, int error) {
  if (*from < -*count) return 0;
  const int64_t left = atomic_fetch_sub(from, 1);
  if (left > 0 || left <= -*count) return 0;
  atomic_fetch_add(failed, 1);
  errno = error;
  return 1;
}

static int fails(size_t bytes) {
  if (faults == NULL || (int64_t)bytes < faults->bytes_min) return 0;
  return is_turn(&faults->fail_from, &faults->fail_count, &faults->failed, ENOMEM);
}

static int map_fails(int error) {
  return faults != NULL && is_turn(&faults->map_from, &faults->map_count, &faults->map_failed, error);
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static void* counted(void* block) {
  if (faults == NULL || block == NULL) return block;
  atomic_fetch_add(&faults->live_bytes, (int64_t)malloc_usable_size(block));
  atomic_fetch_add(&faults->live_blocks, 1);
  return block;
}
static void uncount(void* block) {
  if (faults == NULL || block == NULL) return;
  atomic_fetch_sub(&faults->live_bytes, (int64_t)malloc_usable_size(block));
  atomic_fetch_sub(&faults->live_blocks, 1);
}

void* malloc(size_t bytes) { return fails(bytes) ? NULL : counted(__libc_malloc(bytes)); }
void* calloc(size_t n, size_t bytes) { return fails(n * bytes) ? NULL : counted(__libc_calloc(n, bytes)); }
void* memalign(size_t to, size_t bytes) { return fails(bytes) ? NULL : counted(__libc_memalign(to, bytes)); }
void* aligned_alloc(size_t to, size_t bytes) { return memalign(to, bytes); }
int posix_memalign(void** out, size_t to, size_t bytes) {
  void* const block = memalign(to, bytes);
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}
void* realloc(void* old, size_t bytes) {
  if (fails(bytes)) return NULL;
  uncount(old);
  void* const block = __libc_realloc(old, bytes);
  counted(block == NULL && bytes != 0 ? old : block);  // where it failed the old one is still there
  return block;
}
void free(void* block) {
  uncount(block);
  __libc_free(block);
}

static uint64_t draw(void) {  // splitmix64
  uint64_t z = atomic_fetch_add(&faults->state, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Whether this call is to be interrupted, empty or short.
static int fails_now(enum call call) {
  if (faults == NULL || (int64_t)(draw() % 100) >= faults->io) return 0;
  atomic_fetch_add(&faults->io_faults, 1);
  atomic_fetch_add(&faults->io_faults_of[call], 1);
  return 1;
}

// How much of a transfer may happen: all of it, less (of what is sent), or -1 with errno set. A read of a stream is short
// only when there is no more (epoll(7) lets edge-triggered readers rely on it), so it is interrupted, never shortened:
// that clients do.
static ptrdiff_t allowed(size_t bytes, int may_be_short) {
  if (bytes == 0 || !fails_now(may_be_short ? SEND : RECEIVE)) return (ptrdiff_t)bytes;
  if (!may_be_short || draw() % 3 == 0) {
    errno = EINTR;
    return -1;
  }
  return (ptrdiff_t)(1 + draw() % (bytes < 64 ? bytes : 64));
}

typedef long (*syscall_function)(long, ...);
static long direct(long number, long a, long b, long c, long d, long e, long f) {
  static _Atomic(syscall_function) real;
  syscall_function call = real;
  if (call == NULL) real = call = (syscall_function)dlsym(RTLD_NEXT, "syscall");
  return call(number, a, b, c, d, e, f);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (map_fails(ENOMEM)) return MAP_FAILED;
  return (void*)direct(SYS_mmap, (long)at, (long)bytes, protection, flags, fd, offset);
}
int mprotect(void* at, size_t bytes, int protection) {
  return map_fails(ENOMEM) ? -1 : (int)direct(SYS_mprotect, (long)at, (long)bytes, protection, 0, 0, 0);
}
int madvise(void* at, size_t bytes, int advice) {
  return map_fails(ENOMEM) ? -1 : (int)direct(SYS_madvise, (long)at, (long)bytes, advice, 0, 0, 0);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  typedef int (*function)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (map_fails(EAGAIN)) return EAGAIN;
  return ((function)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}

static int disk_error(int64_t error) {
  if (error != 0) atomic_fetch_add(&faults->disk_failed, 1);
  return (int)error;
}
int posix_fallocate(int fd, off_t at, off_t bytes) {
  const int error = disk_error(faults == NULL ? 0 : faults->blocks_error);
  if (error != 0) return error;
  return direct(SYS_fallocate, fd, 0, at, bytes, 0, 0) == 0 ? 0 : errno;
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
  const int result = (int)direct(SYS_fallocate, fd, mode, at, bytes, 0, 0);
  const int error = disk_error(faults == NULL ? 0 : faults->punch_error);
  if (error == 0) return result;
  errno = error;
  return -1;
}

int fsync(int fd) {
  const int result = (int)direct(SYS_fsync, fd, 0, 0, 0, 0, 0);
  if (faults == NULL || faults->fsync_error == 0) return result;
  errno = (int)faults->fsync_error;
  return -1;
}
int sync_file_range(int fd, off_t at, off_t bytes, unsigned flags) {
  const int result = (int)direct(SYS_sync_file_range, fd, at, bytes, (long)flags, 0, 0);
  if (faults == NULL || faults->write_error == 0 || flags != SYNC_FILE_RANGE_WAIT_BEFORE) return result;
  errno = (int)faults->write_error;
  return -1;
}

// The server receives and sends with it (src/net/system_calls.hpp).
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long v[6];
  for (int i = 0; i < 6; ++i) v[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_recvfrom || number == SYS_sendto) {
    const ptrdiff_t bytes = allowed((size_t)v[2], number == SYS_sendto);
    if (bytes < 0) return -1;
    v[2] = bytes;
  }
  return direct(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

static long vectored(long number, int fd, const struct iovec* parts, size_t count, int flags) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += parts[i].iov_len;
  const ptrdiff_t most = allowed(bytes, number == SYS_sendmsg);
  if (most < 0) return -1;
  struct iovec fewer[1024];
  size_t used = 0;
  for (size_t left = (size_t)most; used < count && used < 1024 && left != 0; ++used) {
    fewer[used] = parts[used];
    if (fewer[used].iov_len > left) fewer[used].iov_len = left;
    left -= fewer[used].iov_len;
  }
  if (number == SYS_readv) return direct(SYS_readv, fd, (long)fewer, (long)used, 0, 0, 0);
  struct msghdr message = {.msg_iov = fewer, .msg_iovlen = used};
  return direct(SYS_sendmsg, fd, (long)&message, flags, 0, 0, 0);
}

ssize_t readv(int fd, const struct iovec* parts, int count) { return vectored(SYS_readv, fd, parts, (size_t)count, 0); }
ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  if (message->msg_name != NULL) return direct(SYS_sendmsg, fd, (long)message, flags, 0, 0, 0);
  return vectored(SYS_sendmsg, fd, message->msg_iov, message->msg_iovlen, flags);
}

int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout_ms) {
  if (fails_now(WAIT)) {
    errno = EINTR;
    return -1;
  }
  return (int)direct(SYS_epoll_pwait, epoll, (long)events, most, timeout_ms, 0, 8);
}

int accept4(int fd, struct sockaddr* address, socklen_t* bytes, int flags) {
  if (fails_now(ACCEPT)) {
    errno = draw() % 2 == 0 ? EINTR : ECONNABORTED;
    return -1;
  }
  return (int)direct(SYS_accept4, fd, (long)address, (long)bytes, flags, 0, 0);
}

int recvmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags, struct timespec* timeout) {
  if (fails_now(RECEIVE_MANY)) {
    errno = EINTR;
    return -1;
  }
  return (int)direct(SYS_recvmmsg, fd, (long)messages, count, flags, (long)timeout, 0);
}

int sendmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags) {
  if (fails_now(SEND_MANY)) {
    if (count > 1 && draw() % 2 == 0) return (int)direct(SYS_sendmmsg, fd, (long)messages, 1, flags, 0, 0);
    errno = EINTR;
    return -1;
  }
  return (int)direct(SYS_sendmmsg, fd, (long)messages, count, flags, 0, 0);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)direct(SYS_clock_gettime, clock, (long)now, 0, 0, 0, 0);
  if (faults != NULL && result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    const int64_t ns_per_s = 1000000000;
    const int64_t ns = now->tv_sec * ns_per_s + now->tv_nsec + faults->wall_ahead_ms * 1000000;
    now->tv_sec = ns / ns_per_s;
    now->tv_nsec = ns % ns_per_s;
  }
  return result;
}

time_t time(time_t* out) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
