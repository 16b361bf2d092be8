// Changes of a table on a device, compared with a table that the scalar lanes change on the host: inserts, replacements
// and removals in one call, searches behind them, at high load.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "index/cuckoo/table_kernels_rig.hpp"

namespace tandem {
namespace {

class DeviceChangeContract : public DeviceContract {
 protected:
  // Alternates between arrays in pinned and in device memory. Returns the call's answers.
  std::vector<std::uint8_t> change(DeviceIndex index, const std::vector<CellChange>& changes) {
    const auto count = static_cast<std::uint32_t>(changes.size());
    const PinnedArray<CellChange> from = pinned(changes);
    const PinnedArray<std::uint8_t> done = pinned(std::vector<std::uint8_t>(count, 0xee));
    if (++calls_ % 2 == 0) {
      EXPECT_EQ(stream->launch(change_table, {index, from.at(), done.at(), count}), DeviceStatus::ok);
      EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    } else {
      const DeviceArray<CellChange> array(*device, count);
      const DeviceArray<std::uint8_t> done_array(*device, count);
      EXPECT_EQ(stream->copy_to_device(array.bytes_at(), from.data(), from.bytes()), DeviceStatus::ok);
      EXPECT_EQ(stream->launch(change_table, {index, array.at(), done_array.at(), count}), DeviceStatus::ok);
      EXPECT_EQ(stream->copy_to_host(done.data(), done_array.bytes_at(), done.bytes()), DeviceStatus::ok);
      EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    }
    return {done.data(), done.data() + count};
  }
  std::vector<Location> search(DeviceIndex index, const std::vector<Fingerprint>& keys) {
    const auto count = static_cast<std::uint32_t>(keys.size());
    const PinnedArray<Fingerprint> f = pinned(keys);
    const PinnedArray<Location> location = pinned(std::vector<Location>(count, 0xffffffff));
    EXPECT_EQ(stream->launch(search_table, SearchArguments::of(index, f.at(), location.at(), count)), DeviceStatus::ok);
    EXPECT_EQ(finish(*stream), DeviceStatus::ok);
    return {location.data(), location.data() + count};
  }
  // How often each cell is in the table.
  std::map<std::uint64_t, std::uint32_t> cells_of(const TestedTable& table) {
    std::map<std::uint64_t, std::uint32_t> cells;
    for (const Bucket& bucket : download(table.buckets(), table.bucket_count())) {
      for (const std::uint64_t bits : bucket.cell) {
        if (bits != 0) ++cells[bits];
      }
    }
    return cells;
  }

 private:
  int calls_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, DeviceChangeContract, testing::ValuesIn(device_kinds()),
                         [](const auto& kind) { return kind.param.name; });

// A table on the device, and one of twice its size, which is never full, that the scalar lanes change likewise.
class Twins {
 public:
  Twins(Device& device, Stream& stream, std::uint32_t buckets, std::uint32_t signatures)
      : table_(device, stream, buckets), host_(2 * buckets), signatures_(signatures) {}

  const TestedTable& table() const { return table_; }
  IndexView host() const { return host_.view(); }
  std::size_t items() const { return where_.size(); }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t next_key() const { return next_key_; }
  Fingerprint fingerprint(std::uint64_t key) const { return check_fingerprint(key, signatures_); }

  // Changes of `count` different keys, so that there are at most `most` afterwards.
  std::vector<CellChange> draw(std::uint32_t count, std::size_t most, Random& random) {
    std::vector<CellChange> changes;
    std::set<std::uint64_t> seen;
    keys_.clear();
    std::size_t room = most > items() ? most - items() : 0;
    const auto add = [&](std::uint64_t key, Location from, Location to) {
      keys_.push_back(key);
      changes.push_back({fingerprint(key), from, to});
    };
    while (changes.size() < count) {
      if (room > 0 && random.below(2) == 0) {  // a new key; its `from`, if any, is unused
        --room;
        add(next_key_++, random.below(8) == 0 ? never() : no_location, fresh(random));
        continue;
      }
      const std::uint64_t key = random.below(next_key_ + 10);
      if (!seen.insert(key).second || key >= next_key_) {
        if (random.below(4) == 0) add(UINT64_MAX, no_location, no_location);
        continue;
      }
      const auto found = where_.find(key);
      const std::uint32_t kind = random.below(8);
      if (found == where_.end() || kind == 0) {
        add(key, never(), no_location);  // nothing to remove
      } else if (kind <= 2) {
        add(key, found->second, no_location);
      } else {
        add(key, found->second, fresh(random));
      }
    }
    return changes;
  }

