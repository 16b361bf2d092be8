// Every kind of device does what device.hpp says: `sim` everywhere, GPUs where there are some.
#include "device/device_contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;

TEST(CudaDevices, AreTestedWhereThereAreSome) {
  const DeviceCount found = cuda_device_count();
  EXPECT_THROW((void)make_cuda_device(found.count), DeviceError);
  EXPECT_THROW((void)cuda_device_info(found.count), DeviceError);
  if (found.count == 0) {
    ASSERT_FALSE(found.reason.empty());
    if (found.reason == "built without CUDA") return;
    GTEST_SKIP() << "no GPU: " << found.reason;
  }
  EXPECT_TRUE(found.reason.empty()) << found.reason;
  EXPECT_GT(cuda_device_info(0).memory_bytes, 0u);
}

TEST(DeviceStatus, HasNames) {
  std::set<std::string_view> names;
  for (const DeviceStatus status :
       {DeviceStatus::ok, DeviceStatus::pending, DeviceStatus::out_of_memory, DeviceStatus::failed, DeviceStatus::lost})
    names.insert(name_of(status));
  EXPECT_EQ(names.size(), 5u);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract, testing::ValuesIn(device_kinds()),
                         [](const testing::TestParamInfo<DeviceKind>& kind) { return kind.param.name; });

TEST_P(DeviceContract, SaysWhatItIs) {
  EXPECT_FALSE(device->info().name.empty());
  EXPECT_TRUE(GetParam().name.starts_with(device->info().backend));
  EXPECT_GT(device->info().memory_bytes, 1u << 20);
  EXPECT_FALSE(device->lost());
  EXPECT_EQ(device->lost_reason(), "");
}

// --- memory

TEST_P(DeviceContract, MemoryIsAlignedAndApart) {
  std::vector<DeviceArray<std::byte>> arrays;
  std::vector<PinnedArray<std::byte>> blocks;
  for (const std::uint64_t bytes : {1u, 3u, 255u, 256u, 4096u, 5000u, 1u << 20}) {
    arrays.emplace_back(*device, bytes);
    blocks.emplace_back(*device, bytes);
    EXPECT_EQ(arrays.back().at().address() % 256, 0u);
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(blocks.back().data()) % 4096, 0u);
    EXPECT_TRUE(blocks.back().at());
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& array : arrays) ranges.emplace_back(array.at().address(), array.bytes());
  for (const auto& block : blocks) ranges.emplace_back(block.at().address(), block.bytes());
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
}

TEST_P(DeviceContract, RunsOutOfMemoryAndGoesOn) {
  try {
    (void)device->allocate(std::uint64_t{1} << 50);
    FAIL() << "a PiB";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.status(), DeviceStatus::out_of_memory);
  }
  EXPECT_FALSE(device->lost());
  const std::uint64_t before = device->memory_free_bytes();
  EXPECT_LE(before, device->info().memory_bytes);
  {
    const DeviceArray<std::byte> array(*device, 64 << 20);
    EXPECT_LE(device->memory_free_bytes(), before - (32 << 20));
  }
  EXPECT_GT(device->memory_free_bytes(), before - (32 << 20));
  EXPECT_FALSE(device->allocate(0));
  device->release({});
  device->release_pinned(device->allocate_pinned(0));
}

TEST_P(DeviceContract, CopiesAndZeroes) {
  constexpr std::uint64_t bytes = 3 << 20;
  Random random(1);
  std::vector<std::uint8_t> model(bytes);
  for (auto& b : model) b = static_cast<std::uint8_t>(random.next());
  const DeviceArray<std::uint8_t> array(*device, bytes);
  upload(array.at(), model.data(), bytes);
  EXPECT_EQ(download(array.at(), bytes), model);

  // Pieces of all sizes at all offsets, several queued before they are waited for.
  constexpr std::uint64_t piece_most = 70'000;
  const PinnedArray<std::uint8_t> out(*device, piece_most * 8);
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t piece = 0; piece < 8; ++piece) {
      const std::uint64_t size = random.below(piece % 2 == 0 ? 20 : piece_most);
      const std::uint64_t at = random.below(bytes - size);
      if (piece % 4 == 3) {
        ASSERT_EQ(stream->zero(array.bytes_at(at), size), DeviceStatus::ok);
        std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(at), size, std::uint8_t{0});
        continue;
      }
      std::uint8_t* const from = &out[piece * piece_most];
      for (std::uint64_t i = 0; i < size; ++i) from[i] = model[at + i] = static_cast<std::uint8_t>(random.next());
      ASSERT_EQ(stream->copy_to_device(array.bytes_at(at), from, size), DeviceStatus::ok);
    }
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  }
  EXPECT_EQ(download(array.at(), bytes), model);
}

