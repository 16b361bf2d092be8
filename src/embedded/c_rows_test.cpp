// Rows, reads into the caller's memory and the newest options of C's interface.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tandem {
namespace {

class CRows : public ::testing::Test {
 protected:
  using Change = std::function<void(tandem_options&)>;
  void open(const Change& change = [](tandem_options&) {}) {
    tandem_options o;
    tandem_options_init(&o, sizeof o);
    o.memory_bytes = std::uint64_t{16} << 20;
    o.item_bytes_max = 4096;
    o.huge_pages = 0;
    change(o);
    char error[256];
    store = tandem_open(&o, error, sizeof error);
    ASSERT_NE(store, nullptr) << error;
  }
  void SetUp() override { open(); }
  void reopen(const Change& change) {
    tandem_close(store);
    open(change);
  }
  void TearDown() override { tandem_close(store); }

  // 8-byte keys from `first` on.
  static std::vector<std::uint64_t> numbers(std::size_t count, std::uint64_t first = 0) {
    std::vector<std::uint64_t> keys(count);
    for (std::size_t i = 0; i < count; ++i) keys[i] = first + i;
    return keys;
  }
  static tandem_keys keys_in(const std::vector<std::uint64_t>& keys) {
    return {keys.data(), sizeof keys[0], sizeof keys[0], keys.size()};
  }
  std::string value_of(std::uint64_t key) {
    char out[4096];
    tandem_reply reply;
    const tandem_code code =
        tandem_get_into(store, reinterpret_cast<const char*>(&key), sizeof key, out, sizeof out, &reply);
    return code == TANDEM_HIT ? std::string(out, reply.value_bytes) : "(" + std::to_string(code) + ")";
  }
  tandem_store* store = nullptr;
};

TEST_F(CRows, WhatIsSetIsReadBackAndTheRestStays) {
  constexpr std::size_t count = 5000;  // several batches, the last one short
  const auto keys = numbers(count);
  std::vector<std::array<char, 24>> rows(count), read(2 * count);
  for (std::size_t i = 0; i < count; ++i) std::snprintf(rows[i].data(), rows[i].size(), "row %zu", i);
  std::vector<std::uint8_t> codes(count, 0xee), found(2 * count, 0xee);
  const tandem_keys all = keys_in(keys);
  ASSERT_EQ(tandem_set_rows(store, &all, rows.data(), 24, 24, 0, codes.data()), TANDEM_HIT);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), TANDEM_STORED), static_cast<std::ptrdiff_t>(count));

  const auto more = numbers(2 * count);
  const std::uint64_t other = 7;
  ASSERT_EQ(tandem_set(store, reinterpret_cast<const char*>(&other), 8, "short", 5, 0, 0), TANDEM_STORED);
  for (auto& row : read) row.fill('.');
  std::size_t hits = 0;
  const tandem_keys asked = keys_in(more);
  ASSERT_EQ(tandem_get_rows(store, &asked, read.data(), 24, 24, found.data(), &hits), TANDEM_HIT);
  EXPECT_EQ(hits, count - 1);
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const bool is_there = i < count && i != other;
    ASSERT_EQ(found[i], i == other ? 2 : is_there ? 1 : 0) << i;
    ASSERT_EQ(std::string(read[i].data(), 24), is_there ? std::string(rows[i].data(), 24) : std::string(24, '.')) << i;
  }
}

TEST_F(CRows, RowsMayLieAnywhere) {
  struct Pair {
    std::uint64_t key;
    char value[8];
  };
  std::vector<Pair> pairs(100);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].key = i;
    std::snprintf(pairs[i].value, sizeof pairs[i].value, "%zu", i);
  }
  // From the last to the first, between other fields.
  const tandem_keys down{&pairs.back().key, 8, -static_cast<std::ptrdiff_t>(sizeof(Pair)), pairs.size()};
  ASSERT_EQ(
      tandem_set_rows(store, &down, pairs.back().value, 8, -static_cast<std::ptrdiff_t>(sizeof(Pair)), 0, nullptr),
      TANDEM_HIT);
  std::vector<std::array<char, 8>> read(pairs.size());
  const tandem_keys up{&pairs.front().key, 8, sizeof(Pair), pairs.size()};
  ASSERT_EQ(tandem_get_rows(store, &up, read.back().data(), 8, -8, nullptr, nullptr), TANDEM_HIT);
  for (std::size_t i = 0; i < pairs.size(); ++i) EXPECT_STREQ(read[pairs.size() - 1 - i].data(), pairs[i].value);
  // One value for all.
  ASSERT_EQ(tandem_set_rows(store, &up, "the same", 8, 0, 0, nullptr), TANDEM_HIT);
  EXPECT_EQ(value_of(0), "the same");
  EXPECT_EQ(value_of(99), "the same");
}

