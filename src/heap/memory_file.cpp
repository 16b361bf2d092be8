#include "heap/memory_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "heap/bus_error.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t header_bytes = 4096;

void fill_header(FileHeader& h, const SizeClasses& classes) {
  h.magic = FileHeader::magic_now;
  h.version = FileHeader::version_now;
  h.class_count = classes.count();
  h.page_bytes = page_bytes;
  h.granule_bytes = granule_bytes;
  for (std::uint32_t c = 0; c < classes.count(); ++c) h.slot_bytes[c] = classes[static_cast<SizeClass>(c)].slot_bytes;
  h.layout_hash = XXH3_64bits(&h, offsetof(FileHeader, layout_hash));
}

// Two words that differ after each boot; zeros where the system does not provide them.
void read_boot_id(std::uint64_t (&id)[2]) {
  id[0] = id[1] = 0;
  char text[64] = {};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, text, sizeof text);
  close(fd);
  if (got <= 0) return;
  const XXH128_hash_t hash = XXH3_128bits(text, static_cast<std::size_t>(got));
  id[0] = hash.low64 | 1;
  id[1] = hash.high64;
}

// Limits that no store reaches.
bool is_possible(const SavedState& s) {
  // Ids that wrap would be below the mark of a flush. This leaves enough for 30 hours of ten million stores a second.
  constexpr std::uint64_t cas_max = cas_limit - (std::uint64_t{1} << 40);
  const std::uint64_t cas = s.cas_reserved.load(std::memory_order_relaxed);
  const StoreTime time = s.clock.load();
  return cas != 0 && cas <= cas_max && saved::FlushCas::get(s.flush.load(std::memory_order_relaxed)) <= cas &&
         time.store_ns >= 0 && time.unix_ns >= 0;
}

bool is_same_boot(const std::uint64_t (&file)[2]) {
  std::uint64_t now[2];
  read_boot_id(now);
  return now[0] != 0 && now[0] == file[0] && now[1] == file[1];
}

// posix_fallocate() returns its error; EINTR means retry.
bool give_blocks(int fd, std::uint64_t at, std::uint64_t bytes) {
  int error = 0;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(bytes));
  } while (error == EINTR);
  errno = error;
  return error == 0;
}

// The memory files that this process has open. The system's lock does not tell which process holds it.
struct OpenFiles {
  static OpenFiles& all() {
    static OpenFiles* const files = new OpenFiles;  // stores may outlive objects of static duration
    return *files;
  }
  bool has(const struct stat& info) {
    const std::lock_guard lock(mutex);
    return std::ranges::find(ids, std::pair(info.st_dev, info.st_ino)) != ids.end();
  }
  void add(const struct stat& info) {
    const std::lock_guard lock(mutex);
    ids.emplace_back(info.st_dev, info.st_ino);
  }
  void remove(const std::pair<dev_t, ino_t>& id) {
    const std::lock_guard lock(mutex);
    std::erase(ids, id);
  }
  std::mutex mutex;
  std::vector<std::pair<dev_t, ino_t>> ids;
};

// The error that the system reports once for pages that it could not write since the last query. The range is past the
// end of every file, so this does not wait.
int write_error(int fd) {
  constexpr off_t behind = off_t{1} << 60;
  if (sync_file_range(fd, behind, page_bytes, SYNC_FILE_RANGE_WAIT_BEFORE) == 0) return 0;
  // These are errors of the call itself; all other errors are from the disk or its file system.
  for (const int of_call : {EBADF, EINVAL, ENOSYS, EOPNOTSUPP, EPERM, ESPIPE}) {
    if (errno == of_call) return 0;
  }
  return errno;
}

std::uint64_t offset_of(PageId page) { return MemoryFile::pages_at + std::uint64_t{page - 1} * page_bytes; }

}  // namespace

MemoryFile::MemoryFile(const std::string& path, const SizeClasses& classes) : path_(path) {
  FileHeader wanted{};
  fill_header(wanted, classes);
  try {
    open_locked();
    judge(wanted);
    // Of a file that is ours: another one keeps its mode.
    if (fchmod(fd_, S_IRUSR | S_IWUSR) != 0) fail_errno("cannot be protected");
    if (!has_items()) make_empty(wanted);
    if (!give_blocks(fd_, 0, pages_at)) fail_errno("no room for it");
    void* const at = mmap(nullptr, pages_at, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) fail_errno("cannot be mapped");
    metadata_ = static_cast<char*>(at);
    guard_against_bus_errors(*this);
    find_page_end();
    // Before anything in it changes, and in this order: a file in use always has the id of its system.
    std::uint64_t boot_id[2];
    read_boot_id(boot_id);
    std::copy_n(boot_id, 2, header()->boot_id);
    header()->state.store(FileHeader::in_use, std::memory_order_release);
    if (msync(metadata_, header_bytes, MS_SYNC) != 0) fail_errno("cannot be written");
  } catch (...) {
    unguard(*this);
    if (metadata_ != nullptr) munmap(metadata_, pages_at);
    close_locked();
    throw;
  }
}

