// The store in your own process: single operations, batches, compare-and-set, counters, iteration, threads.
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tandem/store.hpp>

namespace {

int failures = 0;

void check(bool ok, const char* what) {
  std::printf("%-58s %s\n", what, ok ? "ok" : "WRONG");
  if (!ok) ++failures;
}

}  // namespace

int main() {
  tandem::Store store({.memory_bytes = std::uint64_t{64} << 20});

  check(store.set("answer", "42", {.ttl_s = 60}) == tandem::Code::stored, "set with a time to live");
  check(store.get("answer") == "42", "get");
  check(!store.get("question"), "get of an absent key");

  tandem::Value value;
  store.get("answer", value);
  store.set("answer", "43");
  check(store.compare_and_set("answer", "44", value.cas) == tandem::Code::exists, "compare-and-set notices the change");

  store.set("visits", "0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store] {
      for (int i = 0; i < 1000; ++i) store.increment("visits");
    });
  }
  for (std::thread& thread : threads) thread.join();
  check(store.get("visits") == "4000", "4 threads x 1000 increments");

  // Batches overlap the cache misses of their keys.
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("item" + std::to_string(i));
  std::vector<tandem::Request> requests;
  for (const std::string& name : names) requests.push_back({.action = tandem::Action::set, .key = name, .value = name});
  std::size_t stored = 0;
  store.execute(requests, [&](std::size_t, const tandem::Reply& r) { stored += r.code == tandem::Code::stored; });
  check(stored == names.size(), "a batch of 1000 sets");

  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::size_t equal = 0;
  store.get_batch(
      keys, [&](std::size_t i, const tandem::Reply& r) { equal += r.code == tandem::Code::hit && r.value == keys[i]; });
  check(equal == keys.size(), "a batch of 1000 gets");

  // The store may leave the comparison of keys to its caller; this helper compares, and asks again where they differ.
  std::size_t checked = 0;
  store.get_batch_checked(keys, [&](std::size_t i, const tandem::Reply& r) { checked += r.key() == keys[i]; });
  check(checked == keys.size(), "a batch of 1000 gets whose keys the caller compares");

  std::size_t seen = 0;
  store.for_each([&](std::string_view, const tandem::Reply&) { ++seen; });
  check(seen == store.stats().items && seen == names.size() + 2, "iteration sees every item");

  store.clear();
  check(!store.get("answer"), "clear");
  return failures == 0 ? 0 : 1;
}
