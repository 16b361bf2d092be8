// The slab list's kernels on every kind of device: `sim` always, and each GPU of this machine.
#include "index/slab_list/slab_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "device/device_contract.hpp"
#include "index/cuckoo/index_test_support.hpp"
#include "index/slab_list/slab_index.hpp"

namespace tandem {
namespace {

// An empty slab list in device memory.
class TestedSlabs {
 public:
  TestedSlabs(Device& device, Stream& stream, std::uint32_t buckets, std::uint32_t more)
      : first_(device, buckets), more_(device, more), lock_(device, buckets), below_(device, more), free_(device, 1) {
    EXPECT_EQ(stream.zero(first_.bytes_at(), first_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(more_.bytes_at(), more_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(lock_.bytes_at(), lock_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(below_.bytes_at(), below_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(stream.zero(free_.bytes_at(), free_.bytes()), DeviceStatus::ok);
    EXPECT_EQ(finish(stream), DeviceStatus::ok);
  }
  // With so many of the further slabs.
  DeviceSlabs table(std::uint32_t more) const {
    return {first_.at(), more_.at(), lock_.at(), below_.at(), free_.at(), static_cast<std::uint32_t>(first_.count()),
            more};
  }
  DeviceSlabs table() const { return table(static_cast<std::uint32_t>(more_.count())); }

 private:
  DeviceArray<Slab> first_, more_;
  DeviceArray<std::uint32_t> lock_, below_;
  DeviceArray<SlabFree> free_;
};

class SlabKernels : public DeviceContract {
 protected:
  struct Answer {
    bool done;
    Location previous;
  };
  std::vector<Answer> change(const DeviceSlabs& table, const std::vector<CellChange>& changes) {
    const auto count = static_cast<std::uint32_t>(changes.size());
    const PinnedArray<CellChange> in = pinned(changes);
    const PinnedArray<std::uint8_t> done = pinned(std::vector<std::uint8_t>(count, 0xee));
    const PinnedArray<Location> previous = pinned(std::vector<Location>(count, 0xeeeeeeee));
    EXPECT_EQ(stream->launch(slab_change, {table, in.at(), done.at(), previous.at(), count}), DeviceStatus::ok);
    EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    std::vector<Answer> answers;
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_LE(done[i], 1);
      answers.push_back({done[i] == 1, previous[i]});
    }
    return answers;
  }
  std::vector<Location> search(const Kernel<SlabSearchArguments>& kernel, const DeviceSlabs& table,
                               const std::vector<Fingerprint>& f) {
    const auto count = static_cast<std::uint32_t>(f.size());
    const PinnedArray<Fingerprint> in = pinned(f);
    const PinnedArray<Location> out = pinned(std::vector<Location>(count, 0xeeeeeeee));
    EXPECT_EQ(stream->launch(kernel, {table, in.at(), out.at(), count}), DeviceStatus::ok);
    EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    return {out.data(), out.data() + count};
  }

  // All entries, by key word. Every key is in its own bucket's chain, once; no lock is held; a further slab is in one
  // chain, or free.
  std::map<std::uint64_t, Location> contents(const DeviceSlabs& table) {
    const auto first = download(table.first, table.buckets), more = download(table.more, table.more_count);
    const auto below = download(table.below, table.more_count);
    const SlabFree free = download(table.free, 1)[0];
    EXPECT_EQ(download(table.lock, table.buckets), std::vector<std::uint32_t>(table.buckets, 0));
    std::map<std::uint64_t, Location> all;
    std::set<std::uint64_t> further;
    for (std::uint32_t bucket = 0; bucket < table.buckets; ++bucket) {
      for (const Slab* slab = &first[bucket];; slab = &more[slab->next - 1]) {
        for (std::uint32_t i = 0; i < slab_entries; ++i) {
          if (slab->key[i] == 0) continue;
          EXPECT_TRUE(all.emplace(slab->key[i], slab->location[i]).second);
          EXPECT_EQ(SlabBuckets(table.buckets).of(fingerprint_of_slab_key(slab->key[i])), bucket);
        }
        if (slab->next == 0) break;
        EXPECT_TRUE(slab->next <= free.fresh && further.insert(slab->next).second);
        if (slab->next > more.size()) break;
      }
    }
    for (const SlabFree::Stack& stack : free.stack) {
      for (auto number = static_cast<std::uint32_t>(stack.top); number != 0; number = below[number - 1]) {
        if (number <= below.size() && further.insert(number).second) continue;
        ADD_FAILURE() << "slab " << number << " is free, and elsewhere";
        break;
      }
    }
    EXPECT_EQ(further.size(), free.fresh);
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, SlabKernels, testing::ValuesIn(device_kinds()),
                         [](const testing::TestParamInfo<DeviceKind>& kind) { return kind.param.name; });

// Runs without a GPU, too: otherwise a missing entry would show only on a machine with one.
TEST(SlabKernelEntries, AreThereWhereTheProgramIsBuiltForGpus) {
  const bool built_for_gpus = cuda_device_count().reason != "built without CUDA";
  EXPECT_EQ(slab_search.cuda != nullptr, built_for_gpus);
  EXPECT_EQ(slab_search_alone.cuda != nullptr, built_for_gpus);
  EXPECT_EQ(slab_change.cuda != nullptr, built_for_gpus);
}

// Sets and removals of a store's worker, a batch at a time: what the kernels return is what the host's index had, and
// what they find is what it has.
TEST_P(SlabKernels, AnswerAsTheHostsIndexDoes) {
  using HostWorker = BasicTestWorker<SlabListIndex>;
  constexpr std::uint64_t keys = 600;
  for (const auto fingerprint : {&plain_fingerprint, &few_signatures<3>, &few_signatures<1>}) {
    BasicTestStore<SlabListIndex> store({.cells = 64, .fingerprint = fingerprint});
    HostWorker worker(store);
    const TestedSlabs slabs(*device, *stream, 7, 40);
    const auto on_host = [&](std::uint64_t n) {
      const HostWorker::Batch batch(worker);
      ItemVersion seen;
      Item* const item = store.index.find(store.fingerprint(key_of(n)), key_of(n), seen);
      return item != nullptr ? store.heap.location_of(item) : no_location;
    };
    std::mt19937_64 random(3);
    for (std::uint32_t round = 0; round < 20; ++round) {
      std::vector<CellChange> changes;
      std::set<std::uint64_t> changed;
      const std::uint64_t count = random() % 200, removed = round % 4 * 3;  // of 10
      while (changed.size() < count) {
        const std::uint64_t n = random() % keys;
        if (!changed.insert(n).second) continue;
        const Location from = on_host(n);
        if (random() % 10 < removed) {
          EXPECT_EQ(worker.erase(key_of(n)), from != no_location);
        } else {
          ASSERT_EQ(worker.set(key_of(n), round), HostWorker::Outcome::done);
        }
        changes.push_back({store.fingerprint(key_of(n)), from, on_host(n)});
      }
      const std::vector<Answer> answers = change(slabs.table(), changes);
      for (std::size_t i = 0; i < changes.size(); ++i) {
        ASSERT_TRUE(answers[i].done);
        ASSERT_EQ(answers[i].previous, changes[i].from);
      }
      std::vector<Fingerprint> f;
      std::vector<Location> expected;
      for (std::uint64_t n = 0; n < keys; ++n) {
        f.push_back(store.fingerprint(key_of(n)));
        expected.push_back(on_host(n));
      }
      ASSERT_EQ(search(slab_search, slabs.table(), f), expected);
      ASSERT_EQ(search(slab_search_alone, slabs.table(), f), expected);
      ASSERT_EQ(contents(slabs.table()).size(), store.index.item_count());
    }
  }
}

// All keys of one chain, removals in its middle, and a second change of a key behind a hole: one entry.
TEST_P(SlabKernels, AKeyBehindAHoleHasOneEntry) {
  constexpr std::uint32_t keys = 1000;
  const TestedSlabs slabs(*device, *stream, 2, keys / slab_entries + 1);
  const auto fingerprint = [](std::uint32_t n) { return Fingerprint{1, n}; };
  std::vector<CellChange> all, holes, again;
  for (std::uint32_t n = 0; n < keys; ++n) {
    all.push_back({fingerprint(n), 0, n + 1});
    if (n % 10 == 0) holes.push_back({fingerprint(n), n + 1, 0});
    if (n % 10 == 1) again.push_back({fingerprint(n), n + 1, n + keys});
  }
  for (const Answer& a : change(slabs.table(), all)) EXPECT_TRUE(a.done && a.previous == 0);
  std::size_t i = 0;
  for (const Answer& a : change(slabs.table(), holes)) EXPECT_TRUE(a.done && a.previous == holes[i++].from);
  i = 0;
  for (const Answer& a : change(slabs.table(), again)) EXPECT_TRUE(a.done && a.previous == again[i++].from);
  const auto left = contents(slabs.table());
  EXPECT_EQ(left.size(), keys - holes.size());
  for (std::uint32_t n = 0; n < keys; ++n) {
    const auto found = left.find(slab_key(fingerprint(n)));
    ASSERT_EQ(found != left.end(), n % 10 != 0);
    EXPECT_EQ(n % 10 != 0 ? found->second : 0, n % 10 == 0 ? 0 : n % 10 == 1 ? n + keys : n + 1);
  }
}

TEST_P(SlabKernels, SayWhenThereIsNoSlab) {
  const TestedSlabs slabs(*device, *stream, 2, 3);
  std::vector<CellChange> changes;
  for (std::uint32_t n = 0; n < 4 * slab_entries; ++n) changes.push_back({{1, n}, 0, n + 1});
  for (const std::uint32_t more : {0u, 1u, 3u}) {
    const auto before = contents(slabs.table());
    const std::vector<Answer> answers = change(slabs.table(more), changes);
    std::uint32_t done = 0;
    for (std::uint32_t n = 0; n < changes.size(); ++n) {
      const bool was_there = before.contains(slab_key(changes[n].f));
      done += answers[n].done ? 1u : 0u;
      EXPECT_TRUE(answers[n].done || !was_there);
      EXPECT_EQ(answers[n].previous, was_there ? n + 1 : no_location);
    }
    EXPECT_EQ(done, (more + 1) * slab_entries);
    EXPECT_EQ(contents(slabs.table()).size(), done);
  }
  // A key that is there needs no slab.
  const auto left = contents(slabs.table());
  const std::uint64_t key = left.begin()->first;
  const auto answer = change(slabs.table(0), {{fingerprint_of_slab_key(key), 0, 77}});
  EXPECT_TRUE(answer[0].done && answer[0].previous == left.begin()->second);
}

TEST_P(SlabKernels, EmptiedSlabsAreUsedAgain) {
  constexpr std::uint32_t keys = 310;
  const TestedSlabs slabs(*device, *stream, 2, keys / slab_entries - 1);  // no more than ten slabs of one chain
  for (std::uint32_t round = 0; round < 4 * contract_effort; ++round) {
    std::vector<CellChange> put, removed;
    for (std::uint32_t n = 0; n < keys; ++n) {
      put.push_back({{1, n}, 0, n + 1});
      removed.push_back({{1, n * 7 % keys}, n * 7 % keys + 1, 0});
    }
    for (const Answer& a : change(slabs.table(), put)) ASSERT_TRUE(a.done && a.previous == 0);
    std::size_t i = 0;
    for (const Answer& a : change(slabs.table(), removed)) ASSERT_TRUE(a.done && a.previous == removed[i++].from);
    ASSERT_TRUE(contents(slabs.table()).empty());
    ASSERT_EQ(download(slabs.table().first, 2)[0].next | download(slabs.table().first, 2)[1].next, 0u);
  }
}

// Launches of four streams on few keys, so that chains get slabs and lose them: each old value is returned exactly
// once, or is still there, and searches find values of their own keys.
TEST_P(SlabKernels, FourStreamsReturnEachOldValueOnce) {
  constexpr std::uint32_t streams = 4, keys = 160, buckets = 4, count = 1000, launches = 2 * contract_effort;
  const TestedSlabs slabs(*device, *stream, buckets, 8);
  struct Lane {
    std::unique_ptr<Stream> stream;
    PinnedArray<CellChange> changes;
    PinnedArray<std::uint8_t> done;
    PinnedArray<Location> previous, found;
    PinnedArray<Fingerprint> f;
  };
  std::vector<Lane> lanes;
  std::uint32_t last_value = 0;
  std::mt19937_64 random(4);
  const auto number_of = [](Location value) { return value >> 24; };
  const auto fingerprint = [](std::uint32_t number) { return Fingerprint{1, number * 3}; };
  for (std::uint32_t s = 0; s < streams; ++s) {
    constexpr std::uint32_t all = launches * count;
    lanes.push_back({device->make_stream(), PinnedArray<CellChange>(*device, all),
                     PinnedArray<std::uint8_t>(*device, all), PinnedArray<Location>(*device, all),
                     PinnedArray<Location>(*device, all), PinnedArray<Fingerprint>(*device, all)});
    for (std::uint32_t i = 0; i < all; ++i) {
      // Mostly additions, then mostly removals.
      const bool removes = random() % 8 < (i / count % 2 == 0 ? 2 : 6);
      const auto number = static_cast<std::uint32_t>(random() % keys);
      lanes[s].changes[i] = {fingerprint(number), 0, removes ? 0 : number << 24 | ++last_value};
      lanes[s].f[i] = fingerprint(static_cast<std::uint32_t>(random() % keys));
    }
  }
  for (std::uint32_t round = 0; round < launches; ++round) {
    for (Lane& l : lanes) {
      const std::uint32_t at = round * count;
      ASSERT_EQ(
          l.stream->launch(slab_change, {slabs.table(), l.changes.at(at), l.done.at(at), l.previous.at(at), count}),
          DeviceStatus::ok);
      ASSERT_EQ(l.stream->launch(slab_search, {slabs.table(), l.f.at(at), l.found.at(at), count}), DeviceStatus::ok);
    }
  }
  std::multiset<Location> put, returned;
  for (const Lane& l : lanes) {
    ASSERT_EQ(finish(*l.stream), DeviceStatus::ok);
    for (std::uint32_t i = 0; i < launches * count; ++i) {
      ASSERT_EQ(l.done[i], 1);
      if (l.changes[i].to != 0) put.insert(l.changes[i].to);
      if (l.previous[i] != 0) {
        returned.insert(l.previous[i]);
        ASSERT_EQ(fingerprint(number_of(l.previous[i])), l.changes[i].f);
      }
      ASSERT_TRUE(l.found[i] == 0 || fingerprint(number_of(l.found[i])) == l.f[i]);
    }
  }
  for (const auto& [key, location] : contents(slabs.table())) {
    EXPECT_EQ(slab_key(fingerprint(number_of(location))), key);
    returned.insert(location);
  }
  EXPECT_EQ(returned, put);
}

TEST_P(SlabKernels, NothingToDoIsDone) {
  const TestedSlabs slabs(*device, *stream, 2, 1);
  EXPECT_EQ(stream->launch(slab_search, {slabs.table(), {}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(stream->launch(slab_change, {slabs.table(), {}, {}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(finish(*stream), DeviceStatus::ok);
}

TEST(SlabKernelsOnSim, NameEveryArray) {
  const auto device = make_sim_device();
  const std::unique_ptr<Stream> own = device->make_stream();
  Stream& stream = *own;
  const TestedSlabs slabs(*device, stream, 4, 2);
  const PinnedArray<Fingerprint> f(*device, 8);
  const PinnedArray<Location> location(*device, 8);
  const PinnedArray<std::uint8_t> done(*device, 8);
  const PinnedArray<CellChange> changes(*device, 8);
  for (std::uint32_t i = 0; i < 8; ++i) f[i] = {i + 1, i}, changes[i] = {f[i], 0, i + 1};
  constexpr auto ok = DeviceStatus::ok, refused = DeviceStatus::failed;
  const DeviceSlabs table = slabs.table();
  for (const auto* kernel : {&slab_search, &slab_search_alone}) {
    EXPECT_EQ(stream.launch(*kernel, {table, f.at(), location.at(), 8}), ok);
    EXPECT_EQ(stream.launch(*kernel, {table, f.at(1), location.at(), 8}), refused);
    EXPECT_EQ(stream.launch(*kernel, {table, f.at(), location.at(1), 8}), refused);
  }
  EXPECT_EQ(stream.launch(slab_change, {table, changes.at(), done.at(), location.at(), 8}), ok);
  EXPECT_EQ(stream.launch(slab_change, {table, changes.at(1), done.at(), location.at(), 8}), refused);
  EXPECT_EQ(stream.launch(slab_change, {table, changes.at(), done.at(1), location.at(), 8}), refused);
  EXPECT_EQ(stream.launch(slab_change, {table, changes.at(), done.at(), location.at(1), 8}), refused);
  DeviceSlabs other = table;
  other.buckets = 5;
  EXPECT_EQ(stream.launch(slab_search, {other, f.at(), location.at(), 8}), refused);
  other.buckets = 1;  // no bucket has a half
  EXPECT_EQ(stream.launch(slab_search, {other, f.at(), location.at(), 8}), refused);
  other = slabs.table(3);
  EXPECT_EQ(stream.launch(slab_search, {other, f.at(), location.at(), 8}), refused);
  for (const auto member : {&DeviceSlabs::lock, &DeviceSlabs::below}) {
    other = table;
    other.*member = other.*member + 1;
    EXPECT_EQ(stream.launch(slab_change, {other, changes.at(), done.at(), location.at(), 8}), refused);
  }
  EXPECT_EQ(finish(stream), ok);
}

}  // namespace
}  // namespace tandem
