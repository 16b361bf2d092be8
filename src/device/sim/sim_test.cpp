// What `sim` adds to a device's contract: checked addresses, modelled times, faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "device/sim/sim_device.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto long_enough = 2min;  // for anything that is expected to happen

// One device, one stream, and memory to copy.
struct Rig {
  explicit Rig(const SimOptions& options = {})
      : device(make_sim_device(options)), stream(device->make_stream()), array(*device, 4096), block(*device, 4096) {
    std::memset(block.data(), 0, block.bytes());
  }
  DeviceStatus copy(std::uint64_t count = 16) {
    return stream->copy_to_device(array.bytes_at(), block.data(), count * sizeof(std::uint32_t));
  }
  DeviceStatus finish() { return stream->wait(stream->mark(), long_enough); }

  std::unique_ptr<SimDevice> device;
  std::unique_ptr<Stream> stream;
  DeviceArray<std::uint32_t> array;
  PinnedArray<std::uint32_t> block;
};

// --- addresses

TEST(SimAddresses, AreNoneOfTheHosts) {
  const Rig rig;
  for (const std::uint64_t address : {rig.array.at().address(), rig.block.at().address()}) {
    const std::uint64_t above = address >> 48 & 0xff;
    EXPECT_TRUE(above != 0 && above != 0xff);
  }
}

TEST(SimAddresses, OutsideAnAllocationFail) {
  Rig rig;
  const Rig other({.number = 1});
  const std::uint64_t bytes = rig.array.bytes();
  std::vector<std::byte> pageable(64);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at(), bytes), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at(), bytes + 1), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at() + 1, bytes), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at() + bytes, 1), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero(DevicePtr<std::byte>(rig.array.at().address() - 1), 1), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at(), UINT64_MAX), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero({}, 1), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->zero(other.array.bytes_at(), 1), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->copy_to_device(rig.array.bytes_at(), pageable.data(), 64), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->copy_to_device(rig.array.bytes_at(), rig.block.data() + 4095, 8), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->copy_to_host(pageable.data(), rig.array.bytes_at(), 64), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->copy_to_host(other.block.data(), rig.array.bytes_at(), 64), DeviceStatus::failed);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
}

// A test kernel: to[i] = from[i] + 1.
struct AddOneArguments {
  DevicePtr<const std::uint32_t> from;
  DevicePtr<std::uint32_t> to;
  std::uint32_t count = 0;
  bool declared = true;  // else its arguments omit what it writes

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const {
    if (count == 13) return use.refuse();
    use.add(from, count);
    if (declared) use.add(to, count);
  }
};
bool add_one_here(const AddOneArguments& a, const HostMemory& memory) noexcept {
  const std::uint32_t* const from = memory.at(a.from);
  std::uint32_t* const to = memory.at(a.to);
  if (from == nullptr || to == nullptr) return false;
  for (std::uint32_t i = 0; i < a.count; ++i) to[i] = from[i] + 1;
  return true;
}
const Kernel<AddOneArguments> add_one{"add one", add_one_here, nullptr};

TEST(SimKernels, WorkOnCopiesOfTheirArguments) {
  Rig rig;
  rig.block[0] = 5;
  rig.device->hang();
  {
    AddOneArguments arguments{rig.block.at(), rig.array.at(7), 1};
    ASSERT_EQ(rig.stream->launch(add_one, arguments), DeviceStatus::ok);
    arguments = {};
  }
  ASSERT_EQ(rig.stream->launch(add_one, {rig.array.at(7), rig.block.at(2), 1}), DeviceStatus::ok);
  rig.device->resume();
  ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  EXPECT_EQ(rig.block[2], 7u);
}

TEST(SimKernels, HaveTheMemoryThatTheirArgumentsName) {
  Rig rig;
  const auto refused = DeviceStatus::failed;
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.array.at(), 4096}), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(1), rig.array.at(), 4096}), refused);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.array.at(1), 4096}), refused);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), {}, 1}), refused);
  EXPECT_EQ(
      rig.stream->launch(add_one, {DevicePtr<const std::uint32_t>(rig.block.at().address() + 2), rig.array.at(), 1}),
      refused);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.array.at(), 13}), refused);
  EXPECT_EQ(rig.stream->launch(add_one, {{}, {}, 0}), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
  // A kernel cannot reach memory that the arguments omit, nor write memory that they name read-only.
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.array.at(), 4, false}), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), refused);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.block.at(1), 4, false}), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), refused);
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.block.at(1), 4}), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
}

