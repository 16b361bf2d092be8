// Killed after any instruction: a child process runs one operation a machine instruction at a time, and after each the
// file is looked at as the next process would find it. Random kills (restart_crash_test.cpp) do not find what lasts for
// a nanosecond: with "old -> dead, new -> live" 1,000 of them found nothing, and this fails at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/platform.hpp"
#include "heap/memory_file.hpp"
#include "store/restart_fixture.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t limit_bytes = 8 << 20;

Options options_for(const std::string& path) {
  Options o;
  o.memory_bytes = limit_bytes;
  o.huge_pages = false;
  o.evict = false;
  o.memory_file = path;
  return o;
}

// The live items of a file, read as they are.
class Observer {
 public:
  explicit Observer(const std::string& path) : classes_(1.25, granule_bytes, std::uint64_t{1} << 20) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    EXPECT_EQ(fstat(fd, &info), 0);
    bytes_ = static_cast<std::uint64_t>(info.st_size);
    void* const at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(at, MAP_FAILED);
    at_ = static_cast<const char*>(at);
    close(fd);
  }
  ~Observer() { munmap(const_cast<char*>(at_), bytes_); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  PageId page_end() const {
    PageId end = 1;
    for (PageId p = 1; p <= limit_bytes / page_bytes; ++p) {
      if (tag_of(p) != 0) end = p + 1;
    }
    return end;
  }

  // Every word that recovery looks at: when two moments agree in them, so do their recoveries.
  std::uint64_t print() const {
    std::uint64_t hash = 0;
    const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29); };
    const auto& saved = reinterpret_cast<const FileHeader*>(at_)->saved;
    for (const auto* word : {&saved.flush, &saved.flush_due}) add(word->load());
    add(saved.cas_reserved.load());
    const auto* const redo = reinterpret_cast<const RedoRecord*>(at_ + MemoryFile::redo_at);
    for (std::uint32_t r = 0; r < MemoryFile::redo_records; ++r) {
      if (redo[r].location.load() == 0) continue;
      for (const std::uint64_t word : {redo[r].location.load(), redo[r].state, redo[r].fixed}) add(word);
      for (std::uint32_t i = 0; i < sizeof redo[r].value; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, redo[r].value + i, 8);
        add(word);
      }
    }
    for (PageId p = 1; p < page_end(); ++p) {
      add(tag_of(p));
      if (tag::state_of(tag_of(p)) != PageState::open) continue;
      const SlotShape& shape = classes_[tag::class_of(tag_of(p))];
      for (std::uint32_t slot = 0; slot < shape.slots_per_page; ++slot) {
        const auto* const item = reinterpret_cast<const Item*>(page(p) + std::uint64_t{slot} * shape.slot_bytes);
        const std::uint64_t state = item->state_acquire();
        if (Item::state_of(state) != ItemState::live && !is_rewriting(state)) continue;
        add(state & ~(word::AccessS::mask | word::Accessed::mask | word::Fetched::mask));
        add(item->fixed());
        for (std::uint32_t i = 16; i + 8 <= item->value_offset() + item->small_value_bytes(); i += 8) {
          std::uint64_t word = 0;
          std::memcpy(&word, item->bytes() + i, 8);
          add(word);
        }
      }
    }
    return hash;
  }

  void copy_to(const std::string& path) const {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::uint64_t bytes = MemoryFile::pages_at + (page_end() - 1) * page_bytes;
    EXPECT_EQ(write(fd, at_, bytes), static_cast<ssize_t>(bytes));
    close(fd);
  }

 private:
  std::uint16_t tag_of(PageId p) const {
    return reinterpret_cast<const std::atomic<std::uint16_t>*>(at_ + MemoryFile::tags_at)[p].load();
  }
  const char* page(PageId p) const { return at_ + MemoryFile::pages_at + (p - 1) * page_bytes; }

  const SizeClasses classes_;
  const char* at_ = nullptr;
  std::uint64_t bytes_ = 0;
};

struct Case {
  std::string name;
  std::function<void(Store&)> operation;
  std::set<std::optional<std::string>> allowed;  // values of "key" at any moment
  std::optional<std::string> after;
  std::function<void(Store&)> prepare = [](Store& s) { s.set("key", "old"); };
};