TEST_F(CRows, OfEqualKeysTheLastRemains) {
  const std::vector<std::uint64_t> keys(3000, 5);
  std::vector<std::uint32_t> values(keys.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i);
  const tandem_keys all = keys_in(keys);
  ASSERT_EQ(tandem_set_rows(store, &all, values.data(), 4, 4, 0, nullptr), TANDEM_HIT);
  std::uint32_t last = 0;
  std::memcpy(&last, value_of(5).data(), 4);
  EXPECT_EQ(last, 2999u);
}

TEST_F(CRows, NoRowsAndEmptyValues) {
  const tandem_keys none{nullptr, 8, 8, 0};
  std::size_t hits = 7;
  EXPECT_EQ(tandem_get_rows(store, &none, nullptr, 8, 8, nullptr, &hits), TANDEM_HIT);
  EXPECT_EQ(hits, 0u);
  EXPECT_EQ(tandem_set_rows(store, &none, nullptr, 8, 8, 0, nullptr), TANDEM_HIT);
  const auto keys = numbers(3);
  const tandem_keys three = keys_in(keys);
  EXPECT_EQ(tandem_set_rows(store, &three, nullptr, 0, 0, 0, nullptr), TANDEM_HIT);
  EXPECT_EQ(value_of(2), "");
  EXPECT_EQ(tandem_get_rows(store, &three, nullptr, 0, 0, nullptr, &hits), TANDEM_HIT);
  EXPECT_EQ(hits, 3u);
}

TEST_F(CRows, KeysOfNoGoodLengthDoNothing) {
  const std::string bytes(2 * 251, 'k');
  for (const std::size_t length : {std::size_t{0}, std::size_t{251}, ~std::size_t{0}}) {
    const tandem_keys bad{bytes.data(), length, 1, 2};
    std::uint8_t found[2] = {9, 9};
    char out[2] = {'.', '.'};
    EXPECT_EQ(tandem_get_rows(store, &bad, out, 1, 1, found, nullptr), TANDEM_BAD_KEY);
    EXPECT_EQ(tandem_set_rows(store, &bad, out, 1, 1, 0, found), TANDEM_BAD_KEY);
    EXPECT_EQ(tandem_remove_rows(store, &bad, found), TANDEM_BAD_KEY);
    EXPECT_EQ(tandem_touch_rows(store, &bad, 1, found), TANDEM_BAD_KEY);
    EXPECT_EQ(found[0] + found[1], 18);
  }
  const tandem_keys longest{bytes.data(), 250, 1, 2};
  EXPECT_EQ(tandem_set_rows(store, &longest, "ab", 1, 1, 0, nullptr), TANDEM_HIT);
}

TEST_F(CRows, RemovingAndTouching) {
  const auto keys = numbers(2000);
  const tandem_keys all = keys_in(keys), half{keys.data(), 8, 16, 1000};
  ASSERT_EQ(tandem_set_rows(store, &half, "x", 1, 0, 0, nullptr), TANDEM_HIT);
  std::vector<std::uint8_t> found(2000, 9);
  ASSERT_EQ(tandem_touch_rows(store, &all, 100, found.data()), TANDEM_HIT);
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(found[i], i % 2 == 0 ? 1 : 0) << i;
  ASSERT_EQ(tandem_remove_rows(store, &all, found.data()), TANDEM_HIT);
  for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(found[i], i % 2 == 0 ? 1 : 0) << i;
  ASSERT_EQ(tandem_remove_rows(store, &all, found.data()), TANDEM_HIT);
  EXPECT_EQ(std::count(found.begin(), found.end(), 0), 2000);
  // At once: nothing is left of them.
  ASSERT_EQ(tandem_set_rows(store, &all, "x", 1, 0, -1, nullptr), TANDEM_HIT);
  EXPECT_EQ(value_of(0), "(1)");
}