TEST_P(DeviceContract, NothingToDoIsDone) {
  const TestedTable table(*device, *stream, 2);
  const DeviceIndex index = table.index();
  EXPECT_EQ(stream->copy_to_device({}, nullptr, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->copy_to_host(nullptr, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->zero({}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->search(index, {}, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->insert(index, {}, {}, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->erase(index, {}, {}, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->change(index, {}, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->apply(index, table.winners(), {}, 0), DeviceStatus::ok);
  EXPECT_EQ(finish(*stream), DeviceStatus::ok);
}

// --- kernels

TEST_P(DeviceContract, SearchAnswersAsTheHostDoes) {
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

        // Keys of the table and others, also of signatures that it has elsewhere.
        const std::uint32_t count = keys * 2 + 33;
        Random random(load > 0.7 ? 3 : 2);
        std::vector<Fingerprint> f(count);
        for (auto& one : f) one = check_fingerprint(random.below(count), signatures);
        std::vector<Location> expected(count);
        cuckoo_scalar.search_in_turn(host.view(), f.data(), count, expected.data(), nullptr);

        const PinnedArray<Fingerprint> f_pinned = pinned(f);
        const PinnedArray<Location> location_pinned = pinned(std::vector<Location>(count, 0xffffffff));
        ASSERT_EQ(stream->search(table.index(), f_pinned.at(), location_pinned.at(), count), DeviceStatus::ok);
        ASSERT_EQ(finish(*stream), DeviceStatus::ok);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), location_pinned.data()));

        const DeviceArray<Fingerprint> f_array(*device, count);
        const DeviceArray<Location> location_array(*device, count);
        upload(f_array.at(), f.data(), count);
        ASSERT_EQ(stream->search(table.index(), f_array.at(), location_array.at(), count), DeviceStatus::ok);
        EXPECT_EQ(download(location_array.at(), count), expected);
      }
    }
  }
}

TEST_P(DeviceContract, InsertsAndRemovesAtHighLoad) {
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

TEST_P(DeviceContract, InsertSaysWhenTheTableIsFull) {
  DeviceChurn churn(*device, *stream, 2, 0);
  for (int key = 0; key < 20; ++key) ASSERT_NO_FATAL_FAILURE(churn.insert(1));
  EXPECT_EQ(churn.items(), 16u);
  EXPECT_EQ(churn.refused(), 4u);
  ASSERT_NO_FATAL_FAILURE(churn.check(download(churn.table().buckets(), 2)));
}

TEST_P(DeviceContract, EraseRemovesAKeyOnce) {
  const TestedTable table(*device, *stream, 64);
  constexpr std::uint32_t count = 1000;
  const PinnedArray<Fingerprint> f = pinned(std::vector<Fingerprint>(count, check_fingerprint(1, 0)));
  const PinnedArray<Location> location = pinned(std::vector<Location>(count, 77));
  const PinnedArray<std::uint8_t> done = pinned(std::vector<std::uint8_t>(count, 9));
  ASSERT_EQ(stream->insert(table.index(), f.at(), location.at(), done.at(), 1), DeviceStatus::ok);
  ASSERT_EQ(stream->erase(table.index(), f.at(), location.at(), done.at(), count), DeviceStatus::ok);
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  EXPECT_EQ(std::count(done.data(), done.data() + count, 1), 1);
  EXPECT_EQ(std::count(done.data(), done.data() + count, 0), count - 1);
}

TEST_P(DeviceContract, ApplyStoresTheLastOfSeveral) {
  struct Case {
    std::uint32_t buckets, count;
    std::uint64_t range;  // of cells that are named
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
      ASSERT_EQ(stream->apply(table.index(), table.winners(), from, c.count), DeviceStatus::ok);
      ASSERT_EQ(finish(*stream), DeviceStatus::ok);
      ASSERT_EQ(download(DevicePtr<std::uint64_t>(table.buckets().address()), table.cells()), expected);
    }
    const std::vector<std::uint32_t> winners = download(table.winners(), table.cells());
    EXPECT_EQ(std::ranges::count(winners, 0u), static_cast<std::ptrdiff_t>(table.cells()));
  }
}

// --- order and completion

TEST_P(DeviceContract, MarksAreDoneInOrder) {
  const DeviceArray<std::uint64_t> array(*device, 1 << 16);
  const DeviceArray<std::byte> large(*device, contract_effort * (32u << 20));
  // For a while many marks are not done.
  for (int i = 0; i < 6; ++i) ASSERT_EQ(stream->zero(large.bytes_at(), large.bytes()), DeviceStatus::ok);
  std::vector<DeviceMark> marks;
  for (int i = 0; i < 3000; ++i) {
    if (i % 16 == 0) {
      ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
    }
    marks.push_back(stream->mark());
  }
  std::size_t done = 0;  // those before it were seen to be
  Random random(4);
  for (int polls = 0; polls < 200; ++polls) {
    const std::size_t i = random.below(marks.size());
    const DeviceStatus status = stream->poll(marks[i]);
    ASSERT_TRUE(status == DeviceStatus::ok || status == DeviceStatus::pending);
    ASSERT_TRUE(status == DeviceStatus::ok || i >= done);
    if (status == DeviceStatus::ok) done = std::max(done, i);
  }
  EXPECT_EQ(stream->wait(marks.back(), 2min), DeviceStatus::ok);
  for (const DeviceMark mark : marks) ASSERT_EQ(stream->poll(mark), DeviceStatus::ok);
  EXPECT_EQ(stream->wait(marks.front(), 0ns), DeviceStatus::ok);
  EXPECT_EQ(stream->wait(stream->mark(), std::chrono::nanoseconds::max()), DeviceStatus::ok);
}

TEST_P(DeviceContract, WaitGivesUp) {
  // So much that it is not done at once.
  const DeviceArray<std::byte> array(*device, contract_effort * (32u << 20));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
  const DeviceMark mark = stream->mark();
  EXPECT_EQ(stream->wait(mark, 0ns), DeviceStatus::pending);
  EXPECT_EQ(stream->wait(mark, 1us), DeviceStatus::pending);
  EXPECT_EQ(stream->wait(mark, 2min), DeviceStatus::ok);
}

TEST_P(DeviceContract, StreamsWaitForEachOther) {
  constexpr std::uint64_t count = 1 << 16;
  const std::unique_ptr<Stream> other = device->make_stream();
  const DeviceArray<std::uint64_t> array(*device, count);
  const PinnedArray<std::uint64_t> from(*device, count), to(*device, count);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    std::fill_n(from.data(), count, round);
    ASSERT_EQ(stream->copy_to_device(array.bytes_at(), from.data(), from.bytes()), DeviceStatus::ok);
    ASSERT_EQ(other->after(*stream, stream->mark()), DeviceStatus::ok);
    ASSERT_EQ(other->copy_to_host(to.data(), array.bytes_at(), to.bytes()), DeviceStatus::ok);
    const DeviceMark copied = other->mark();
    ASSERT_EQ(stream->after(*other, copied), DeviceStatus::ok);  // the next round's copy
    ASSERT_EQ(stream->after(*stream, stream->mark()), DeviceStatus::ok);
    ASSERT_EQ(other->wait(copied, 2min), DeviceStatus::ok);
    ASSERT_EQ(std::count(to.data(), to.data() + count, round), static_cast<std::ptrdiff_t>(count));
  }
}

