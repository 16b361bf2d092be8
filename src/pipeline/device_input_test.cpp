// What a device can read of a batch: its queries, and keys and values in the batch's input, addressed by the host's
// pointers.
#include <gtest/gtest.h>

#include <algorithm>
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

// A query as the kernel saw it.
struct Seen {
  Fingerprint fingerprint;  // of the key at the pointer
  char first_of_value;
  Opcode opcode;
  bool has_key, has_value;
};

struct ReadArguments {
  DevicePtr<const DeviceQuery> query;
  DevicePtr<const char> input;
  std::uint64_t input_bytes;
  DevicePtr<Seen> seen;
  std::uint32_t count;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const {
    use.add(query, count);
    use.add(input, input_bytes);
    use.add(seen, count);
  }
};

bool read_queries(const ReadArguments& a, const HostMemory& memory) noexcept {
  const DeviceQuery* const queries = memory.at(a.query);
  const char* const input = memory.at(a.input);
  Seen* const seen = memory.at(a.seen);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const DeviceQuery& q = queries[i];
    seen[i] = {};
    seen[i].opcode = q.opcode;
    seen[i].has_key = q.key_at != DeviceQuery::outside;
    seen[i].has_value = q.value_at != DeviceQuery::outside;
    if (seen[i].has_key) seen[i].fingerprint = fingerprint_of(input + q.key_at, q.key_bytes, seed);
    if (seen[i].has_value) seen[i].first_of_value = input[q.value_at];
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
    const ReadArguments arguments{flight.device_queries(), flight.device_input(), input_bytes, seen.at(), count};
    EXPECT_EQ(stream->launch(read_kernel, arguments), DeviceStatus::ok);
    EXPECT_EQ(stream->wait(stream->mark(), std::chrono::seconds(60)), DeviceStatus::ok);
    return {seen.data(), seen.data() + count};
  }

  std::unique_ptr<SimDevice> device_ = make_sim_device();
  EpochDomain epochs_{4};
};

// With one device, and with two, which share the input; with a key that the parser decodes and one outside the input.
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

    batch.plan = Plan::parse("CPU[RV PP MM] GPU[IN KC] CPU[RD WR SD]");
    flight.describe(seed);
    const std::vector<Seen> seen = read(flight);
    const string_view keys[] = {"first", "second", "third", "fourth", "sixth", "number"};
    ASSERT_EQ(seen.size(), std::size(keys) + 1);
    for (std::uint32_t i = 0; i < std::size(keys); ++i) {
      EXPECT_TRUE(seen[i].has_key) << keys[i];
      EXPECT_EQ(seen[i].fingerprint, batch.fingerprints()[i]) << keys[i];
      EXPECT_EQ(seen[i].fingerprint, fingerprint_of(keys[i], seed)) << keys[i];
      EXPECT_EQ(seen[i].opcode, batch.query(i).opcode) << keys[i];
      EXPECT_EQ(seen[i].has_value, i == 1) << keys[i];
    }
    EXPECT_EQ(seen[1].first_of_value, 'v');
    EXPECT_FALSE(seen.back().has_key);
  }
}

// Only the devices' front of the batch is described, and its keys only where the device compares them.
TEST_F(DeviceInputTest, IsDescribedAsFarAsThePlanAsks) {
  Flight flight(epochs_, parts(*device_, 1), capacity);
  Batch& batch = flight.batch();
  const string key = "key";
  Query get{};
  get.key = batch.input().bring(key).data();
  get.key_bytes = 3;
  get.opcode = Opcode::get;
  std::fill_n(batch.queries(), capacity, get);
  batch.resize(capacity);
  const auto described = [&](std::string_view plan) {
    Query none{};
    none.opcode = Opcode::nothing;
    batch.plan = Plan::parse("CPU[RV PP MM] GPU[IN KC] CPU[RD WR SD]");
    std::fill_n(batch.queries(), capacity, none);
    flight.describe(seed);
    std::fill_n(batch.queries(), capacity, get);
    batch.plan = Plan::parse(plan);
    flight.describe(seed);
    const std::vector<Seen> seen = read(flight);
    return std::ranges::count_if(seen, [](const Seen& s) { return s.opcode == Opcode::get; });
  };
  EXPECT_EQ(described("CPU[RV PP MM] GPU[S] CPU[I D KC RD WR SD]"), 0);
  EXPECT_EQ(described("CPU[RV PP MM] GPU[IN KC] CPU[RD WR SD]"), capacity);
}

TEST_F(DeviceInputTest, WithoutADeviceIsTheBatchsOwn) {
  Flight flight(epochs_, {}, capacity, input_bytes);
  EXPECT_EQ(flight.batch().input().bytes(), input_bytes);
  EXPECT_NE(flight.batch().input().begin(), nullptr);
}

}  // namespace
}  // namespace tandem
