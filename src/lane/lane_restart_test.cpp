// A process that is killed in the middle of the lane's set leaves the old value or the new one, wherever it was
// (restart_step_test.cpp does the same for the general path).
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "lane/lane_harness.hpp"
#include "store/restart_step_fixture.hpp"

namespace tandem {
namespace {

using std::string;

EngineOptions options_for(const string& path) {
  EngineOptions o = codec::ReplyHarness::small_engine();
  o.memory_bytes = FileObserver::memory_bytes;
  o.evict = false;
  o.memory_file = path;
  return o;
}

string set_line(const string& value) { return "set key 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n"; }

struct Step {
  string name, before, after;
};

struct LaneRestart : testing::TestWithParam<Step> {};

std::optional<string> recovered(const FileObserver& observer) {
  const TemporaryFile copy;
  observer.copy_to(copy.path());
  codec::ReplyHarness store({}, options_for(copy.path()));
  const string reply = store.exchange("get key\r\n");
  if (reply == "END\r\n") return std::nullopt;
  const std::size_t value = reply.find("\r\n") + 2;
  return reply.substr(value, reply.find("\r\nEND") - value);
}

TEST_P(LaneRestart, AnyMomentIsBeforeOrAfter) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "single steps never get through a load-linked, store-conditional loop";
#else
  if (TD_THREAD_SANITIZER != 0) GTEST_SKIP() << "one thread, step by step: ThreadSanitizer has nothing to find";
  const Step& step = GetParam();
  const TemporaryFile file;
  const pid_t pid = fork();
  if (pid == 0) {
    auto* const store = new codec::ReplyHarness({}, options_for(file.path()));
    Lane lane(store->context(), store->options());
    store->exchange(set_line(step.before));
    const string input = set_line(step.after);
    const auto copy = padded(input);
    LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .binary = false};
    Output out;
    out.reserve(1 << 16);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    raise(SIGSTOP);
    lane.run({&segment, 1}, out, 1 << 20);
    if (segment.queries != 1) _exit(1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "ptrace is not allowed here";
  ASSERT_TRUE(WIFSTOPPED(status));
  {
    const FileObserver observer(file.path());
    std::map<std::uint64_t, std::optional<string>> seen;  // by print
    std::uint64_t last = 0;
    const auto look = [&](std::uint64_t steps) {
      last = observer.print();
      if (seen.contains(last)) return;
      const std::optional<string> value = recovered(observer);
      EXPECT_TRUE(value == step.before || value == step.after)
          << value.value_or("(nothing)") << " after " << steps << " instructions";
      seen.emplace(last, value);
    };
    look(0);
    const std::uint64_t steps = step_through(pid, status, look);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) << status;
    look(steps);
    EXPECT_EQ(seen[last], step.after);
    EXPECT_GE(seen.size(), 2u);
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
#endif
}

INSTANTIATE_TEST_SUITE_P(Sets, LaneRestart,
                         testing::Values(Step{"in_place", "old", "new"},
                                         Step{"long_in_place", string(300, 'a'), string(300, 'b')},
                                         Step{"beside", "old", "newer"},
                                         Step{"of_another_class", "old", string(3000, 'x')}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace tandem