TEST_P(DeviceContract, AStreamMayGoBeforeThoseThatWaitForIt) {
  constexpr std::uint64_t count = 1 << 20;
  const DeviceArray<std::uint64_t> array(*device, count);
  const PinnedArray<std::uint64_t> from(*device, count), to(*device, count);
  std::fill_n(from.data(), count, 7);
  std::fill_n(to.data(), count, 0);
  std::unique_ptr<Stream> other = device->make_stream();
  ASSERT_EQ(other->copy_to_device(array.bytes_at(), from.data(), from.bytes()), DeviceStatus::ok);
  ASSERT_EQ(stream->after(*other, other->mark()), DeviceStatus::ok);
  ASSERT_EQ(stream->copy_to_host(to.data(), array.bytes_at(), to.bytes()), DeviceStatus::ok);
  other.reset();
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  EXPECT_EQ(std::count(to.data(), to.data() + count, 7u), static_cast<std::ptrdiff_t>(count));
}

TEST_P(DeviceContract, TellsTheTimeBetweenMarks) {
  const DeviceArray<std::byte> array(*device, 64 << 20);
  ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  const auto began = std::chrono::steady_clock::now();
  const DeviceMark from = stream->mark();
  for (int i = 0; i < 8; ++i) ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
  const DeviceMark to = stream->mark();
  ASSERT_EQ(stream->wait(to, 2min), DeviceStatus::ok);
  const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - began;
  const std::uint64_t ns = stream->elapsed_ns(from, to);
  EXPECT_GT(ns, 20'000u);  // 512 MiB
  EXPECT_LE(ns, static_cast<std::uint64_t>(passed.count()) + 1000);
  EXPECT_EQ(stream->elapsed_ns(to, from), 0u);
}

TEST_P(DeviceContract, StreamsOfSeveralThreads) {
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
      ASSERT_EQ(own->search(table.index(), f.at(), location.at(), count), DeviceStatus::ok);
      ASSERT_EQ(finish(*own), DeviceStatus::ok);
      for (std::uint32_t i = 0; i < count; ++i)
        ASSERT_TRUE(location[i] == key[i] + 1 || (location[i] == no_location && key[i] >= keys));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(work, i + 10);
  // Meanwhile what is stored changes nothing: cells as they are, and one that no key names.
  const PinnedArray<DirtyCell> cells(*device, 2000);
  for (std::uint32_t i = 0; i < 2000; ++i) cells[i] = {i, host.view().buckets[i / bucket_cells].cell[i % bucket_cells]};
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(stream->apply(table.index(), table.winners(), cells.at(), 2000), DeviceStatus::ok);
    ASSERT_EQ(finish(*stream), DeviceStatus::ok);
  }
  for (std::thread& thread : threads) thread.join();
}