  // Takes the device's answers to the changes drawn last. The host makes the same changes and must agree.
  void made(const std::vector<CellChange>& changes, const std::vector<std::uint8_t>& done) {
    std::vector<bool> host_done;
    for (const CellChange& c : changes) host_done.push_back(cuckoo_scalar.replace_changed(host(), c));
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const CellChange c = changes[i];
      const bool inserted = !host_done[i];
      if (inserted) {
        ASSERT_TRUE(cuckoo_scalar.insert_changed(host(), c));
      }
      ASSERT_TRUE(done[i] == 1 || (done[i] == 0 && inserted)) << "change " << i << ": " << int{done[i]};
      const auto found = where_.find(keys_[i]);
      if (found != where_.end() && found->second == c.from) {
        free_.push_back(found->second);
        where_.erase(found);
      }
      if (c.to == no_location) continue;
      if (done[i] == 1) {
        where_[keys_[i]] = c.to;
      } else {  // no room on the device: not on the host either
        ++refused_;
        free_.push_back(c.to);
        ASSERT_TRUE(cuckoo_scalar.erase(host(), c.f, c.to));
      }
    }
  }

  // Every key is in exactly one cell, of its own two buckets, and the table has nothing else.
  void check(const std::vector<Bucket>& buckets) const {
    std::map<std::uint64_t, std::vector<std::uint32_t>> buckets_of;
    std::size_t cells = 0;
    for (std::uint32_t b = 0; b < buckets.size(); ++b) {
      for (const std::uint64_t bits : buckets[b].cell) {
        if (bits == 0) continue;
        ++cells;
        buckets_of[bits].push_back(b);
      }
    }
    ASSERT_EQ(cells, where_.size());
    ASSERT_EQ(host_.cells_used(), where_.size());
    const IndexView view{nullptr, table_.index().shape.mask};
    for (const auto& [key, location] : where_) {
      const Fingerprint f = fingerprint(key);
      const auto found = buckets_of.find(Cell::of(f.signature, location).bits);
      ASSERT_TRUE(found != buckets_of.end()) << "key " << key;
      ASSERT_EQ(found->second.size(), 1u) << "key " << key;
      ASSERT_TRUE(found->second[0] == view.first(f) || found->second[0] == view.second(f)) << "key " << key;
    }
  }

  // With unique signatures, searches give the same answers. Else any key of the signature may be found, but not none.
  void check_search(const std::vector<std::uint64_t>& keys, const std::vector<Location>& found) const {
    std::vector<Fingerprint> f;
    for (const std::uint64_t key : keys) f.push_back(fingerprint(key));
    std::vector<Location> expected(keys.size());
    cuckoo_scalar.search_in_turn(host(), f.data(), static_cast<std::uint32_t>(f.size()), expected.data(), nullptr);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto at = where_.find(keys[i]);
      if (signatures_ == 0) {
        ASSERT_EQ(found[i], expected[i]) << "key " << keys[i];
        ASSERT_EQ(found[i], at != where_.end() ? at->second : no_location) << "key " << keys[i];
      } else if (at != where_.end()) {
        ASSERT_NE(found[i], no_location) << "key " << keys[i];
      }
    }
  }

 private:
  // Usually one that was in use before the last call.
  Location fresh(Random& random) {
    if (free_.empty() || random.below(4) == 0) return next_location_++;
    std::swap(free_[random.below(free_.size())], free_.back());
    const Location location = free_.back();
    free_.pop_back();
    return location;
  }
  Location never() { return --last_location_; }