TEST_F(CRows, AFullStoreSaysWhichRowsItHasNot) {
  reopen([](tandem_options& o) {
    o.evict = 0;
    o.memory_bytes = 4 << 20;
  });
  const auto keys = numbers(8192);
  const std::string value(2048, 'v');
  std::vector<std::uint8_t> codes(keys.size());
  const tandem_keys all = keys_in(keys);
  ASSERT_EQ(tandem_set_rows(store, &all, value.data(), value.size(), 0, 0, codes.data()), TANDEM_HIT);
  EXPECT_EQ(codes.front(), TANDEM_STORED);
  EXPECT_EQ(codes.back(), TANDEM_OUT_OF_MEMORY);
  const std::string large(5000, 'l');
  ASSERT_EQ(tandem_set_rows(store, &all, large.data(), large.size(), 0, 0, codes.data()), TANDEM_HIT);
  EXPECT_EQ(codes.front(), TANDEM_TOO_LARGE);
}

TEST_F(CRows, OneThreadTooMany) {
  reopen([](tandem_options& o) { o.threads_max = 1; });
  const auto keys = numbers(2);
  const tandem_keys two = keys_in(keys);
  ASSERT_EQ(tandem_set_rows(store, &two, "ab", 1, 1, 0, nullptr), TANDEM_HIT);
  std::thread([&] {
    std::uint8_t found[2] = {9, 9};
    EXPECT_EQ(tandem_remove_rows(store, &two, found), TANDEM_TOO_MANY_THREADS);
    EXPECT_EQ(found[0], 9);
    EXPECT_EQ(tandem_get_into(store, "k", 1, nullptr, 0, nullptr), TANDEM_TOO_MANY_THREADS);
  }).join();
  EXPECT_EQ(value_of(1), "b");
}

TEST_F(CRows, ReadIntoTakesWhatFits) {
  ASSERT_EQ(tandem_set(store, "key", 3, "value", 5, 0, 42), TANDEM_STORED);
  char out[8] = "-------";
  tandem_reply reply{};
  EXPECT_EQ(tandem_get_into(store, "key", 3, out, 4, &reply), TANDEM_TOO_LARGE);
  EXPECT_EQ(reply.value_bytes, 5u);
  EXPECT_STREQ(out, "-------");
  EXPECT_EQ(tandem_get_into(store, "key", 3, nullptr, 0, nullptr), TANDEM_TOO_LARGE);
  EXPECT_EQ(tandem_get_into(store, "key", 3, out, sizeof out, &reply), TANDEM_HIT);
  EXPECT_EQ(std::string(reply.value, reply.value_bytes), "value");
  EXPECT_EQ(reply.flags, 42u);
  EXPECT_STREQ(out, "value--");
  EXPECT_EQ(tandem_get_into(store, "none", 4, out, sizeof out, &reply), TANDEM_MISS);
  EXPECT_EQ(tandem_get_into(store, nullptr, 0, out, sizeof out, &reply), TANDEM_BAD_KEY);
}

