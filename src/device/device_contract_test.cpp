// Every kind of device satisfies device.hpp: `sim` always, and each GPU of this machine.
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
  EXPECT_EQ(stream->copy_to_device({}, nullptr, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->copy_to_host(nullptr, {}, 0), DeviceStatus::ok);
  EXPECT_EQ(stream->zero({}, 0), DeviceStatus::ok);
  EXPECT_EQ(finish(*stream), DeviceStatus::ok);
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
  std::size_t done = 0;  // all before it are known to be done
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
  const DeviceArray<std::byte> array(*device, contract_effort * (32u << 20));
  for (const std::chrono::nanoseconds patience : {0ns, 1000ns}) {
    // Whether the work is done by then depends on the machine's load: at last there is more than a turn's.
    DeviceStatus status = DeviceStatus::ok;
    for (int tries = 0; tries < 40 && status == DeviceStatus::ok; ++tries) {
      for (int i = 0; i < 20 << std::min(tries, 10); ++i)
        ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
      status = stream->wait(stream->mark(), patience);
    }
    EXPECT_EQ(status, DeviceStatus::pending);
    EXPECT_EQ(stream->wait(stream->mark(), 2min), DeviceStatus::ok);
  }
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

TEST_P(DeviceContract, BackgroundStreamsWorkAsOthersDo) {
  constexpr std::uint64_t count = 1 << 16;
  const std::unique_ptr<Stream> background = device->make_background_stream();
  const DeviceArray<std::uint64_t> array(*device, count);
  const PinnedArray<std::uint64_t> from(*device, count);
  std::fill_n(from.data(), count, 5);
  ASSERT_EQ(background->copy_to_device(array.bytes_at(), from.data(), from.bytes()), DeviceStatus::ok);
  ASSERT_EQ(stream->after(*background, background->mark()), DeviceStatus::ok);
  EXPECT_EQ(download(array.at(), count), std::vector<std::uint64_t>(count, 5));
  ASSERT_EQ(background->after(*stream, stream->mark()), DeviceStatus::ok);
  ASSERT_EQ(background->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
  ASSERT_EQ(finish(*background), DeviceStatus::ok);
  EXPECT_EQ(download(array.at(), count), std::vector<std::uint64_t>(count, 0));
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

// --- loss

TEST_P(DeviceContract, AbandonedIsLostForGood) {
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
  EXPECT_EQ(stream->poll(before), DeviceStatus::lost);
  EXPECT_EQ(stream->poll(mark), DeviceStatus::lost);
  EXPECT_EQ(stream->wait(mark, 2min), DeviceStatus::lost);
  EXPECT_EQ(stream->wait(stream->mark(), 2min), DeviceStatus::lost);
  EXPECT_EQ(stream->elapsed_ns(before, mark), 0u);
  EXPECT_EQ(stream->copy_to_device(array.bytes_at(), block.data(), block.bytes()), DeviceStatus::lost);
  EXPECT_EQ(stream->copy_to_host(block.data(), array.bytes_at(), block.bytes()), DeviceStatus::lost);
  EXPECT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::lost);
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
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(stream->zero(array.bytes_at(), array.bytes()), DeviceStatus::ok);
  std::thread waiter([&] { EXPECT_EQ(stream->wait(stream->mark(), 2min), DeviceStatus::lost); });
  device->abandon();
  waiter.join();
}

}  // namespace
}  // namespace tandem