  TestedTable table_;
  CheckTable host_;
  std::uint32_t signatures_;
  std::unordered_map<std::uint64_t, Location> where_;
  std::vector<std::uint64_t> keys_;  // of the changes drawn last
  std::vector<Location> free_;
  std::uint64_t next_key_ = 0, refused_ = 0;
  Location next_location_ = 1, last_location_ = 0xffffffff;
};

TEST_P(DeviceChangeContract, DoesWhatTheScalarLanesDo) {
  constexpr std::uint32_t buckets = contract_effort * 512;
  for (const std::uint32_t signatures : {0u, 2000u}) {
    for (const double load : {0.5, 0.95}) {
      SCOPED_TRACE(testing::Message() << "signatures " << signatures << ", load " << load);
      Twins twins(*device, *stream, buckets, signatures);
      const auto most = static_cast<std::uint32_t>(load * buckets * bucket_cells);
      Random random(signatures + static_cast<std::uint64_t>(load * 100));
      std::uint64_t made = 0;
      for (int round = 0; made < 6 * most || twins.items() < most * 97 / 100; ++round) {
        ASSERT_LT(round, 10'000);
        const std::uint32_t count = round % 8 == 0 ? 1 + random.below(40) : 1 + random.below(most / 2);
        const std::vector<CellChange> changes = twins.draw(count, most, random);
        const std::vector<std::uint8_t> done = change(twins.table().index(), changes);
        ASSERT_NO_FATAL_FAILURE(twins.made(changes, done));
        made += count;
        std::vector<std::uint64_t> keys(500);
        std::vector<Fingerprint> f;
        for (std::uint64_t& key : keys) f.push_back(twins.fingerprint(key = random.below(twins.next_key() + 50)));
        ASSERT_NO_FATAL_FAILURE(twins.check_search(keys, search(twins.table().index(), f)));
        ASSERT_NO_FATAL_FAILURE(twins.check(download(twins.table().buckets(), buckets)));
      }
      EXPECT_LE(twins.refused(), made / 1000);
    }
  }
}

// Changes and searches are queued behind each other without waiting: each search sees what was queued before it.
TEST_P(DeviceChangeContract, FollowsOneKeyThroughManyCalls) {
  constexpr std::uint32_t keys = 64, calls = 100, rounds = contract_effort * 5;
  const TestedTable table(*device, *stream, 256);
  std::vector<Fingerprint> all;
  // Key 0 has a signature of its own, so that a search finds nothing else; up to eight other keys share one.
  for (std::uint32_t key = 0; key < keys; ++key) all.push_back({1 + (key + 7) / 8, check_fingerprint(key, 0).hash});
  const PinnedArray<Fingerprint> f = pinned(all);
  const PinnedArray<CellChange> changes(*device, keys * calls);
  const PinnedArray<std::uint8_t> done(*device, keys * calls);
  const PinnedArray<Location> found(*device, calls);
  std::vector<Location> where(keys, no_location);
  Location next = 1;
  Random random(3);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::fill_n(done.data(), keys * calls, std::uint8_t{0xee});
    std::vector<Location> expected;
    for (std::uint32_t call = 0; call < calls; ++call) {
      const std::uint32_t first = call * keys, count = call % 3 == 0 ? 1 : keys;  // key 0 in all of them
      for (std::uint32_t key = 0; key < count; ++key) {
        const Location to = random.below(4) == 0 ? no_location : next++;
        changes[first + key] = {all[key], where[key], to};
        where[key] = to;
      }
      ASSERT_EQ(stream->launch(change_table, {table.index(), changes.at(first), done.at(first), count}),
                DeviceStatus::ok);
      ASSERT_EQ(stream->launch(search_table, SearchArguments::of(table.index(), f.at(), found.at(call), 1)),
                DeviceStatus::ok);
      expected.push_back(where[0]);
    }
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
    for (std::uint32_t call = 0; call < calls; ++call) {
      const std::uint32_t count = call % 3 == 0 ? 1 : keys;
      for (std::uint32_t key = 0; key < count; ++key) ASSERT_EQ(done[call * keys + key], 1);
      ASSERT_EQ(found[call], expected[call]) << "call " << call;
    }
    std::map<std::uint64_t, std::uint32_t> cells;
    for (std::uint32_t key = 0; key < keys; ++key) {
      if (where[key] != no_location) ++cells[Cell::of(all[key].signature, where[key]).bits];
    }
    ASSERT_EQ(cells_of(table), cells);
  }
}