std::vector<Case> cases() {
  const std::string large(3000, 'x');
  return {
      {"set_in_place", [](Store& s) { s.set("key", "new"); }, {"old", "new"}, "new"},
      {"long_set_in_place",
       [](Store& s) { s.set("key", std::string(300, 'b')); },
       {std::string(300, 'a'), std::string(300, 'b')},
       std::string(300, 'b'),
       [](Store& s) { s.set("key", std::string(300, 'a')); }},
      {"set_beside", [](Store& s) { s.set("key", "newer"); }, {"old", "newer"}, "newer"},
      {"set_of_another_class", [large](Store& s) { s.set("key", large); }, {"old", large}, large},
      {"append", [](Store& s) { s.append("key", "er"); }, {"old", "older"}, "older"},
      {"compare_and_set",
       [](Store& s) {
         Value v;
         s.get("key", v);
         const Request r{.action = Action::compare_and_set, .key = "key", .value = "new", .cas = v.cas};
         s.execute({&r, 1}, [](std::size_t, const Reply&) {});
       },
       {"old", "new"},
       "new"},
      {"touch", [](Store& s) { s.touch("key", 1000); }, {"old"}, "old"},
      {"remove", [](Store& s) { s.remove("key"); }, {"old", std::nullopt}, std::nullopt},
      {"remove_and_add",
       [](Store& s) {
         s.remove("key");
         s.add("key", "new");
       },
       {"old", std::nullopt, "new"},
       "new"},
      {"clear", [](Store& s) { s.clear(); }, {"old", std::nullopt}, std::nullopt},
      {"increment", [](Store& s) { s.increment("key", 5); }, {"7", "12"}, "12", [](Store& s) { s.set("key", "7"); }},
      {"first_of_all", [](Store& s) { s.set("key", "new"); }, {std::nullopt, "new"}, "new", [](Store&) {}},
  };
}

struct RestartStep : testing::TestWithParam<Case> {};

std::optional<std::string> recovered(const Observer& observer, bool clears) {
  const TemporaryFile copy;
  observer.copy_to(copy.path());
  Store store(options_for(copy.path()));
  Value value;
  if (!clears) {
    EXPECT_EQ(store.get("other"), "here");
  }
  std::uint64_t cas_next = 0;
  const bool hit = store.get("key", value) == Code::hit;
  const Request r{.action = Action::set, .key = "next", .value = ""};
  store.execute({&r, 1}, [&](std::size_t, const Reply& reply) { cas_next = reply.cas; });
  if (hit) {
    EXPECT_GT(cas_next, value.cas);
  }
  return hit ? std::optional(value.bytes) : std::nullopt;
}

TEST_P(RestartStep, AnyMomentIsBeforeOrAfter) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "single steps never get through a load-linked, store-conditional loop";
#else
  if (TD_THREAD_SANITIZER != 0)
    GTEST_SKIP() << "one thread, step by step: ThreadSanitizer has nothing to find, and minutes to step through";
  const Case& c = GetParam();
  const TemporaryFile file;
  const pid_t pid = fork();
  if (pid == 0) {
    auto* const store = new Store(options_for(file.path()));
    store->set("other", "here");
    c.prepare(*store);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    raise(SIGSTOP);
    c.operation(*store);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "ptrace is not allowed here";
  ASSERT_TRUE(WIFSTOPPED(status));
  {
    const Observer observer(file.path());
    std::map<std::uint64_t, std::optional<std::string>> seen;  // by print
    std::uint64_t last = 0;
    std::uint64_t steps = 0;
    const auto look = [&] {
      const std::uint64_t print = observer.print();
      last = print;
      if (seen.contains(print)) return;
      const std::optional<std::string> value = recovered(observer, c.name == "clear");
      EXPECT_TRUE(c.allowed.contains(value)) << value.value_or("(nothing)") << " after " << steps << " instructions";
      seen.emplace(print, value);
    };
    look();
#if defined(TANDEM_SANITIZED)
    constexpr std::uint64_t look_every = 32;  // most instructions are the sanitizer's
#else
    constexpr std::uint64_t look_every = 1;
#endif
    for (;;) {
      ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr), 0);
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) break;
      if (++steps % look_every == 0) look();
    }
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
    look();
    EXPECT_GT(steps, 100u);
    EXPECT_EQ(seen[last], c.after);
    EXPECT_GE(seen.size(), 2u);
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
#endif
}

INSTANTIATE_TEST_SUITE_P(Operations, RestartStep, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace tandem
