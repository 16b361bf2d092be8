// A process that is killed in the middle of the lane's set leaves the old value or the new one, wherever it was
// (restart_step_test.cpp does the same for the general path).
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "embedded/restart_step_fixture.hpp"
#include "engine/lane_harness.hpp"

namespace tandem {
namespace {

using std::string;

EngineOptions engine_options_for(const string& path) {
  EngineOptions o = codec::ReplyHarness::small_engine();
  o.memory_bytes = FileObserver::memory_bytes;
  o.evict = false;
  o.memory_file = path;
  return o;
}

string set_of_key(const string& value) {
  return "set key 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

struct Step {
  string name, before, after;
};

struct LaneRestart : testing::TestWithParam<Step> {};

std::optional<string> recovered(const FileObserver& observer) {
  const TemporaryFile copy;
  observer.copy_to(copy.path());
  codec::ReplyHarness store({}, engine_options_for(copy.path()));
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
  std::uint64_t steps = 0;
  step_by_step(
      file.path(),
      [&](auto trace) {
        auto* const store = new codec::ReplyHarness({}, engine_options_for(file.path()));
        Lane lane(store->context(), store->options());
        store->exchange(set_of_key(step.before));
        const string input = set_of_key(step.after);
        const auto copy = padded(input);
        Parser parser(store->options(), store->engine().shared().clock);
        LaneSegment segment{.begin = copy.get(), .end = copy.get() + input.size(), .parser = &parser, .binary = false};
        Output out;
        out.reserve(1 << 16);
        trace();
        lane.run({&segment, 1}, out, 1 << 20);
        if (segment.queries != 1) _exit(1);
      },
      recovered, [&](const std::optional<string>& value) { return value == step.before || value == step.after; },
      step.after, steps);
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