// --- loss

TEST_P(DeviceContract, AbandonedIsLostForGood) {
  const TestedTable table(*device, *stream, 1024);
  const PinnedArray<std::uint64_t> block(*device, 1 << 16);
  const DeviceArray<std::uint64_t> array(*device, 1 << 16);
  const DeviceMark before = stream->mark();
  ASSERT_EQ(stream->wait(before, 2min), DeviceStatus::ok);
  ASSERT_EQ(stream->copy_to_device(array.bytes_at(), block.data(), block.bytes()), DeviceStatus::ok);
  const DeviceMark mark = stream->mark();
  const std::unique_ptr<Stream> other = device->make_stream();
  device->abandon();
  EXPECT_TRUE(device->lost());
  EXPECT_NE(device->lost_reason(), "");
  device->abandon();
  const DeviceIndex index = table.index();
  EXPECT_EQ(stream->poll(before), DeviceStatus::lost);
  EXPECT_EQ(stream->poll(mark), DeviceStatus::lost);
  EXPECT_EQ(stream->wait(mark, 2min), DeviceStatus::lost);
  EXPECT_EQ(stream->wait(stream->mark(), 2min), DeviceStatus::lost);
  EXPECT_EQ(stream->elapsed_ns(before, mark), 0u);
  EXPECT_EQ(stream->copy_to_device(array.bytes_at(), block.data(), block.bytes()), DeviceStatus::lost);
  EXPECT_EQ(stream->copy_to_host(block.data(), array.bytes_at(), block.bytes()), DeviceStatus::lost);
  EXPECT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::lost);
  EXPECT_EQ(stream->search(index, {}, {}, 1), DeviceStatus::lost);
  EXPECT_EQ(stream->insert(index, {}, {}, {}, 1), DeviceStatus::lost);
  EXPECT_EQ(stream->erase(index, {}, {}, {}, 1), DeviceStatus::lost);
  EXPECT_EQ(stream->change(index, {}, {}, 1), DeviceStatus::lost);
  EXPECT_EQ(stream->apply(index, table.winners(), {}, 1), DeviceStatus::lost);
  EXPECT_EQ(stream->search(index, {}, {}, 0), DeviceStatus::lost);
  EXPECT_EQ(other->after(*stream, mark), DeviceStatus::lost);
  EXPECT_EQ(device->memory_free_bytes(), 0u);
  const auto status_of = [](const auto& call) {
    try {
      call();
    } catch (const DeviceError& error) {
      return error.status();
    }
    return DeviceStatus::ok;
  };
  EXPECT_EQ(status_of([&] { (void)device->make_stream(); }), DeviceStatus::lost);
  EXPECT_EQ(status_of([&] { (void)device->allocate(1); }), DeviceStatus::lost);
  EXPECT_EQ(status_of([&] { (void)device->allocate_pinned(1); }), DeviceStatus::lost);
}

TEST_P(DeviceContract, AbandonEndsAWait) {
  const DeviceArray<std::byte> array(*device, contract_effort * (32u << 20));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
  std::thread waiter([&] { EXPECT_EQ(stream->wait(stream->mark(), 2min), DeviceStatus::lost); });
  device->abandon();
  waiter.join();
}

}  // namespace
}  // namespace tandem