TEST(SimKernels, FailAndAreRefusedOnDemand) {
  Rig rig;
  rig.block[0] = 5, rig.block[1] = 0;
  rig.device->refuse();
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.block.at(1), 1}), DeviceStatus::failed);
  rig.device->fail();
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.block.at(1), 1}), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), DeviceStatus::failed);
  EXPECT_EQ(rig.block[1], 0u);
  rig.device->lose();
  EXPECT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.block.at(1), 1}), DeviceStatus::lost);
  EXPECT_EQ(rig.stream->launch(add_one, {{}, {}, 0}), DeviceStatus::lost);
}

TEST(SimAddresses, ReleasedBeforeTheWorkBeginsFail) {
  Rig rig;
  DeviceArray<std::uint32_t> gone(*rig.device, 16);
  rig.device->hang();
  ASSERT_EQ(rig.stream->zero(gone.bytes_at(), gone.bytes()), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  gone = {};
  rig.device->resume();
  EXPECT_EQ(rig.stream->wait(mark, long_enough), DeviceStatus::failed);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
}

TEST(SimMemory, HasItsLimit) {
  const auto device = make_sim_device({.memory_bytes = 10'000});
  EXPECT_EQ(device->info().memory_bytes, 10'000u);
  const DeviceArray<std::byte> most(*device, 9'000);
  EXPECT_EQ(device->memory_free_bytes(), 1'000u);
  EXPECT_THROW(DeviceArray<std::byte>(*device, 1'001), DeviceError);
  const DeviceArray<std::byte> rest(*device, 1'000);
  EXPECT_EQ(device->memory_free_bytes(), 0u);
  const PinnedArray<std::byte> block(*device, 100'000);  // of the host's memory
}

TEST(SimMemory, IsNotZero) {
  Rig rig;
  ASSERT_EQ(rig.stream->copy_to_host(rig.block.data(), rig.array.bytes_at(), rig.block.bytes()), DeviceStatus::ok);
  ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  EXPECT_EQ(rig.block[17], 0xa5a5a5a5u);
}

TEST(SimMemory, IsNotZeroAnywhereInALargeBlock) {
  Rig rig;
  const PinnedArray<std::uint8_t> block(*rig.device, 5 << 20);
  constexpr std::size_t window = 64 << 10;
  for (std::size_t at = 0; at < block.count(); at += window)
    EXPECT_GT(std::count(block.data() + at, block.data() + at + window, 0xa5), 4000) << at;
}

TEST(SimMemory, APartOfALargeBlockIsSetToZero) {
  Rig rig;
  const DeviceArray<std::uint8_t> array(*rig.device, 4 << 20);
  const PinnedArray<std::uint8_t> block(*rig.device, 4 << 20);
  std::memset(block.data(), 7, block.bytes());
  ASSERT_EQ(rig.stream->copy_to_device(array.bytes_at(), block.data(), block.bytes()), DeviceStatus::ok);
  constexpr std::size_t begin = 4096 * 3 + 77, bytes = (2 << 20) + 1234;
  ASSERT_EQ(rig.stream->zero(array.bytes_at(begin), bytes), DeviceStatus::ok);
  ASSERT_EQ(rig.stream->copy_to_host(block.data(), array.bytes_at(), block.bytes()), DeviceStatus::ok);
  ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  for (std::size_t i = 0; i < block.count(); ++i) ASSERT_EQ(block[i], i - begin < bytes ? 0 : 7) << i;
}

// --- times. Only lower bounds: test machines are busy.

TEST(SimTimes, LatencyPassesOnceForWhatIsQueuedTogether) {
  Rig rig({.latency = 20ms});
  const auto began = Clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(rig.copy(), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  EXPECT_TRUE(rig.stream->wait(mark, 1ms) == DeviceStatus::pending || Clock::now() - began >= 20ms);
  EXPECT_EQ(rig.stream->wait(mark, long_enough), DeviceStatus::ok);
  EXPECT_GE(Clock::now() - began, 20ms);
  EXPECT_LT(Clock::now() - began, 19s);  // not 1000 times
}

TEST(SimTimes, CopiesTakeTheirBytes) {
  Rig rig({.copy_bytes_per_s = 1e6});  // 16 KiB: 16 ms
  const auto began = Clock::now();
  const DeviceMark from = rig.stream->mark();
  ASSERT_EQ(rig.copy(4096), DeviceStatus::ok);
  const DeviceMark between = rig.stream->mark();
  ASSERT_EQ(rig.stream->copy_to_host(rig.block.data(), rig.array.bytes_at(), rig.block.bytes()), DeviceStatus::ok);
  const DeviceMark to = rig.stream->mark();
  ASSERT_EQ(rig.stream->wait(to, long_enough), DeviceStatus::ok);
  EXPECT_GE(Clock::now() - began, 32ms);
  EXPECT_GE(rig.stream->elapsed_ns(from, between), 16'000'000u);
  EXPECT_GE(rig.stream->elapsed_ns(from, to), 32'000'000u);
}

TEST(SimTimes, StreamsShareTheEngines) {
  Rig rig({.copy_bytes_per_s = 1e6});
  const std::unique_ptr<Stream> other = rig.device->make_stream();
  const DeviceArray<std::uint32_t> to(*rig.device, 4096);
  const auto began = Clock::now();
  ASSERT_EQ(rig.copy(4096), DeviceStatus::ok);
  ASSERT_EQ(other->copy_to_device(to.bytes_at(), rig.block.data(), to.bytes()), DeviceStatus::ok);
  EXPECT_EQ(other->wait(other->mark(), long_enough), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
  EXPECT_GE(Clock::now() - began, 32ms);
}

TEST(SimTimes, KernelsTakeTheirQueriesInRounds) {
  Rig rig({.lanes = 100, .lane_time = 5ms});
  const DeviceMark from = rig.stream->mark();
  ASSERT_EQ(rig.stream->launch(add_one, {rig.block.at(), rig.array.at(), 301}), DeviceStatus::ok);
  const DeviceMark to = rig.stream->mark();
  ASSERT_EQ(rig.stream->wait(to, long_enough), DeviceStatus::ok);
  EXPECT_GE(rig.stream->elapsed_ns(from, to), 19'500'000u);  // 4 rounds
}

TEST(SimTimes, SlowMultipliesThem) {
  Rig rig({.latency = 2ms});
  rig.device->slow(15);
  const auto began = Clock::now();
  ASSERT_EQ(rig.copy(), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  EXPECT_TRUE(rig.stream->wait(mark, 10ms) == DeviceStatus::pending || Clock::now() - began >= 30ms);
  EXPECT_EQ(rig.stream->wait(mark, long_enough), DeviceStatus::ok);
  EXPECT_GE(Clock::now() - began, 30ms);
}

// --- faults

TEST(SimFaults, RefusesTheNth) {
  Rig rig;
  rig.device->refuse();
  EXPECT_EQ(rig.copy(), DeviceStatus::failed);
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  rig.device->refuse(3);
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  EXPECT_EQ(rig.copy(), DeviceStatus::failed);
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  rig.device->refuse();
  rig.device->refuse(0);
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  EXPECT_EQ(rig.finish(), DeviceStatus::ok);
  EXPECT_FALSE(rig.device->lost());
}

TEST(SimFaults, FailsTheNthAndTheMarkBehindIt) {
  Rig rig;
  rig.block[0] = 1;
  ASSERT_EQ(rig.copy(), DeviceStatus::ok);
  ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  rig.block[0] = 2;
  rig.device->fail(2);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at(100), 4), DeviceStatus::ok);
  const DeviceMark before = rig.stream->mark();
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->zero(rig.array.bytes_at(100), 4), DeviceStatus::ok);
  const DeviceMark behind = rig.stream->mark();
  const DeviceMark later = rig.stream->mark();
  EXPECT_EQ(rig.stream->wait(later, long_enough), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->poll(before), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->poll(behind), DeviceStatus::failed);
  EXPECT_EQ(rig.stream->wait(behind, long_enough), DeviceStatus::failed);
  ASSERT_EQ(rig.stream->copy_to_host(rig.block.data(), rig.array.bytes_at(), 4), DeviceStatus::ok);
  ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  EXPECT_EQ(rig.block[0], 1u);
}

TEST(SimFaults, HangsUntilItIsResumed) {
  Rig rig;
  rig.device->hang();
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  EXPECT_EQ(rig.stream->wait(mark, 20ms), DeviceStatus::pending);
  rig.device->resume();
  EXPECT_EQ(rig.stream->wait(mark, long_enough), DeviceStatus::ok);
}

TEST(SimFaults, AbandonEndsAHang) {
  Rig rig;
  rig.device->hang();
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  std::thread waiter([&] { EXPECT_EQ(rig.stream->wait(mark, long_enough), DeviceStatus::lost); });
  std::this_thread::sleep_for(5ms);
  rig.device->abandon();
  waiter.join();
  EXPECT_EQ(rig.copy(), DeviceStatus::lost);
}

TEST(SimFaults, AHangingStreamCanBeDestroyed) {
  Rig rig;
  const std::unique_ptr<Stream> other = rig.device->make_stream();
  rig.device->hang();
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  EXPECT_EQ(other->after(*rig.stream, rig.stream->mark()), DeviceStatus::ok);
  const DeviceMark behind = other->mark();
  rig.stream.reset();
  EXPECT_EQ(other->wait(behind, 5ms), DeviceStatus::pending);
  rig.device->resume();
  EXPECT_EQ(other->wait(behind, long_enough), DeviceStatus::failed);  // the work that it waited for was dropped
  EXPECT_EQ(other->wait(other->mark(), long_enough), DeviceStatus::ok);
}

TEST(SimFaults, StreamsThatWaitForAHangingOneCanBeDestroyed) {
  Rig rig;
  std::unique_ptr<Stream> other = rig.device->make_stream();
  rig.device->hang();
  EXPECT_EQ(rig.copy(), DeviceStatus::ok);
  const DeviceMark mark = rig.stream->mark();
  EXPECT_EQ(other->after(*rig.stream, mark), DeviceStatus::ok);
  EXPECT_EQ(rig.stream->after(*other, other->mark()), DeviceStatus::ok);
  EXPECT_EQ(other->after(*rig.stream, rig.stream->mark()), DeviceStatus::ok);
  std::this_thread::sleep_for(2ms);
  other.reset();
}

TEST(SimFaults, LostInTheMiddleOfAnything) {
  for (int i = 0; i < 200; ++i) {
    Rig rig(i % 2 == 0 ? SimOptions{} : SimOptions{.latency = 50us});
    std::thread other([&] {
      std::unique_ptr<Stream> own;
      try {
        own = rig.device->make_stream();
      } catch (const DeviceError& error) {
        EXPECT_EQ(error.status(), DeviceStatus::lost);
      }
      while (own != nullptr && own->wait(own->mark(), long_enough) == DeviceStatus::ok) {
        (void)own->after(*rig.stream, 1);
        (void)own->zero(rig.array.bytes_at(64), 64);
      }
    });
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
      rig.device->lose();
    });
    while (rig.copy() == DeviceStatus::ok && rig.finish() == DeviceStatus::ok) {
    }
    EXPECT_TRUE(rig.device->lost());
    killer.join();
    other.join();
  }
}

TEST(SimFaults, PinnedMemoryOfALostDeviceStays) {
  Rig rig;
  PinnedArray<std::uint32_t> block(*rig.device, 16);
  std::uint32_t* const at = block.data();
  at[3] = 42;
  rig.device->lose();
  block = {};
  EXPECT_EQ(at[3], 42u);
}

TEST(SimFaults, StreamsMayOutliveTheDevice) {
  auto device = make_sim_device();
  const std::unique_ptr<Stream> stream = device->make_stream();
  device.reset();
  EXPECT_EQ(stream->wait(stream->mark(), long_enough), DeviceStatus::ok);
}

TEST(SimSpeed, ThousandsOfSmallBatches) {
  Rig rig;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(rig.copy(), DeviceStatus::ok);
    ASSERT_EQ(rig.finish(), DeviceStatus::ok);
  }
}

}  // namespace
}  // namespace tandem