TEST_F(CRows, LargeValuesAreCopiedWhole) {
  reopen([](tandem_options& o) {
    o.memory_bytes = std::uint64_t{64} << 20;
    o.item_bytes_max = std::uint64_t{4} << 20;
  });
  const std::uint64_t key = 7;
  const auto* const name = reinterpret_cast<const char*>(&key);
  for (const std::size_t bytes : {(512u << 10) - 1, 512u << 10, 1u << 20, 3'000'001u}) {
    std::string value(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>((i * 2'654'435'761u) >> 16);
    ASSERT_EQ(tandem_set(store, name, sizeof key, value.data(), bytes, 0, 0), TANDEM_STORED);
    tandem_value got{};
    ASSERT_EQ(tandem_get(store, name, sizeof key, &got), TANDEM_HIT);
    EXPECT_TRUE(std::string_view(got.bytes, got.size) == value) << bytes;
    tandem_value_free(&got);
    std::string out(bytes + 64, 'e');
    tandem_reply reply;
    ASSERT_EQ(tandem_get_into(store, name, sizeof key, out.data(), bytes, &reply), TANDEM_HIT);
    EXPECT_TRUE(out == value + std::string(64, 'e')) << bytes;
    out.assign(bytes + 64, 'e');
    const tandem_keys keys{name, sizeof key, sizeof key, 1};
    std::size_t hits = 0;
    ASSERT_EQ(tandem_get_rows(store, &keys, out.data(), bytes, static_cast<std::ptrdiff_t>(bytes), nullptr, &hits),
              TANDEM_HIT);
    EXPECT_EQ(hits, 1u);
    EXPECT_TRUE(out == value + std::string(64, 'e')) << bytes;
  }
}

TEST_F(CRows, ARemovalMayAskForTheItemThatWasRead) {
  const auto remove = [&](std::uint64_t cas) {
    tandem_request request{};
    request.action = TANDEM_COMPARE_AND_REMOVE;
    request.key = "key";
    request.key_bytes = 3;
    request.cas = cas;
    tandem_code code = -1;
    const auto see = [](void* to, std::size_t, const tandem_reply* r) { *static_cast<tandem_code*>(to) = r->code; };
    EXPECT_EQ(tandem_execute(store, &request, 1, see, &code), TANDEM_HIT);
    return code;
  };
  tandem_reply reply{};
  char out[8];
  EXPECT_EQ(remove(1), TANDEM_MISS);
  tandem_set(store, "key", 3, "1", 1, 0, 0);
  ASSERT_EQ(tandem_get_into(store, "key", 3, out, 8, &reply), TANDEM_HIT);
  tandem_set(store, "key", 3, "2", 1, 0, 0);
  EXPECT_EQ(remove(reply.cas), TANDEM_EXISTS);
  ASSERT_EQ(tandem_get_into(store, "key", 3, out, 8, &reply), TANDEM_HIT);
  EXPECT_EQ(remove(reply.cas), TANDEM_REMOVED);
  EXPECT_EQ(tandem_get_into(store, "key", 3, out, 8, &reply), TANDEM_MISS);
}

TEST_F(CRows, GpusAndPresetAreOptions) {
  reopen([](tandem_options& o) {
    o.memory_bytes = std::uint64_t{64} << 20;
    o.gpus = 1;
    o.gpu = "sim";
    o.preset = "mirrored";
  });
  const auto keys = numbers(20'000);
  const tandem_keys all = keys_in(keys);
  ASSERT_EQ(tandem_set_rows(store, &all, keys.data(), 8, 8, 0, nullptr), TANDEM_HIT);
  std::vector<std::uint64_t> read(keys.size());
  std::size_t hits = 0;
  ASSERT_EQ(tandem_get_rows(store, &all, read.data(), 8, 8, nullptr, &hits), TANDEM_HIT);
  EXPECT_EQ(hits, keys.size());
  EXPECT_EQ(read, keys);
}

TEST_F(CRows, TheKindOfIndexIsAnOption) {
  const auto keys = numbers(3000);
  const tandem_keys all = keys_in(keys);
  for (const char* kind : {"cuckoo", "set_associative", "hash_tree", "slab_list"}) {
    reopen([kind](tandem_options& o) { o.index = kind; });
    ASSERT_EQ(tandem_set_rows(store, &all, keys.data(), 8, 8, 0, nullptr), TANDEM_HIT) << kind;
    std::size_t hits = 0;
    std::vector<std::uint64_t> read(keys.size());
    ASSERT_EQ(tandem_get_rows(store, &all, read.data(), 8, 8, nullptr, &hits), TANDEM_HIT) << kind;
    EXPECT_EQ(hits, keys.size()) << kind;
    EXPECT_EQ(read, keys) << kind;
    // Of these only the tree is ordered by itself.
    const auto see = [](void*, const char*, std::size_t, const tandem_reply*) {};
    EXPECT_EQ(tandem_scan(store, nullptr, 1, see, nullptr, nullptr) == TANDEM_HIT,
              std::string_view(kind) == "hash_tree")
        << kind;
  }
}

TEST(COptions, AnOlderProgramsOptionsEndSooner) {
  tandem_options o;
  constexpr std::size_t older = offsetof(tandem_options, gpu_value_bytes);
  std::memset(&o, 0xff, sizeof o);  // what lies behind is not read
  tandem_options_init(&o, older);
  o.memory_bytes = std::uint64_t{16} << 20;
  char error[256];
  tandem_store* const store = tandem_open(&o, error, sizeof error);
  ASSERT_NE(store, nullptr) << error;
  tandem_close(store);
}

TEST(COptions, TheReasonIsAlsoANumber) {
  const auto number_of = [](const std::function<void(tandem_options&)>& change) {
    tandem_options o;
    tandem_options_init(&o, sizeof o);
    o.memory_bytes = std::uint64_t{16} << 20;
    change(o);
    errno = 0;
    char error[256];
    tandem_store* const store = tandem_open(&o, error, sizeof error);
    EXPECT_EQ(store, nullptr);
    tandem_close(store);
    return errno;
  };
  EXPECT_EQ(number_of([](tandem_options& o) { o.memory_bytes = 1; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.preset = "none such"; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.reserved = 1; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.index = "none such"; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.index = "slab_list", o.ordered = 1; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.gpus = 3, o.gpu = "sim"; }), EINVAL);
  EXPECT_EQ(number_of([](tandem_options& o) { o.memory_file = "/nowhere/file"; }), EIO);
}

}  // namespace
}  // namespace tandem
