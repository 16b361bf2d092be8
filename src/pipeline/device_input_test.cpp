// What a device can read of a batch: its queries, and keys and values in the batch's input, by the host's pointers.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "device/sim/sim_device.hpp"
#include "pipeline/runner.hpp"
#include "task/parse.hpp"

namespace tandem {
namespace {

using std::string;
using std::string_view;

constexpr std::uint64_t seed = 7;

// What the kernel saw of a query.
struct Seen {
  Fingerprint fingerprint;
  std::uint64_t value_bytes;
  char first_of_value;
  bool found_key, found_value;
};

struct ReadArguments {
  DeviceInput input;
  DevicePtr<Seen> seen;
  std::uint32_t count;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const {
    use.add(input.queries, count);
    use.add(input.arena, input.arena_bytes);
    use.add(seen, count);
  }
};

bool read_queries(const ReadArguments& a, const HostMemory& memory) noexcept {
  InputView view{};
  view.queries = memory.at(a.input.queries);
  view.arena = memory.at(a.input.arena);
  view.arena_bytes = a.input.arena_bytes;
  view.host_address = a.input.host_address;
  Seen* const seen = memory.at(a.seen);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const Query& q = view.queries[i];
    const char* const key = view.key(i);
    const char* const value = q.opcode == Opcode::store ? view.value(i) : nullptr;
    seen[i] = {.fingerprint = key != nullptr ? fingerprint_of(key, q.key_bytes, seed) : Fingerprint{},
               .value_bytes = q.opcode == Opcode::store ? q.value_bytes : 0,
               .first_of_value = value != nullptr ? *value : '\0',
               .found_key = key != nullptr,
               .found_value = value != nullptr};
  }
  return true;
}
constexpr Kernel<ReadArguments> read_kernel{"read_queries", read_queries, nullptr};

class DeviceInputTest : public testing::Test {
 protected:
  static constexpr std::uint32_t capacity = 64;
  static constexpr std::uint64_t input_bytes = 4096;

  static std::vector<std::unique_ptr<DevicePart>> parts(Device& device, unsigned count) {
    std::vector<std::unique_ptr<DevicePart>> all;
    for (unsigned i = 0; i < count; ++i)
      all.push_back(std::make_unique<DevicePart>(device, capacity, 0, i == 0 ? input_bytes : 0));
    return all;
  }
  std::vector<Seen> read(Flight& flight) {
    const std::uint32_t count = flight.batch().size();
    const PinnedArray<Seen> seen(*device_, count);
    const auto stream = device_->make_stream();
    EXPECT_EQ(stream->launch(read_kernel, {flight.input_for_devices(), seen.at(), count}), DeviceStatus::ok);
    EXPECT_EQ(stream->wait(stream->mark(), std::chrono::seconds(60)), DeviceStatus::ok);
    return {seen.data(), seen.data() + count};
  }

  std::unique_ptr<SimDevice> device_ = make_sim_device();
  EpochDomain epochs_{4};
};

// Of one device, and of two, which share the input; with a key that the parser decodes and one that lies elsewhere.
TEST_F(DeviceInputTest, IsWhatTheParserLeft) {
  for (const unsigned devices : {1u, 2u}) {
    Flight flight(epochs_, parts(*device_, devices), capacity);
    Batch& batch = flight.batch();
    const string_view text =
        "get first\r\nset second 1 0 5\r\nvalue\r\nget third "
        "fourth\r\nmg c2l4dGg= v b\r\nma number N60 J7\r\n";
    ASSERT_TRUE(batch.input().has_room(text.size()));
    char* const input = batch.input().room();
    std::memcpy(input, text.data(), text.size());
    batch.input().take(text.size());
    const ProtocolOptions options;
    const Clock clock;
    Parser parser(options, clock);
    TaskCounters counters;
    ASSERT_EQ(task::parse(counters, batch, {parser, input, input + text.size(), 0}, false).consumed, text.size());
    const string elsewhere = "elsewhere";
    Query& q = batch.next();
    q = batch.query(0);
    q.key = elsewhere.data();
    q.key_bytes = static_cast<std::uint8_t>(elsewhere.size());
    batch.commit();

    const std::vector<Seen> seen = read(flight);
    const string_view keys[] = {"first", "second", "third", "fourth", "sixth", "number"};
    ASSERT_EQ(seen.size(), std::size(keys) + 1);
    for (std::size_t i = 0; i < std::size(keys); ++i) {
      EXPECT_TRUE(seen[i].found_key) << keys[i];
      EXPECT_EQ(seen[i].fingerprint, fingerprint_of(keys[i], seed)) << keys[i];
    }
    EXPECT_TRUE(seen[1].found_value);
    EXPECT_EQ(seen[1].value_bytes, 5u);
    EXPECT_EQ(seen[1].first_of_value, 'v');
    EXPECT_FALSE(seen.back().found_key);
    EXPECT_TRUE(batch.input().holds(batch.query(5).value, batch.query(5).value_bytes));  // the initial number
  }
}

// A lost device may write to the columns that it writes, and to no others: the batch is parsed already.
TEST_F(DeviceInputTest, StaysWhenTheColumnsThatADeviceWritesAreReplaced) {
  Flight flight(epochs_, parts(*device_, 1), capacity);
  const Query* const queries = flight.batch().queries();
  const char* const arena = flight.batch().input().begin();
  flight.batch().use_own_columns();
  EXPECT_EQ(flight.batch().queries(), queries);
  EXPECT_EQ(flight.batch().input().begin(), arena);
}

TEST_F(DeviceInputTest, WithoutADeviceIsTheBatchsOwn) {
  Flight flight(epochs_, {}, capacity, input_bytes);
  EXPECT_EQ(flight.batch().input().bytes(), input_bytes);
  EXPECT_NE(flight.batch().input().begin(), nullptr);
}

TEST(InputView, FindsNothingThatReachesOutOfTheArena) {
  const char host[16] = {};
  const char device[16] = {};
  const InputView view{nullptr, device, sizeof device, reinterpret_cast<std::uintptr_t>(host)};
  EXPECT_EQ(view.find(host, 16), device);
  EXPECT_EQ(view.find(host + 15, 1), device + 15);
  EXPECT_EQ(view.find(host + 15, 2), nullptr);
  EXPECT_EQ(view.find(host - 1, 1), nullptr);
  EXPECT_EQ(view.find(host, 17), nullptr);
}

}  // namespace
}  // namespace tandem
