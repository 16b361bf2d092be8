// Invalid memory files: other programs', damaged in one field or another, truncated.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "embedded/restart_fixture.hpp"

namespace tandem {
namespace {

TEST_F(RestartTest, AFileInUseIsRefused) {
  const Store store(options());
  try {
    const Store second(options());
    FAIL() << "two stores on one file";
  } catch (const MemoryFileError& error) {
    EXPECT_NE(std::string(error.what()).find("in use by another store of this process"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(file.path()), std::string::npos) << error.what();
  }
}

// A process killed while it rewrote "key" in place, and its redo record.
struct RedoTest : RestartTest {
  RedoTest() {
    {
      Store store(options());
      store.set("key", "before");
      store.set("other", "there");
    }
    const PageId page = page_of_state(PageState::open);
    const SizeClasses classes(1.25, granule_bytes, std::uint64_t{1} << 20);
    const SlotShape& shape = classes[tag::class_of(get<std::uint16_t>(tag_at(page)))];
    for (std::uint32_t slot = 0; location == 0 && slot < shape.slots_per_page; ++slot) {
      item_at = page_at(page) + std::uint64_t{shape.location(0, slot)} * granule_bytes;
      if (get<std::uint64_t>(item_at) != 0 && get<char>(item_at + 16) == 'k') location = shape.location(page, slot);
    }
    state = get<std::uint64_t>(item_at);
    fixed = get<std::uint64_t>(item_at + 8);
    put(item_at, rewriting_state(state));
    put(item_at + 19, "torn!!", 6);
    record.location = location;
    record.state = state;
    record.fixed = fixed + word::CasLow::put(0, 1);
    std::memcpy(record.value, "second", 6);
    put(offsetof(FileHeader, saved.cas_reserved), std::uint64_t{1000});
    pretend_killed();
  }
  void put_record(std::uint32_t number) {
    const std::uint64_t at = MemoryFile::redo_at + number * sizeof(RedoRecord);
    put(at, record.location);
    put(at + 8, record.state);
    put(at + 16, record.fixed);
    put(at + offsetof(RedoRecord, value), record.value, sizeof record.value);
  }
  std::optional<std::string> value() {
    Store store(options());
    EXPECT_EQ(store.get("other"), "there");
    return store.get("key");
  }
  struct {
    std::uint64_t location, state, fixed;
    char value[rewritten_value_bytes_max];
  } record{};
  std::uint64_t item_at = 0, state = 0, fixed = 0;
  Location location = 0;
};

TEST_F(RedoTest, TheRecordIsWhatTheItemGets) {
  put_record(3);
  EXPECT_EQ(value(), "second");
  EXPECT_EQ(get<std::uint64_t>(MemoryFile::redo_at + 3 * sizeof(RedoRecord)), 0u) << "done";
}
TEST_F(RedoTest, OfTwoRecordsTheNewer) {
  put_record(1);
  std::memcpy(record.value, "third.", 6);
  record.fixed += word::CasLow::put(0, 1);
  put_record(0);
  EXPECT_EQ(value(), "third.");
}
TEST_F(RedoTest, WithoutARecordTheItemIsIntact) { EXPECT_EQ(value(), "torn!!"); }
TEST_F(RedoTest, AnOlderRecordIsOfAVersionBefore) {
  record.fixed = word::CasLow::put(fixed, word::CasLow::get(fixed) - 1);
  put_record(0);
  EXPECT_EQ(value(), "torn!!");
}
TEST_F(RedoTest, ARecordOfAnItemThatWasFinishedIsForgotten) {
  put(item_at, state);
  put_record(0);
  EXPECT_EQ(value(), "torn!!");
}

// An invalid record costs its item, and nothing else.
TEST_F(RedoTest, DamagedRecordsCostTheirItem) {
  record.fixed = word::ValueBytes::put(record.fixed, 1000);
  put_record(0);
  EXPECT_EQ(value(), std::nullopt);
}
TEST_F(RedoTest, ARecordOfADeadItemCostsIt) {
  record.state = word::State::put(state, static_cast<std::uint64_t>(ItemState::dead));
  put_record(0);
  EXPECT_EQ(value(), std::nullopt);
}
TEST_F(RedoTest, RecordsOfNoItemAreForgotten) {
  put(item_at, state);
  for (const std::uint64_t l : {std::uint64_t{1}, std::uint64_t{location} + 1, ~std::uint64_t{0}}) {
    record.location = l;
    put_record(static_cast<std::uint32_t>(l % 7));
  }
  EXPECT_EQ(value(), "torn!!");
}

TEST_F(RestartTest, AFileOfTheVersionBeforeIsReplaced) {
  {
    Store store(options());
  }
  put(offsetof(FileHeader, version), FileHeader::version_now - 1);
  {
    Engine engine(engine_options());
    EXPECT_FALSE(engine.restart());
  }
  EXPECT_NE(said.find("written by another version of Tandem (format 3; this one has 4); starting empty"),
            std::string::npos)
      << said;
}

TEST_F(RestartTest, SomebodyElsesFileIsRefusedAndLeftAlone) {
  const std::string text(10'000, 'T');
  std::ofstream(file.path()) << text;
  EXPECT_THROW(Store{options()}, MemoryFileError);
  std::ifstream in(file.path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
}

TEST_F(RestartTest, WhatIsNoFileIsRefused) {
  Options o = options();
  o.memory_file = "/dev/null";
  EXPECT_THROW(Store{o}, MemoryFileError);
  o.memory_file = "/";
  EXPECT_THROW(Store{o}, MemoryFileError);
  o.memory_file = "/nowhere/file";
  EXPECT_THROW(Store{o}, MemoryFileError);
}

TEST_F(RestartTest, AFileOfMemcachedsIsReplaced) {
  std::ofstream(file.path()) << std::string(1'000'000, 'm');
  std::ofstream(file.path() + ".meta") << "K slab_page_size\t1048576\n";
  {
    Engine engine(engine_options());
    EXPECT_FALSE(engine.restart());
  }
  std::remove((file.path() + ".meta").c_str());
  EXPECT_NE(said.find("memcached's; starting empty"), std::string::npos) << said;
}

TEST_F(RestartTest, EmptyFilesAndFilesOfZerosAreNew) {
  std::ofstream(file.path()).flush();
  {
    EXPECT_EQ(reopened().items, 0u);
  }
  ASSERT_EQ(truncate(file.path().c_str(), 0), 0);
  ASSERT_EQ(truncate(file.path().c_str(), 5000), 0);
  Store store(options());
  EXPECT_EQ(store.set("a", "1"), Code::stored);
}

// Longer than a file of a process that was killed before it wrote the header: a disk image may begin like this.
TEST_F(RestartTest, LongFilesOfZerosAreSomebodyElses) {
  std::ofstream(file.path()).flush();
  constexpr off_t bytes = 5'000'000;
  ASSERT_EQ(truncate(file.path().c_str(), bytes), 0);
  EXPECT_THROW(Store{options()}, std::exception);
  struct stat info{};
  ASSERT_EQ(stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_size, bytes) << "left alone";
}

TEST_F(RestartTest, FilesOfOthersAndLinksAreRefused) {
  {
    Store store(options());
    EXPECT_EQ(store.set("a", "1"), Code::stored);
  }
  Options linked = options();
  linked.memory_file = file.path() + ".link";
  ASSERT_EQ(symlink(file.path().c_str(), linked.memory_file.c_str()), 0);
  EXPECT_THROW(Store{linked}, std::exception);
  EXPECT_EQ(unlink(linked.memory_file.c_str()), 0);
  if (geteuid() == 0) {  // only root can give files away
    ASSERT_EQ(chown(file.path().c_str(), 1, 1), 0);
    EXPECT_THROW(Store{options()}, std::exception);
    ASSERT_EQ(chown(file.path().c_str(), 0, 0), 0);
  }
  ASSERT_EQ(chmod(file.path().c_str(), 0666), 0);
  Store store(options());
  EXPECT_EQ(store.get("a"), "1");
  struct stat info{};
  ASSERT_EQ(stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

struct HeaderCase {
  const char* name;
  std::uint64_t at;
  std::uint64_t value;
  unsigned bytes;
  const char* says;
};
struct RestartHeader : RestartTest, testing::WithParamInterface<HeaderCase> {};

TEST_P(RestartHeader, StartsEmptyAndSaysWhy) {
  {
    Store store(options());
    store.set("key", "1");
  }
  const HeaderCase& c = GetParam();
  put(c.at, &c.value, c.bytes);
  {
    Engine engine(engine_options());
    EXPECT_FALSE(engine.restart());
    EXPECT_NE(said.find(c.says), std::string::npos) << said;
    EXPECT_NE(said.find("starting empty"), std::string::npos) << said;
  }
  Store store(options());
  EXPECT_EQ(store.stats().items, 0u);
  EXPECT_EQ(store.set("key", "1"), Code::stored);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RestartHeader,
    testing::Values(HeaderCase{"version", offsetof(FileHeader, version), 99, 4, "another version"},
                    HeaderCase{"class_count", offsetof(FileHeader, class_count), 3, 4, "damaged header"},
                    HeaderCase{"page_bytes", offsetof(FileHeader, page_bytes), 4096, 8, "damaged header"},
                    HeaderCase{"granule_bytes", offsetof(FileHeader, granule_bytes), 16, 8, "damaged header"},
                    HeaderCase{"slot_bytes", offsetof(FileHeader, slot_bytes) + 8, 7, 4, "damaged header"},
                    HeaderCase{"layout_hash", offsetof(FileHeader, layout_hash), 1, 8, "damaged header"},
                    HeaderCase{"state", offsetof(FileHeader, state), 12345, 8, "damaged header"}),
    [](const auto& c) { return std::string(c.param.name); });

TEST_F(RestartTest, OtherSizeClassesStartEmpty) {
  {
    Store store(options());
    store.set("key", "1");
  }
  EngineOptions o = engine_options();
  o.growth_factor = 1.5;
  {
    Engine engine(o);
    EXPECT_FALSE(engine.restart());
    EXPECT_NE(said.find("other size classes"), std::string::npos) << said;
  }
}

TEST_F(RestartTest, AFileInUseWhenTheMachineStoppedStartsEmpty) {
  {
    Store store(options());
    store.set("key", "1");
  }
  pretend_killed();
  EXPECT_EQ(reopened().items, 1u);  // killed, but the machine was not restarted
  pretend_killed();
  put(offsetof(FileHeader, boot_id), std::uint64_t{7});
  EXPECT_EQ(reopened().items, 0u);
  EXPECT_NE(said.find("in use when the machine stopped"), std::string::npos) << said;
}

TEST_F(RestartTest, AFileClosedBeforeTheMachineStoppedIsTakenOver) {
  {
    Store store(options());
    store.set("key", "1");
  }
  put(offsetof(FileHeader, boot_id), std::uint64_t{7});
  const RestartReport report = reopened();
  EXPECT_EQ(report.items, 1u);
  EXPECT_FALSE(report.was_killed);
}

// One field of one item.
struct ItemCase {
  const char* name;
  std::function<void(std::uint64_t& state, std::uint64_t& fixed)> damage;
};
struct RestartItem : RestartTest, testing::WithParamInterface<ItemCase> {};

TEST_P(RestartItem, CostsThatItemAndNoOther) {
  {
    Store store(options());
    for (int i = 0; i < 100; ++i) store.set("key " + std::to_string(i), "value");
  }
  const PageId page = page_of_state(PageState::open);
  std::uint64_t at = page_at(page);
  while (Item::state_of(get<std::uint64_t>(at)) != ItemState::live) at += granule_bytes;
  auto state = get<std::uint64_t>(at), fixed = get<std::uint64_t>(at + 8);
  GetParam().damage(state, fixed);
  put(at, state);
  put(at + 8, fixed);
  const RestartReport report = reopened();
  EXPECT_EQ(report.items, 99u);
  EXPECT_EQ(report.damaged, 1u);
  Store store(options());
  EXPECT_EQ(store.stats().items, 99u);
  for (int i = 0; i < 50'000; ++i) ASSERT_EQ(store.set(std::to_string(i), "the slot is used again"), Code::stored);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, RestartItem,
    testing::Values(ItemCase{"no_key", [](auto&, auto& f) { f = word::KeyBytes::put(f, 0); }},
                    ItemCase{"long_key", [](auto&, auto& f) { f = word::KeyBytes::put(f, 251); }},
                    ItemCase{"long_value", [](auto&, auto& f) { f = word::ValueBytes::put(f, 500); }},
                    ItemCase{"longest_value",
                             [](auto&, auto& f) { f = word::ValueBytes::put(f, word::ValueBytes::limit); }},
                    ItemCase{"huge", [](auto&, auto& f) { f = word::Huge::put(f, 1); }},
                    ItemCase{"no_cas",
                             [](auto& s, auto& f) {
                               f = word::CasLow::put(f, 0);
                               s = word::CasHigh::put(s, 0);
                             }},
                    ItemCase{"cas_of_the_future", [](auto& s, auto&) { s = word::CasHigh::put(s, 9); }}),
    [](const auto& c) { return std::string(c.param.name); });

TEST_F(RestartTest, ImpossibleTagsCostTheirPages) {
  for (const std::uint16_t bad : {std::uint16_t{0x01ff}, std::uint16_t{0x0180}, std::uint16_t{0xff00},
                                  std::uint16_t{0x0400}, std::uint16_t{0x04ff}}) {
    std::remove(file.path().c_str());
    {
      Store store(options());
      for (int i = 0; i < 100; ++i) store.set("key " + std::to_string(i), "value");
    }
    put(tag_at(page_of_state(PageState::open)), bad);
    EXPECT_EQ(reopened().items, 0u) << bad;
    Store store(options());
    for (int i = 0; i < 50'000; ++i) ASSERT_EQ(store.set(std::to_string(i), "all pages can be used"), Code::stored);
  }
}

TEST_F(RestartTest, HugeItemsThatCannotBeAreDropped) {
  Options o = options();
  o.item_bytes_max = 8 * mib;
  const auto fill = [&] {
    std::remove(file.path().c_str());
    Store store(o);
    ASSERT_EQ(store.set("huge", std::string(3'000'000, 'h')), Code::stored);
    ASSERT_EQ(store.set("small", "s"), Code::stored);
  };
  const auto expect_dropped = [&] {
    Store store(o);
    EXPECT_FALSE(store.get("huge"));
    EXPECT_EQ(store.get("small"), "s");
    EXPECT_EQ(store.stats().items, 1u);
  };
  fill();
  const PageId head = page_of_state(PageState::huge_head);
  const std::uint64_t length_at = MemoryFile::huge_value_bytes_at + 8 * std::uint64_t{head};
  for (const std::uint64_t length :
       {std::uint64_t{3'000'000} * 100, ~std::uint64_t{0}, ~std::uint64_t{0} - 40, (std::uint64_t{1} << 30) + 1}) {
    fill();
    put(length_at, length);
    expect_dropped();
  }
  fill();
  put(tag_at(page_of_state(PageState::huge_head) + 1), tag::make(PageState::open, 0));
  expect_dropped();
  fill();
  put(tag_at(page_of_state(PageState::huge_head) + 2), std::uint16_t{0});
  expect_dropped();
  fill();  // a shorter one keeps its pages, and returns the rest
  put(MemoryFile::huge_value_bytes_at + 8 * std::uint64_t{page_of_state(PageState::huge_head)}, std::uint64_t{10});
  Store store(o);
  EXPECT_EQ(store.get("huge"), std::string(10, 'h'));
}

TEST_F(RestartTest, AFileThatWasCutShortLosesWhatWasCut) {
  {
    Store store(options());
    for (int i = 0; i < 200'000; ++i) store.set(std::to_string(i), "value");
  }
  ASSERT_EQ(truncate(file.path().c_str(), static_cast<off_t>(page_at(3) + 1000)), 0);
  const RestartReport report = reopened();
  EXPECT_GT(report.items, 0u);
  EXPECT_LT(report.items, 200'000u);
  Store store(options());
  for (int i = 0; i < 200'000; ++i) ASSERT_EQ(store.set(std::to_string(i), "value"), Code::stored);
  EXPECT_EQ(store.stats().items, 200'000u);
}

TEST_F(RestartTest, WildHeaderWordsDoNoHarm) {
  const std::uint64_t at = offsetof(FileHeader, saved);
  TestRandom random(3);
  for (int i = 0; i < 40; ++i) {
    {
      Store store(options());
      store.set("key", "1");
    }
    for (std::uint64_t word = 0; word < sizeof(SavedState); word += 8) {
      const std::uint64_t wild[] = {0, ~std::uint64_t{0}, random.next(), random.next() >> random.below(64)};
      put(at + word, wild[random.below(4)]);
    }
    Store store(options());
    ASSERT_EQ(store.set("new", "1"), Code::stored);
    ASSERT_EQ(store.get("new"), "1");
  }
}

}  // namespace
}  // namespace tandem
