// A store is killed under load, again and again, and each time taken over by the next process. No acknowledged
// operation is lost, no value is wrong, no CAS id is issued twice.
//
// A child process works on the file until it is killed. It logs each operation, before and after, in a journal in
// memory shared with the parent. The next child first reads every key: each must hold what was acknowledged last, or
// the operation in flight. Values identify their key and can verify their bytes.
//
// TANDEM_CRASHES: number of kills in each test (180 by default, 15 with a sanitizer).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "embedded/restart_fixture.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t threads = 4, keys_per_thread = 400, counter_keys = 4;
constexpr std::uint32_t key_count = threads * keys_per_thread;

// Content of a key: |63 0 40|39 appends 32|31 sequence 0|; sequence 0: absent.
using Content = std::uint64_t;
constexpr Content absent = 0;
constexpr Content of(std::uint32_t sequence, std::uint32_t appends = 0) { return Content{appends} << 32 | sequence; }
constexpr std::uint32_t sequence_of(Content c) { return static_cast<std::uint32_t>(c); }
constexpr std::uint32_t appends_of(Content c) { return static_cast<std::uint32_t>(c >> 32 & 0xff); }
constexpr Content nothing_on_its_way = ~Content{0};

struct Journal {
  struct Key {
    std::atomic<Content> done{absent}, on_its_way{nothing_on_its_way};
  };
  struct Count {
    std::atomic<std::uint64_t> done{0}, begun{0};
  };
  Key key[key_count];
  Count count[counter_keys];
  std::atomic<std::uint64_t> cas_max{0};
  std::atomic<bool> flushing{false};
  std::atomic<bool> serving{false};
  std::atomic<std::uint64_t> operations{0}, recovered{0}, missing{0}, flushes{0};
  char complaint[512];
};

struct Setting {
  const char* name;
  std::uint64_t memory_bytes;
  bool evict;
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return TestRandom(a * 0x9e3779b97f4a7c15u + b).next(); }

struct Record {
  std::uint32_t key, sequence, part, bytes;
  std::uint64_t checksum;
};

// `bytes` of payload unique to this part of this value of this key.
void add_record(std::string& value, std::uint32_t key, std::uint32_t sequence, std::uint32_t part,
                std::uint32_t bytes) {
  TestRandom random(mixed(key, sequence) + part);
  const std::uint64_t fill = random.next();
  const Record r{key, sequence, part, bytes, mixed(fill, bytes)};
  value.append(reinterpret_cast<const char*>(&r), sizeof r);
  const std::size_t at = value.size();
  value.resize(at + bytes);
  for (std::uint32_t i = 0; i < bytes; ++i) value[at + i] = static_cast<char>(fill >> i % 8 * 8) + static_cast<char>(i);
}

