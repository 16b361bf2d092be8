#include "worker/event_log.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "codec/admin.hpp"

namespace tandem::net {
namespace {

using std::string;

Event event_of(EventType type, std::uint32_t stream = watch_event::fetchers) {
  Event e{};
  e.type = type;
  e.stream = stream;
  e.fd = 7;
  return e;
}

TEST(EventRing, KeepsOrderOverItsEndAndDropsWhatDoesNotFit) {
  EventRing ring(512);
  std::uint64_t pushed = 0, popped = 0;
  for (int round = 0; round < 200; ++round) {
    for (;;) {
      const string key(1 + pushed % 250, static_cast<char>('a' + pushed % 26));
      Event e = event_of(EventType::item_get);
      e.gid = pushed;
      e.key_bytes = static_cast<std::uint16_t>(key.size());
      if (!ring.push(e, key)) break;
      ++pushed;
    }
    Event e;
    char key[event_key_bytes_max];
    while (ring.pop(e, key)) {
      ASSERT_EQ(e.gid, popped);
      ASSERT_EQ(string(key, e.key_bytes), string(1 + popped % 250, static_cast<char>('a' + popped % 26)));
      ++popped;
    }
    ASSERT_EQ(popped, pushed);
  }
  EXPECT_GT(pushed, 200u);
  EXPECT_EQ(ring.written.get(), pushed);
  EXPECT_EQ(ring.dropped.get(), 200u);
}

TEST(EventRing, OneThreadWritesWhileAnotherReads) {
  constexpr std::uint64_t events = is_sanitized ? 20'000 : 200'000;
  EventRing ring(4096);
  std::thread writer([&ring] {
    for (std::uint64_t i = 0; i < events;) {
      Event e = event_of(EventType::item_get);
      e.gid = i;
      e.key_bytes = static_cast<std::uint16_t>(i % 40);
      if (ring.push(e, string(i % 40, static_cast<char>(i)))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  Event e;
  char key[event_key_bytes_max];
  for (std::uint64_t i = 0; i < events;) {
    if (!ring.pop(e, key)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(e.gid, i);
    ASSERT_EQ(string(key, e.key_bytes), string(i % 40, static_cast<char>(i)));
    ++i;
  }
  writer.join();
}

// memcached 1.6.18's lines, taken from it.
TEST(EventLog, Lines) {
  const auto line = [](Event e, std::string_view key) {
    e.time_us = 1'700'000'000'000'085;
    e.gid = 12;
    string text;
    format_event(e, key, text);
    return text;
  };
  const string begin = "ts=1700000000.85 gid=12 ";
  Event e = event_of(EventType::item_get);
  EXPECT_EQ(line(e, "a"), begin + "type=item_get key=a status=not_found clsid=0 cfd=7 size=0\n");
  e.status = 1;
  e.size_class = 3;
  e.value_bytes = 100;
  EXPECT_EQ(line(e, "k\x01\xff%z~._-()*"),
            begin + "type=item_get key=k%01%FF%25z~._-%28%29%2A status=found clsid=3 cfd=7 size=100\n");
  e = event_of(EventType::item_store);
  e.status = 1;
  e.command = Command::set;
  e.ttl_s = 30;
  e.size_class = 1;
  e.value_bytes = 2;
  EXPECT_EQ(line(e, "a"), begin + "type=item_store key=a status=stored cmd=set ttl=30 clsid=1 cfd=7 size=2\n");
  e = event_of(EventType::eviction);
  e.fetched = true;
  e.left_s = -1;
  e.idle_s = 9;
  e.size_class = 2;
  e.value_bytes = 5;
  EXPECT_EQ(line(e, "a"), begin + "type=eviction key=a fetch=yes ttl=-1 la=9 clsid=2 size=5\n");
  e = event_of(EventType::conn_new);
  e.left_s = 4711;
  EXPECT_EQ(line(e, "::1"), begin + "type=conn_new rip=::1 rport=4711 transport=tcp cfd=7\n");
  e.type = EventType::conn_close;
  e.left_s = -1;
  e.status = 2;
  EXPECT_EQ(line(e, ""), begin + "type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=7\n");
  e = event_of(EventType::slab_move);
  e.size_class = 4;
  EXPECT_EQ(line(e, ""), begin + "type=slab_move src=4 dst=7\n");
}

TEST(EventLog, WatchersGetWhatTheyAskedForFromWhenTheyAskedForIt) {
  EventLog log(4096, 4096);
  EventRing& ring = log.make_ring();
  EXPECT_EQ(log.flags(), 0u);
  Event before = event_of(EventType::item_get);
  log.note(ring, before, "before");
  std::atomic<int> woken{0};
  const auto fetchers = log.add(watch_event::fetchers, [&woken] { ++woken; });
  const auto mutations = log.add(watch_event::mutations, [] {});
  EXPECT_EQ(log.flags(), watch_event::fetchers | watch_event::mutations);
  Event get = event_of(EventType::item_get), store = event_of(EventType::item_store, watch_event::mutations);
  log.note(ring, get, "one");
  log.note(store, "two");
  string text, other;
  // It is woken after its text is there.
  while (text.empty() || other.empty() || woken.load() == 0) {
    fetchers->take(text);
    mutations->take(other);
    std::this_thread::yield();
  }
  EXPECT_NE(text.find("key=one "), string::npos);
  EXPECT_EQ(text.find("before"), string::npos);
  EXPECT_EQ(text.find("two"), string::npos);
  EXPECT_NE(other.find("key=two "), string::npos);
  EXPECT_EQ(other.find("one"), string::npos);
  log.remove(*fetchers);
  EXPECT_EQ(log.flags(), watch_event::mutations);
  log.remove(*mutations);
  EXPECT_EQ(log.flags(), 0u);
}

TEST(EventLog, WhoDoesNotReadLosesLinesAndIsTold) {
  constexpr std::size_t text_bytes_max = 2048;
  EventLog log(std::size_t{1} << 16, text_bytes_max);
  EventRing& ring = log.make_ring();
  const auto slow = log.add(watch_event::fetchers, [] {});
  for (int i = 0; i < 500; ++i) {
    Event e = event_of(EventType::item_get);
    log.note(ring, e, "key");
  }
  while (log.counts().watcher_sent + log.counts().watcher_skipped < 500) std::this_thread::yield();
  const EventLog::Counts counts = log.counts();
  EXPECT_EQ(counts.worker_written, 500u);
  EXPECT_GT(counts.watcher_skipped, 400u);
  string text;
  ASSERT_TRUE(slow->take(text));
  EXPECT_LE(text.size(), text_bytes_max);
  EXPECT_EQ(text.find("skipped="), string::npos);
  Event e = event_of(EventType::item_get);
  log.note(ring, e, "later");
  text.clear();
  while (!slow->take(text)) std::this_thread::yield();
  EXPECT_TRUE(text.starts_with("skipped=" + std::to_string(counts.watcher_skipped) + "\n")) << text;
  EXPECT_NE(text.find("key=later "), string::npos);
}

TEST(EventLog, TwentyMayWatch) {
  EventLog log(4096, 4096);
  std::vector<std::shared_ptr<EventLog::Watcher>> watchers;
  for (std::size_t i = 0; i < watchers_max; ++i) watchers.push_back(log.add(watch_event::fetchers, [] {}));
  EXPECT_EQ(log.add(watch_event::fetchers, [] {}), nullptr);
  log.remove(*watchers.back());
  EXPECT_NE(log.add(watch_event::fetchers, [] {}), nullptr);
}

}  // namespace
}  // namespace tandem::net
