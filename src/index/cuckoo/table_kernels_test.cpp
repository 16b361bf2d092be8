// The table's kernels on every kind of device: `sim` always, and each GPU of this machine.
#include "index/cuckoo/table_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "device/cuda/cuda_device.hpp"
#include "index/cuckoo/table_kernels_rig.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

class TableKernels : public DeviceContract {};

INSTANTIATE_TEST_SUITE_P(Devices, TableKernels, testing::ValuesIn(device_kinds()),
                         [](const testing::TestParamInfo<DeviceKind>& kind) { return kind.param.name; });

// Runs without a GPU, too: otherwise a missing entry would show only on a machine with one.
TEST(TableKernelEntries, AreThereWhereTheProgramIsBuiltForGpus) {
  const bool built_for_gpus = cuda_device_count().reason != "built without CUDA";
  EXPECT_EQ(search_table.cuda != nullptr, built_for_gpus);
  EXPECT_EQ(insert_into_table.cuda != nullptr, built_for_gpus);
  EXPECT_EQ(change_table.cuda != nullptr, built_for_gpus);
}

TEST_P(TableKernels, SearchAnswersAsTheHostDoes) {
  for (const std::uint32_t buckets : {2u, 64u, contract_effort * 2048}) {
    for (const double load : {0.0, 0.5, 0.9, 0.95}) {
      for (const std::uint32_t signatures : {0u, 500u}) {
        SCOPED_TRACE(testing::Message() << buckets << " buckets, load " << load << ", signatures " << signatures);
        const CheckTable host(buckets);
        const auto keys = static_cast<std::uint32_t>(load * buckets * bucket_cells);
        for (std::uint32_t key = 0; key < keys; ++key)
          (void)cuckoo_scalar.insert(host.view(), check_fingerprint(key, signatures), key + 1);
        const TestedTable table(*device, *stream, buckets);
        upload(table.buckets(), host.view().buckets, buckets);

        // Present and absent keys, also of signatures that occur in it.
        const std::uint32_t count = keys * 2 + 33;
        Random random(load > 0.7 ? 3 : 2);
        std::vector<Fingerprint> f(count);
        for (auto& one : f) one = check_fingerprint(random.below(count), signatures);
        std::vector<Location> expected(count);
        cuckoo_scalar.search_in_turn(host.view(), f.data(), count, expected.data(), nullptr);

        const PinnedArray<Fingerprint> f_pinned = pinned(f);
        const PinnedArray<Location> location_pinned = pinned(std::vector<Location>(count, 0xffffffff));
        ASSERT_EQ(stream->launch(search_table,
                                 SearchArguments::of(table.index(), f_pinned.at(), location_pinned.at(), count)),
                  DeviceStatus::ok);
        ASSERT_EQ(finish(*stream), DeviceStatus::ok);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), location_pinned.data()));

        const DeviceArray<Fingerprint> f_array(*device, count);
        const DeviceArray<Location> location_array(*device, count);
        upload(f_array.at(), f.data(), count);
        ASSERT_EQ(
            stream->launch(search_table, SearchArguments::of(table.index(), f_array.at(), location_array.at(), count)),
            DeviceStatus::ok);
        EXPECT_EQ(download(location_array.at(), count), expected);
      }
    }
  }
}

TEST_P(TableKernels, InsertsAndRemovesAtHighLoad) {
  constexpr std::uint32_t buckets = contract_effort * 1024;
  constexpr auto target = static_cast<std::uint32_t>(0.95 * buckets * bucket_cells);
  for (const std::uint32_t signatures : {0u, 3000u}) {
    SCOPED_TRACE(testing::Message() << "signatures " << signatures);
    DeviceChurn churn(*device, *stream, buckets, signatures);
    Random random(signatures + 5);
    for (std::uint32_t left = target; left > 0;) {
      const std::uint32_t count = std::min(left, 1 + random.below(target / 8));
      ASSERT_NO_FATAL_FAILURE(churn.insert(count));
      left -= count;
    }
    EXPECT_LE(churn.refused(), target / 1000);
    ASSERT_NO_FATAL_FAILURE(churn.check(download(churn.table().buckets(), buckets)));
    for (int round = 0; round < 10; ++round) {
      ASSERT_NO_FATAL_FAILURE(churn.erase(target / 4, random));
      if (churn.items() < target) {
        ASSERT_NO_FATAL_FAILURE(churn.insert(target - static_cast<std::uint32_t>(churn.items())));
      }
      ASSERT_NO_FATAL_FAILURE(churn.check(download(churn.table().buckets(), buckets)));
    }
    EXPECT_GT(churn.items(), target * 99 / 100);
  }
}