std::uint32_t first_bytes(std::uint32_t key, std::uint32_t sequence, bool evict) {
  // Most values have one length, so that sets rewrite them in place.
  if (sequence % 4 != 0) return 80;
  TestRandom random(mixed(sequence, key));
  // With eviction the stored sizes shift, so that pages change class.
  const std::uint32_t tide = evict ? sequence / 8 % 6 : 0;
  switch (random.below(evict ? 60 : 400)) {
    case 0:
      return static_cast<std::uint32_t>(600'000 + random.below(900'000));
    case 1:
    case 2:
      return static_cast<std::uint32_t>(random.below(120'000));
    case 3:
    case 4:
    case 5:
      return static_cast<std::uint32_t>(random.below(9000));
    default:
      return static_cast<std::uint32_t>(random.below(120) + tide * 130);
  }
}

std::string value_of(std::uint32_t key, Content c, bool evict) {
  std::string value;
  add_record(value, key, sequence_of(c), 0, first_bytes(key, sequence_of(c), evict));
  for (std::uint32_t part = 1; part <= appends_of(c); ++part) add_record(value, key, sequence_of(c), part, 40);
  return value;
}

std::string key_name(std::uint32_t key) { return "key-" + std::to_string(key); }
std::string counter_name(std::uint32_t c) { return "counter-" + std::to_string(c); }

// The child's work. Its tests end it with a complaint.
class Child {
 public:
  Child(Journal& journal, const Setting& setting, const std::string& path, std::uint64_t seed)
      : journal_(journal), setting_(setting), seed_(seed), store_(options(setting, path)) {}

  [[noreturn]] void run() {
    read_everything();
    journal_.serving.store(true);
    std::vector<std::thread> workers;
    for (std::uint32_t t = 0; t < threads; ++t) workers.emplace_back([this, t] { work(t); });
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(12));
      flush();
    }
  }

 private:
  static Options options(const Setting& s, const std::string& path) {
    Options o;
    o.memory_bytes = s.memory_bytes;
    o.item_bytes_max = std::uint64_t{2} << 20;
    o.item_bytes_expected = 1 << 20;  // so that the index grows under load
    o.evict = s.evict;
    o.memory_file = path;
    return o;
  }
  [[noreturn]] __attribute__((format(printf, 2, 3))) void complain(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(journal_.complaint, sizeof journal_.complaint, format, arguments);
    va_end(arguments);
    _exit(1);
  }

  void read_everything() {
    const bool flushing = journal_.flushing.load();
    std::uint64_t found = 0, missing = 0;
    std::uint64_t cas_max = journal_.cas_max.load();
    for (std::uint32_t k = 0; k < key_count; ++k) {
      Journal::Key& entry = journal_.key[k];
      const Content done = entry.done.load(), way = entry.on_its_way.load();
      Value value;
      Content is = absent;
      if (store_.get(key_name(k), value) == Code::hit) {
        cas_max = std::max(cas_max, value.cas);
        is = ~absent;
        for (const Content may : {done, way}) {
          if (may != absent && may != nothing_on_its_way && value.bytes == value_of(k, may, setting_.evict)) is = may;
        }
        if (is == ~absent) {
          Record r{};
          std::memcpy(&r, value.bytes.data(), std::min(sizeof r, value.bytes.size()));
          complain("key %u: a wrong value of %zu bytes (key %u, sequence %u); done %llx, on its way %llx", k,
                   value.bytes.size(), r.key, r.sequence, static_cast<unsigned long long>(done),
                   static_cast<unsigned long long>(way));
        }
        ++found;
      } else if (done != absent && way != absent && !flushing) {
        if (!setting_.evict) {
          complain("key %u is gone; done %llx, on its way %llx", k, static_cast<unsigned long long>(done),
                   static_cast<unsigned long long>(way));
        }
        ++missing;
      }
      entry.done.store(is);
      entry.on_its_way.store(nothing_on_its_way);
    }
    if (!setting_.evict) {
      for (std::uint32_t c = 0; c < counter_keys; ++c) read_counter(c, flushing, cas_max);
    }
    journal_.cas_max.store(cas_max);
    journal_.flushing.store(false);
    journal_.recovered.fetch_add(found);
    journal_.missing.fetch_add(missing);

    Reply first;
    const std::string name = "first";
    const Request request{.action = Action::set, .key = name, .value = "1"};
    store_.execute({&request, 1}, [&](std::size_t, const Reply& r) { first = r; });
    if (first.code == Code::stored && first.cas <= cas_max) {
      complain("CAS id %llu after %llu", static_cast<unsigned long long>(first.cas),
               static_cast<unsigned long long>(cas_max));
    }
  }

  void read_counter(std::uint32_t c, bool flushing, std::uint64_t& cas_max) {
    Journal::Count& entry = journal_.count[c];
    Value value;
    if (store_.get(counter_name(c), value) != Code::hit) {
      if (entry.done.load() != 0 && !flushing) complain("counter %u is gone", c);
      entry.done.store(0);
      start_counter(c);
      return;
    }
    cas_max = std::max(cas_max, value.cas);
    const std::uint64_t is = std::strtoull(value.bytes.c_str(), nullptr, 10);
    if (is < (flushing ? 0 : entry.done.load()) || is > entry.begun.load()) {
      complain("counter %u is %llu; done %llu, begun %llu", c, static_cast<unsigned long long>(is),
               static_cast<unsigned long long>(entry.done.load()), static_cast<unsigned long long>(entry.begun.load()));
    }
    entry.done.store(is);
    entry.begun.store(is);
  }

  void start_counter(std::uint32_t c) {
    if (setting_.evict) return;
    if (store_.set(counter_name(c), "0") != Code::stored) complain("counter %u cannot be set", c);
    journal_.count[c].begun.store(0);
  }

  void note_cas(std::uint64_t cas) {
    std::uint64_t seen = journal_.cas_max.load(std::memory_order_relaxed);
    while (seen < cas && !journal_.cas_max.compare_exchange_weak(seen, cas)) {
    }
  }

  void work(std::uint32_t thread) {
    Session session = store_.session();
    TestRandom random(seed_ * threads + thread);
    for (;;) {
      while (flush_wanted_.load()) std::this_thread::yield();
      const std::shared_lock no_flush(flush_mutex_);
      for (int i = 0; i < 20; ++i) {
        if (!setting_.evict && random.below(16) == 0) {
          increment(session, static_cast<std::uint32_t>(random.below(counter_keys)));
        } else {
          change(session, thread * keys_per_thread + static_cast<std::uint32_t>(random.below(keys_per_thread)), random);
        }
      }
      journal_.operations.fetch_add(20, std::memory_order_relaxed);
    }
  }

  void change(Session& session, std::uint32_t k, TestRandom& random) {
    Journal::Key& entry = journal_.key[k];
    const Content before = entry.done.load();
    const std::string name = key_name(k);
    const Content next = of(++sequence_[k] + static_cast<std::uint32_t>(seed_ % 4000) * 1'000'000);
    const auto apply = [&](Content way, const Request& request) {
      entry.on_its_way.store(way);
      Reply reply;
      session.execute({&request, 1}, [&](std::size_t, const Reply& r) { reply = r; });
      const Content after = settle(k, before, way, request.action, reply);
      if (reply.cas != 0) note_cas(reply.cas);
      entry.done.store(after);
      entry.on_its_way.store(nothing_on_its_way);
    };
    switch (random.below(12)) {
      case 0:
        return apply(absent, {.action = Action::remove, .key = name});
      case 1:
        return apply(before == absent ? nothing_on_its_way : before,
                     {.action = Action::touch, .key = name, .ttl_s = 100'000});
      case 2:
      case 3: {
        if (before == absent || appends_of(before) == 8) break;
        const Content way = of(sequence_of(before), appends_of(before) + 1);
        std::string part;
        add_record(part, k, sequence_of(way), appends_of(way), 40);
        return apply(way, {.action = Action::append, .key = name, .value = part});
      }
      case 4: {
        const std::string value = value_of(k, next, setting_.evict);
        return apply(before == absent || setting_.evict ? next : before,
                     {.action = Action::add, .key = name, .value = value});
      }
      case 5:
      case 6: {
        Value is;
        if (session.get(name, is) != Code::hit) break;
        if (is.bytes != value_of(k, before, setting_.evict)) complain("key %u: a wrong value while serving", k);
        const std::string value = value_of(k, next, setting_.evict);
        return apply(next, {.action = Action::compare_and_set, .key = name, .value = value, .cas = is.cas});
      }
      default:
        break;
    }
    const std::string value = value_of(k, next, setting_.evict);
    apply(next, {.action = Action::set, .key = name, .value = value});
  }

  // The key's content after the answer.
  Content settle(std::uint32_t k, Content before, Content way, Action action, const Reply& reply) {
    const bool may_be_gone = setting_.evict || before == absent;
    switch (reply.code) {
      case Code::stored:
        if (action == Action::add && !may_be_gone) complain("key %u was gone when it was added", k);
        return way;
      case Code::removed:
        return absent;
      case Code::hit:
        return before;
      case Code::not_stored:
        if (action == Action::add) return before;
        if (setting_.evict) return store_.get(key_name(k)) ? before : absent;  // also the reply when memory is short
        [[fallthrough]];
      case Code::miss:
        if (!may_be_gone) complain("key %u was gone while serving", k);
        return absent;
      case Code::out_of_memory:
        if (!setting_.evict) complain("key %u: out of memory", k);
        return action == Action::set ? absent : before;
      default:
        complain("key %u: reply %d", k, static_cast<int>(reply.code));
    }
  }

  // Only without eviction.
  void increment(Session& session, std::uint32_t c) {
    Journal::Count& entry = journal_.count[c];
    entry.begun.fetch_add(1);
    Code code = Code::hit;
    if (!session.increment(counter_name(c), 1, &code)) complain("counter %u: reply %d", c, static_cast<int>(code));
    entry.done.fetch_add(1);
  }

  void flush() {
    flush_wanted_.store(true);
    const std::unique_lock all(flush_mutex_);
    flush_wanted_.store(false);
    journal_.flushing.store(true);
    store_.clear();
    for (Journal::Key& entry : journal_.key) entry.done.store(absent);
    for (std::uint32_t c = 0; c < counter_keys; ++c) {
      journal_.count[c].done.store(0);
      start_counter(c);
    }
    journal_.flushing.store(false);
    journal_.flushes.fetch_add(1, std::memory_order_relaxed);
  }

  Journal& journal_;
  const Setting setting_;
  const std::uint64_t seed_;
  Store store_;
  std::shared_mutex flush_mutex_;
  std::atomic<bool> flush_wanted_{false};
  std::uint32_t sequence_[key_count] = {};
};

struct RestartCrash : testing::TestWithParam<Setting> {
  RestartCrash() {
    void* const at = mmap(nullptr, sizeof(Journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    journal = new (at) Journal;
  }
  ~RestartCrash() override { munmap(journal, sizeof(Journal)); }

  // Kills the process at a random moment; true when it had no complaint.
  bool let_live(std::uint64_t seed, TestRandom& random) {
    journal->serving.store(false);
    const pid_t pid = fork();
    if (pid == 0) {
      // Only the journal and the file persist.
      auto* const child = new Child(*journal, GetParam(), file.path(), seed);
      child->run();
    }
    int status = 0;
    // Sometimes while it is still reading the file.
    if (random.below(6) == 0) {
      usleep(static_cast<useconds_t>(random.below(8000)));
    } else {
      while (!journal->serving.load() && waitpid(pid, &status, WNOHANG) == 0) usleep(200);
      usleep(static_cast<useconds_t>(random.below(30'000)));
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return journal->complaint[0] == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) == 0);
  }

  TemporaryFile file;
  Journal* journal = nullptr;
};

TEST_P(RestartCrash, EveryKeyHoldsWhatWasAcknowledged) {
  const char* const told = std::getenv("TANDEM_CRASHES");  // NOLINT(concurrency-mt-unsafe): before any thread
  constexpr int crashes_default = is_sanitized ? 15 : 180;
  const int crashes = told != nullptr ? std::atoi(told) : crashes_default;
  TestRandom random(std::random_device{}());
  // On a machine so busy that most processes end before they change anything, more kills.
  const std::uint64_t enough = static_cast<std::uint64_t>(crashes) * 10;
  const auto seen = [&] { return std::min(journal->operations.load(), journal->recovered.load()); };
  int i = 0;
  for (; i < crashes || (seen() <= enough && i < 20 * crashes); ++i) {
    ASSERT_TRUE(let_live(static_cast<std::uint64_t>(i) + 1, random))
        << "after " << i << " kills: " << journal->complaint;
  }
  EXPECT_GT(journal->operations.load(), enough);
  EXPECT_GT(journal->recovered.load(), enough);
  if (!GetParam().evict) {
    EXPECT_EQ(journal->missing.load(), 0u);
  }
  RecordProperty("operations", std::to_string(journal->operations.load()));
  std::printf("%d kills, %llu operations, %llu items read after restarts, %llu evicted, %llu flushes\n", i,
              static_cast<unsigned long long>(journal->operations.load()),
              static_cast<unsigned long long>(journal->recovered.load()),
              static_cast<unsigned long long>(journal->missing.load()),
              static_cast<unsigned long long>(journal->flushes.load()));
}

INSTANTIATE_TEST_SUITE_P(Settings, RestartCrash,
                         testing::Values(Setting{"roomy", std::uint64_t{256} << 20, false},
                                         Setting{"full", std::uint64_t{12} << 20, true}),
                         [](const auto& setting) { return std::string(setting.param.name); });

}  // namespace
}  // namespace tandem
