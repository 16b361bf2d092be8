// Killed after any instruction: a child process runs one operation, one machine instruction at a time, and after each
// the file is examined as the next process would find it. Random kills (restart_crash_test.cpp) miss states that last
// for a nanosecond: with "old -> dead, new -> live" 1,000 of them found nothing, and this test fails at once.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
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
#include "embedded/restart_step_fixture.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t limit_bytes = FileObserver::memory_bytes;

Options options_for(const std::string& path) {
  Options o;
  o.memory_bytes = limit_bytes;
  o.huge_pages = false;
  o.evict = false;
  o.memory_file = path;
  return o;
}

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

std::optional<std::string> recovered_state(const FileObserver& observer, bool clears) {
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
  std::uint64_t steps = 0;
  step_by_step(
      file.path(),
      [&](auto trace) {
        auto* const store = new Store(options_for(file.path()));
        store->set("other", "here");
        c.prepare(*store);
        trace();
        c.operation(*store);
      },
      [&](const FileObserver& observer) { return recovered_state(observer, c.name == "clear"); },
      [&](const std::optional<std::string>& value) { return c.allowed.contains(value); }, c.after, steps);
  if (IsSkipped()) return;
  EXPECT_GT(steps, 100u);
#endif
}

INSTANTIATE_TEST_SUITE_P(Operations, RestartStep, testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace tandem