TEST_P(DeviceChangeContract, SaysWhenThereIsNoRoom) {
  const TestedTable table(*device, *stream, 2);
  const DeviceIndex index = table.index();
  std::map<std::uint64_t, std::uint32_t> cells;
  const auto key = [](std::uint32_t k) { return check_fingerprint(k, 0); };
  const auto cell = [&](std::uint32_t k, Location l) { return Cell::of(key(k).signature, l).bits; };
  for (std::uint32_t k = 1; k <= 16; ++k) {
    ASSERT_EQ(change(index, {{key(k), no_location, k}}), std::vector<std::uint8_t>{1});
    ++cells[cell(k, k)];
  }
  ASSERT_EQ(cells_of(table), cells);
  // None of these is present, so all have to be inserted: refused, and nothing else is changed.
  ASSERT_EQ(change(index, {{key(17), no_location, 17}, {key(18), 1000, 18}, {key(19), 1001, no_location}}),
            (std::vector<std::uint8_t>{0, 0, 1}));
  ASSERT_EQ(cells_of(table), cells);
  EXPECT_EQ(search(index, {key(17), key(18), key(3)}), (std::vector<Location>{no_location, no_location, 3}));
  // A full table replaces, and a removal makes room for a change earlier in the same call.
  ASSERT_EQ(change(index, {{key(20), no_location, 20}, {key(5), 5, 105}, {key(6), 6, no_location}}),
            (std::vector<std::uint8_t>{1, 1, 1}));
  cells.erase(cell(5, 5));
  cells.erase(cell(6, 6));
  ++cells[cell(5, 105)];
  ++cells[cell(20, 20)];
  ASSERT_EQ(cells_of(table), cells);
  EXPECT_EQ(search(index, {key(20), key(5), key(6)}), (std::vector<Location>{20, 105, no_location}));
}

TEST_P(DeviceChangeContract, FillsAnEmptyTableInOneCallAndEmptiesIt) {
  constexpr std::uint32_t buckets = contract_effort * 1024;
  constexpr auto count = static_cast<std::uint32_t>(0.95 * buckets * bucket_cells);
  const TestedTable table(*device, *stream, buckets);
  std::vector<CellChange> changes;
  std::vector<Fingerprint> f;
  for (std::uint32_t k = 0; k < count; ++k) {
    f.push_back(check_fingerprint(k, 0));
    changes.push_back({f.back(), no_location, k + 1});
  }
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    const std::vector<std::uint8_t> done = change(table.index(), changes);
    EXPECT_LE(std::ranges::count(done, 0), static_cast<std::ptrdiff_t>(count / 1000));
    std::vector<Location> found = search(table.index(), f);
    for (std::uint32_t k = 0; k < count; ++k) ASSERT_EQ(found[k], done[k] == 1 ? changes[k].to : no_location);
    ASSERT_EQ(cells_of(table).size(), static_cast<std::size_t>(std::ranges::count(done, 1)));
    for (CellChange& c : changes) c = {c.f, c.to, no_location};
    ASSERT_EQ(change(table.index(), changes), std::vector<std::uint8_t>(count, 1));
    ASSERT_TRUE(cells_of(table).empty());
    for (std::uint32_t k = 0; k < count; ++k) changes[k] = {f[k], no_location, 2 * count - k};
  }
}

}  // namespace
}  // namespace tandem