TEST_P(TableKernels, InsertSaysWhenTheTableIsFull) {
  DeviceChurn churn(*device, *stream, 2, 0);
  for (int key = 0; key < 20; ++key) ASSERT_NO_FATAL_FAILURE(churn.insert(1));
  EXPECT_EQ(churn.items(), 16u);
  EXPECT_EQ(churn.refused(), 4u);
  ASSERT_NO_FATAL_FAILURE(churn.check(download(churn.table().buckets(), 2)));
}

TEST_P(TableKernels, EraseRemovesAKeyOnce) {
  const TestedTable table(*device, *stream, 64);
  constexpr std::uint32_t count = 1000;
  const PinnedArray<Fingerprint> f = pinned(std::vector<Fingerprint>(count, check_fingerprint(1, 0)));
  const PinnedArray<Location> location = pinned(std::vector<Location>(count, 77));
  const PinnedArray<std::uint8_t> done = pinned(std::vector<std::uint8_t>(count, 9));
  ASSERT_EQ(stream->launch(insert_into_table, {table.index(), f.at(), location.at(), done.at(), 1}), DeviceStatus::ok);
  ASSERT_EQ(stream->launch(erase_from_table, {table.index(), f.at(), location.at(), done.at(), count}),
            DeviceStatus::ok);
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  EXPECT_EQ(std::count(done.data(), done.data() + count, 1), 1);
  EXPECT_EQ(std::count(done.data(), done.data() + count, 0), count - 1);
}