MemoryFile::~MemoryFile() {
  unguard(*this);
  munmap(metadata_, pages_at);
  close_locked();
}

void MemoryFile::close_locked() noexcept {
  if (is_locked_) OpenFiles::all().remove(id_);
  if (fd_ >= 0) close(fd_);
}

void MemoryFile::open_locked() {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (fd_ < 0) fail_errno("cannot be opened");
  struct stat info{};
  if (fstat(fd_, &info) != 0) fail_errno("cannot be looked at");
  if (!S_ISREG(info.st_mode)) fail("is not a regular file");
  // A user with write access could change values, or shorten the file under the server.
  if (info.st_uid != geteuid()) fail("belongs to another user");
  // A killed process holds the lock until the system has released its memory.
  constexpr auto patience = std::chrono::milliseconds(1500);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail_errno("cannot be locked");
    if (OpenFiles::all().has(info)) fail("is in use by another store of this process");
    if (std::chrono::steady_clock::now() > deadline) fail("is in use by another process");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  OpenFiles::all().add(info);
  id_ = {info.st_dev, info.st_ino};
  is_locked_ = true;
}

// Determines by its header what the file is. Changes nothing.
void MemoryFile::judge(const FileHeader& wanted) {
  // Always queried: the error is reported only once and is irrelevant for a file that is emptied.
  const bool is_unwritten = write_error(fd_) != 0;
  static_assert(header_bytes >= sizeof(FileHeader));
  alignas(FileHeader) char bytes[header_bytes] = {};
  std::size_t size = 0;
  while (size < header_bytes) {
    const ssize_t got = pread(fd_, bytes + size, header_bytes - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot be read");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  struct stat info{};
  if (fstat(fd_, &info) != 0) fail_errno("cannot be looked at");
  // Short and of zeros: its process was killed before it wrote the header.
  if (static_cast<std::uint64_t>(info.st_size) <= pages_at &&
      std::all_of(bytes, bytes + size, [](char c) { return c == 0; }))
    return;
  const auto& h = *reinterpret_cast<const FileHeader*>(bytes);
  if (h.magic != FileHeader::magic_now) {
    // memcached's own has no mark, but a second file beside it.
    if (access((path_ + ".meta").c_str(), F_OK) != 0) {
      fail("is not a memory file of Tandem's; choose another name");
    }
    notice_ = "is a memory file of memcached's";
    is_memcacheds_ = true;
  } else if (size < header_bytes) {
    notice_ = "is cut short";
  } else if (h.version != wanted.version) {
    notice_ = "was written by another version of Tandem (format " + std::to_string(h.version) + "; this one has " +
              std::to_string(wanted.version) + ")";
  } else if (h.layout_hash != XXH3_64bits(bytes, offsetof(FileHeader, layout_hash))) {
    notice_ = "has a damaged header";
  } else if (h.layout_hash != wanted.layout_hash) {
    notice_ = "has other size classes (options -f, -n, -I)";
  } else if (!is_possible(h.saved)) {
    notice_ = "has nearly used up its CAS ids, or a header whose numbers cannot be";
  } else if (const std::uint64_t state = h.state.load(std::memory_order_relaxed); state == FileHeader::closed) {
    previous_end_ = PreviousEnd::closed;
    return;
  } else if (state == FileHeader::spoiled || (state == FileHeader::in_use && is_unwritten)) {
    notice_ = "could not all be written to its disk";
  } else if (state == FileHeader::unreadable) {
    notice_ = "could not all be read back";
  } else if (state != FileHeader::in_use) {
    notice_ = "has a damaged header: no such state";
  } else if (!is_same_boot(h.boot_id)) {
    notice_ = "was in use when the machine stopped";
  } else {
    previous_end_ = PreviousEnd::killed;
    return;
  }
  previous_end_ = PreviousEnd::unusable;
}

void MemoryFile::make_empty(const FileHeader& wanted) {
  // It tells what the file held. memcached removes it at its start, too: left there, a later memcached would take what
  // it finds in the file for that.
  if (is_memcacheds_) unlink((path_ + ".meta").c_str());
  if (ftruncate(fd_, 0) != 0 || ftruncate(fd_, pages_at) != 0) fail_errno("cannot be emptied");
  if (!give_blocks(fd_, 0, pages_at)) fail_errno("no room for it");
  alignas(FileHeader) char bytes[header_bytes] = {};
  std::memcpy(bytes, &wanted, offsetof(FileHeader, state));
  auto& h = *reinterpret_cast<FileHeader*>(bytes);
  h.state.store(FileHeader::in_use, std::memory_order_relaxed);
  read_boot_id(h.boot_id);
  h.saved.cas_reserved.store(1, std::memory_order_relaxed);
  // In one write, so that a file has a whole header or none.
  if (pwrite(fd_, bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) fail_errno("cannot be written");
}

void MemoryFile::find_page_end() {
  struct stat info{};
  if (fstat(fd_, &info) != 0) fail_errno("cannot be looked at");
  const std::uint64_t bytes = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t pages = bytes > pages_at ? (bytes - pages_at) / page_bytes : 0;
  PageId end = static_cast<PageId>(std::min<std::uint64_t>(pages, page_limit_max - 1)) + 1;
  while (end > 1 && tag::state_of(tags()[end - 1].load(std::memory_order_relaxed)) == PageState::free) --end;
  page_end_ = end;
}

bool MemoryFile::map_pages(void* at, std::uint64_t pages) noexcept {
  const std::uint64_t bytes = pages_at + pages * page_bytes;
  // Past this limit ftruncate() sends a signal instead of an error.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  struct stat info{};
  if (fstat(fd_, &info) != 0) return false;
  if (static_cast<std::uint64_t>(info.st_size) < bytes && ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return false;
  if (mmap(at, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_,
           static_cast<off_t>(pages_at)) == MAP_FAILED) {
    return false;
  }
  pages_bytes_.store(pages * page_bytes, std::memory_order_relaxed);
  pages_.store(static_cast<const char*>(at), std::memory_order_release);
  return true;
}

bool MemoryFile::has(const void* at) const noexcept {
  const auto is_in = [at](const char* begin, std::uint64_t bytes) {
    return begin != nullptr && reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(begin) < bytes;
  };
  const char* const pages = pages_.load(std::memory_order_acquire);  // before their size is read
  return is_in(metadata_, pages_at) || is_in(pages, pages_bytes_.load(std::memory_order_relaxed));
}

void MemoryFile::mark_unreadable() const noexcept {
  // A shortened file would get an incomplete header, and no longer be recognised as Tandem's.
  struct stat info{};
  if (fstat(fd_, &info) != 0 || static_cast<std::uint64_t>(info.st_size) < header_bytes) return;
  const std::uint64_t state = FileHeader::unreadable;
  [[maybe_unused]] const ssize_t written = pwrite(fd_, &state, sizeof state, offsetof(FileHeader, state));
  sync_file_range(fd_, 0, header_bytes, SYNC_FILE_RANGE_WRITE);
}

bool MemoryFile::allocate(PageId first, PageId end) const noexcept {
  return give_blocks(fd_, offset_of(first), std::uint64_t{end - first} * page_bytes);
}

bool MemoryFile::discard(PageId first, PageId end) const noexcept {
  int result = 0;
  do {
    result = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_of(first)),
                       static_cast<off_t>(std::uint64_t{end - first} * page_bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

RedoRecord* MemoryFile::take_redo() noexcept {
  const std::lock_guard lock(redo_mutex_);
  for (std::uint32_t i = 0; i < redo_records; ++i) {
    if (redo_taken_[i]) continue;
    redo_taken_[i] = true;
    return redo() + i;
  }
  return nullptr;
}

void MemoryFile::give_redo(RedoRecord* record) noexcept {
  const std::lock_guard lock(redo_mutex_);
  redo_taken_[static_cast<std::size_t>(record - redo())] = false;
}

int MemoryFile::lost_writes() noexcept {
  const int error = write_error(fd_);
  if (error == 0) return 0;
  header()->state.store(FileHeader::spoiled, std::memory_order_release);
  sync_file_range(fd_, 0, header_bytes, SYNC_FILE_RANGE_WRITE);  // starts write-back, so that the disk has it soon
  return error;
}

void MemoryFile::close_in_order() noexcept {
  // First all items, then the word that declares them complete.
  const std::uint64_t state = header()->state.load(std::memory_order_relaxed);
  const bool is_whole = fsync(fd_) == 0 && state != FileHeader::spoiled && state != FileHeader::unreadable;
  header()->state.store(is_whole ? FileHeader::closed : FileHeader::spoiled, std::memory_order_release);
  msync(metadata_, header_bytes, MS_SYNC);
}

void MemoryFile::fail(const std::string& why) const { throw MemoryFileError("memory file " + path_ + ": " + why); }

void MemoryFile::fail_errno(const std::string& what) const {
  const int error = errno;
  fail(what + ": " + std::generic_category().message(error));
}

}  // namespace tandem