TEST_P(TableKernels, ApplyStoresTheLastOfSeveral) {
  struct Case {
    std::uint32_t buckets, count;
    std::uint64_t range;  // of the named cells
  };
  const std::uint64_t big = std::uint64_t{contract_effort} * 1024 * bucket_cells;
  for (const Case c : {Case{2, 1000, 16}, Case{2, 5, 40}, Case{contract_effort * 1024, contract_effort * 20'000, big},
                       Case{contract_effort * 1024, contract_effort * 20'000, 100},
                       Case{contract_effort * 1024, contract_effort * 5'000, big * 2}}) {
    SCOPED_TRACE(testing::Message() << c.buckets << " buckets, " << c.count << " cells of " << c.range);
    const TestedTable table(*device, *stream, c.buckets);
    std::vector<std::uint64_t> expected(table.cells());
    const PinnedArray<DirtyCell> cells(*device, c.count);
    const DeviceArray<DirtyCell> cells_array(*device, c.count);
    Random random(c.count);
    for (int round = 0; round < 6; ++round) {
      for (std::uint32_t i = 0; i < c.count; ++i) {
        cells[i] = {random.next() % c.range, random.next()};
        if (random.below(50) == 0) cells[i].index = random.below(2) == 0 ? table.cells() : random.next() | 1ull << 40;
        if (cells[i].index < expected.size()) expected[cells[i].index] = cells[i].bits;
      }
      DevicePtr<const DirtyCell> from = cells.at();
      if (round % 2 == 1) {
        ASSERT_EQ(stream->copy_to_device(cells_array.bytes_at(), cells.data(), cells.bytes()), DeviceStatus::ok);
        from = cells_array.at();
      }
      ASSERT_EQ(stream->launch(store_cells, {table.index(), table.winners(), from, c.count}), DeviceStatus::ok);
      ASSERT_EQ(finish(*stream), DeviceStatus::ok);
      ASSERT_EQ(download(DevicePtr<std::uint64_t>(table.buckets().address()), table.cells()), expected);
    }
    const std::vector<std::uint32_t> winners = download(table.winners(), table.cells());
    EXPECT_EQ(std::ranges::count(winners, 0u), static_cast<std::ptrdiff_t>(table.cells()));
  }
}

TEST_P(TableKernels, StreamsOfSeveralThreads) {
  constexpr std::uint32_t buckets = contract_effort * 512;
  const CheckTable host(buckets);
  const auto keys = static_cast<std::uint32_t>(0.9 * buckets * bucket_cells);
  for (std::uint32_t key = 0; key < keys; ++key)
    (void)cuckoo_scalar.insert(host.view(), check_fingerprint(key, 0), key + 1);
  const TestedTable table(*device, *stream, buckets);
  upload(table.buckets(), host.view().buckets, buckets);
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);

  const auto work = [&](std::uint64_t seed) {
    constexpr std::uint32_t count = 512;
    const std::unique_ptr<Stream> own = device->make_stream();
    const PinnedArray<Fingerprint> f(*device, count);
    const PinnedArray<Location> location(*device, count);
    Random random(seed);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::uint32_t> key(count);
      for (std::uint32_t i = 0; i < count; ++i) f[i] = check_fingerprint(key[i] = random.below(keys * 2), 0);
      ASSERT_EQ(own->launch(search_table, SearchArguments::of(table.index(), f.at(), location.at(), count)),
                DeviceStatus::ok);
      ASSERT_EQ(finish(*own), DeviceStatus::ok);
      for (std::uint32_t i = 0; i < count; ++i)
        ASSERT_TRUE(location[i] == key[i] + 1 || (location[i] == no_location && key[i] >= keys));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(work, i + 10);
  // The stores change nothing: they repeat cells, and set one that no key uses.
  const PinnedArray<DirtyCell> cells(*device, 2000);
  for (std::uint32_t i = 0; i < 2000; ++i) cells[i] = {i, host.view().buckets[i / bucket_cells].cell[i % bucket_cells]};
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(stream->launch(store_cells, {table.index(), table.winners(), cells.at(), 2000}), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  }
  for (std::thread& thread : threads) thread.join();
}

// A set's 16 cells are two buckets: each key is found in its own set, wherever it lies there, and the first of two
// cells of one signature; after any stores.
TEST_P(TableKernels, SearchSetsAsAModelDoes) {
  for (const std::uint32_t sets : {1u, 2u, 3u, 37u, 1000u}) {
    const DeviceArray<Bucket> buckets(*device, std::uint64_t{sets} * 2);
    const DeviceArray<std::uint32_t> winners(*device, std::uint64_t{sets} * set_cells);
    ASSERT_EQ(stream->zero(buckets.bytes_at(), buckets.bytes()), DeviceStatus::ok);
    ASSERT_EQ(stream->zero(winners.bytes_at(), winners.bytes()), DeviceStatus::ok);
    const DeviceIndex index{buckets.at(), {.sets = sets}};
    std::vector<std::uint64_t> model(std::uint64_t{sets} * set_cells);
    std::uint64_t random = sets;
    std::uint64_t hits = 0;
    for (int round = 0; round < 20; ++round) {
      constexpr std::uint32_t count = 777;
      const PinnedArray<DirtyCell> cells(*device, count);
      const PinnedArray<Fingerprint> f(*device, count);
      const PinnedArray<Location> found(*device, count);
      const auto draw = [&] {
        random = mix_bits(random + 1);
        return Fingerprint{static_cast<std::uint32_t>(random) % 40 + 1, static_cast<std::uint32_t>(random >> 32)};
      };
      for (std::uint32_t i = 0; i < count; ++i) {
        f[i] = draw();
        const std::uint64_t way = mix_bits(random) % set_cells;
        const std::uint64_t at = std::uint64_t{set_number(f[i], sets)} * set_cells + way;
        cells[i] = {at, way % 5 == 0 ? 0 : Cell::of(f[i].signature, static_cast<std::uint32_t>(i + 1)).bits};
        model[at] = cells[i].bits;
        if (i % 3 == 0) f[i] = draw();
      }
      ASSERT_EQ(stream->launch(store_cells, {index, winners.at(), cells.at(), count}), DeviceStatus::ok);
      ASSERT_EQ(stream->launch(search_table, SearchArguments::of(index, f.at(), found.at(), count)), DeviceStatus::ok);
      ASSERT_EQ(finish(*stream), DeviceStatus::ok);
      for (std::uint32_t i = 0; i < count; ++i) {
        Location wanted = no_location;
        for (std::uint32_t way = set_cells; way-- != 0;) {
          const Cell c{model[std::uint64_t{set_number(f[i], sets)} * set_cells + way]};
          if (c.signature() == f[i].signature) wanted = c.location();
        }
        ASSERT_EQ(found[i], wanted) << "sets " << sets << " key " << i;
        hits += wanted != no_location;
      }
    }
    EXPECT_GT(hits, 0u);
  }
}

TEST_P(TableKernels, NothingToDoIsDone) {
  const TestedTable table(*device, *stream, 2);
  const DeviceIndex index = table.index();
  EXPECT_EQ(stream->launch(search_table, SearchArguments::of(index, {}, {}, 0)), DeviceStatus::ok);
  EXPECT_EQ(stream->launch(insert_into_table, {index, {}, {}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(stream->launch(erase_from_table, {index, {}, {}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(stream->launch(change_table, {index, {}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(stream->launch(store_cells, {index, table.winners(), {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(finish(*stream), DeviceStatus::ok);
}

TEST_P(TableKernels, MorePartsThanALaunchHasAreRefused) {
  const TestedTable table(*device, *stream, 2);
  const PinnedArray<Fingerprint> f(*device, 1);
  const PinnedArray<Location> location(*device, 1);
  f[0] = {1, 0};
  SearchArguments search = SearchArguments::of(table.index(), f.at(), location.at(), 1);
  search.parts = search_parts_max + 1;
  EXPECT_EQ(stream->launch(search_table, search), DeviceStatus::failed);
  EXPECT_EQ(finish(*stream), DeviceStatus::ok);
  EXPECT_FALSE(device->lost());
}

TEST_P(TableKernels, AreNotLaunchedOnALostDevice) {
  const TestedTable table(*device, *stream, 1024);
  const DeviceIndex index = table.index();
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  device->abandon();
  EXPECT_EQ(stream->launch(search_table, SearchArguments::of(index, {}, {}, 1)), DeviceStatus::lost);
  EXPECT_EQ(stream->launch(insert_into_table, {index, {}, {}, {}, 1}), DeviceStatus::lost);
  EXPECT_EQ(stream->launch(erase_from_table, {index, {}, {}, {}, 1}), DeviceStatus::lost);
  EXPECT_EQ(stream->launch(change_table, {index, {}, {}, 1}), DeviceStatus::lost);
  EXPECT_EQ(stream->launch(store_cells, {index, table.winners(), {}, 1}), DeviceStatus::lost);
  EXPECT_EQ(stream->launch(search_table, SearchArguments::of(index, {}, {}, 0)), DeviceStatus::lost);
}

TEST(TableKernelsOnSim, NameEveryArray) {
  const auto device = make_sim_device();
  const std::unique_ptr<Stream> own = device->make_stream();
  const DeviceArray<Bucket> buckets(*device, 4);
  const DeviceArray<std::uint32_t> winners(*device, 32);
  const PinnedArray<Fingerprint> f(*device, 8);
  const PinnedArray<Location> location(*device, 8);
  const PinnedArray<std::uint8_t> done(*device, 8);
  const PinnedArray<CellChange> changes(*device, 8);
  const PinnedArray<DirtyCell> cells(*device, 8);
  Stream& stream = *own;
  ASSERT_EQ(stream.zero(buckets.bytes_at(), buckets.bytes()), DeviceStatus::ok);
  ASSERT_EQ(stream.zero(winners.bytes_at(), winners.bytes()), DeviceStatus::ok);
  for (std::uint32_t i = 0; i < 8; ++i)
    f[i] = {i + 1, i}, location[i] = i + 1, cells[i] = {i, 0}, changes[i] = {f[i], 0, 0};
  const DeviceIndex index{buckets.at(), {.mask = 3}};
  const auto refused = DeviceStatus::failed;
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of(index, f.at(), location.at(), 8)), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of(index, f.at(), location.at(), 9)), refused);
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of({buckets.at(), {.mask = 7}}, f.at(), location.at(), 8)),
            refused);  // of 8 buckets
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of({buckets.at(), {.mask = 2}}, f.at(), location.at(), 8)),
            refused);  // no power of two
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of({buckets.at(), {}}, f.at(), location.at(), 8)), refused);
  const DeviceIndex sets{buckets.at(), {.sets = 2}};
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of(sets, f.at(), location.at(), 8)), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of({buckets.at(), {.sets = 3}}, f.at(), location.at(), 8)),
            refused);
  EXPECT_EQ(stream.launch(search_table,
                          SearchArguments::of({buckets.at(), {.mask = 1, .sets = 2}}, f.at(), location.at(), 8)),
            refused);
  EXPECT_EQ(stream.launch(insert_into_table, {sets, f.at(), location.at(), done.at(), 8}), refused);
  EXPECT_EQ(stream.launch(change_table, {sets, changes.at(), done.at(), 8}), refused);
  EXPECT_EQ(stream.launch(store_cells, {sets, winners.at(), cells.at(), 8}), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of(index, DevicePtr<const Fingerprint>(f.at().address() + 1),
                                                            location.at(), 1)),
            refused);
  EXPECT_EQ(stream.launch(search_table, SearchArguments::of(index, {}, location.at(), 1)), refused);
  EXPECT_EQ(stream.launch(insert_into_table, {index, f.at(), location.at(), done.at(), 8}), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(insert_into_table, {index, f.at(), location.at(), done.at(1), 8}), refused);
  EXPECT_EQ(stream.launch(erase_from_table, {index, f.at(), location.at(1), done.at(), 8}), refused);
  EXPECT_EQ(stream.launch(erase_from_table, {index, f.at(), location.at(), done.at(), 8}), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(change_table, {index, changes.at(), done.at(), 8}), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(change_table, {index, changes.at(1), done.at(), 8}), refused);
  EXPECT_EQ(stream.launch(change_table, {index, changes.at(), done.at(1), 8}), refused);
  EXPECT_EQ(stream.launch(change_table, {{buckets.at(), {.mask = 7}}, changes.at(), done.at(), 8}), refused);
  EXPECT_EQ(stream.launch(change_table, {index, DevicePtr<const CellChange>(changes.at().address() + 8), done.at(), 1}),
            refused);
  EXPECT_EQ(stream.launch(store_cells, {index, winners.at(), cells.at(), 8}), DeviceStatus::ok);
  EXPECT_EQ(stream.launch(store_cells, {index, winners.at(1), cells.at(), 8}), refused);
  EXPECT_EQ(stream.launch(store_cells, {index, winners.at(), cells.at(1), 8}), refused);
  EXPECT_EQ(finish(*own), DeviceStatus::ok);
}

TEST(TableKernelsOnSim, WantWinnersOfZero) {
  const auto device = make_sim_device();
  const std::unique_ptr<Stream> own = device->make_stream();
  const DeviceArray<Bucket> buckets(*device, 2);
  const DeviceArray<std::uint32_t> winners(*device, 16);
  const PinnedArray<std::uint32_t> one(*device, 1);
  one[0] = 1;
  ASSERT_EQ(own->zero(winners.bytes_at(), winners.bytes()), DeviceStatus::ok);
  ASSERT_EQ(own->copy_to_device(winners.bytes_at(3), one.data(), 4), DeviceStatus::ok);
  const PinnedArray<DirtyCell> cells(*device, 2);
  cells[0] = {2, 5}, cells[1] = {3, 6};
  ASSERT_EQ(own->launch(store_cells, {{buckets.at(), {.mask = 1}}, winners.at(), cells.at(), 1}), DeviceStatus::ok);
  EXPECT_EQ(finish(*own), DeviceStatus::ok);
  ASSERT_EQ(own->launch(store_cells, {{buckets.at(), {.mask = 1}}, winners.at(), cells.at(), 2}), DeviceStatus::ok);
  EXPECT_EQ(finish(*own), DeviceStatus::failed);
}

}  // namespace
}  // namespace tandem
