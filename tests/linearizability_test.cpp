// Random operations from several threads on a few keys of an embedded store; every key's history must be linearizable.
// The store grows its index and displaces cells meanwhile, and one configuration runs the operations in batches.
#include "linearizability.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tandem/store.hpp"

namespace tandem {
namespace {

using test::Event;
using test::Kind;

// --- the checker itself
// -----------------------------------------------------------------------------------------------------------------

bool linearizable(std::vector<Event> events, std::uint64_t initial = 0) {
  return !test::RoundChecker(std::move(events)).final_states({initial}).empty();
}

TEST(RoundChecker, AcceptsWhatSomeOrderExplains) {
  EXPECT_TRUE(linearizable({{.kind = Kind::set, .argument = 5, .result = 1, .invoked = 1, .answered = 4, .client = 0},
                            {.kind = Kind::get, .result = 0, .invoked = 2, .answered = 3, .client = 1},
                            {.kind = Kind::get, .result = 5, .invoked = 2, .answered = 3, .client = 2}}));
}
TEST(RoundChecker, RejectsAStaleRead) {
  EXPECT_FALSE(linearizable({{.kind = Kind::set, .argument = 5, .result = 1, .invoked = 1, .answered = 2, .client = 0},
                             {.kind = Kind::get, .result = 0, .invoked = 3, .answered = 4, .client = 1}}));
}
TEST(RoundChecker, RejectsTwoReadsThatGoBack) {
  EXPECT_FALSE(linearizable({{.kind = Kind::set, .argument = 5, .result = 1, .invoked = 1, .answered = 9, .client = 0},
                             {.kind = Kind::get, .result = 5, .invoked = 2, .answered = 3, .client = 1},
                             {.kind = Kind::get, .result = 0, .invoked = 4, .answered = 5, .client = 2}}));
}
TEST(RoundChecker, RejectsTwoAddsThatBothWin) {
  EXPECT_FALSE(
      linearizable({{.kind = Kind::add, .argument = 5, .result = 1, .invoked = 1, .answered = 4, .client = 0},
                    {.kind = Kind::add, .argument = 6, .result = 1, .invoked = 2, .answered = 3, .client = 1}}));
}
TEST(RoundChecker, RejectsALostIncrement) {
  EXPECT_FALSE(
      linearizable({{.kind = Kind::increment, .argument = 1, .result = 8, .invoked = 1, .answered = 4, .client = 0},
                    {.kind = Kind::increment, .argument = 1, .result = 8, .invoked = 2, .answered = 3, .client = 1}},
                   7));
}
TEST(RoundChecker, RejectsAReadThatOvertakesItsOwnWrite) {
  EXPECT_FALSE(linearizable(
      {{.kind = Kind::set, .argument = 5, .result = 1, .invoked = 1, .answered = 9, .client = 0, .number = 0},
       {.kind = Kind::get, .result = 0, .invoked = 1, .answered = 9, .client = 0, .number = 1}}));
}

// --- the store
// ----------------------------------------------------------------------------------------------------------------------------

std::uint64_t tick() {
  static std::atomic<std::uint64_t> now{1};
  return now.fetch_add(1);
}

int rounds() {
  const char* set = std::getenv("TANDEM_TEST_ROUNDS");
  return set != nullptr ? std::atoi(set) : 1500;
}

struct Mix {
  bool batches;
  bool counters;  // increments instead of compare-and-set
  bool churn;     // other threads fill, grow and delete meanwhile
};

class LinearizabilityTest : public testing::TestWithParam<Mix> {};

constexpr unsigned clients = 3;
constexpr unsigned operations = 6;  // of one client in a round
constexpr unsigned keys = 3;

struct Client {
  Session session;
  std::mt19937_64 rng;
  std::uint32_t id;
  std::map<unsigned, std::pair<std::uint64_t, std::uint64_t>> read;  // by key: CAS id and the state it stands for
  std::vector<std::pair<unsigned, Event>> events;                    // of this round
};

Kind draw(Client& c, const Mix& mix) {
  switch (c.rng() % 10) {
    case 0:
      return Kind::add;
    case 1:
      return Kind::replace;
    case 2:
      return Kind::remove;
    case 3:
    case 4:
      return Kind::set;
    case 5:
    case 6:
      return mix.counters ? Kind::increment : Kind::compare_and_set;
    default:
      return Kind::get;
  }
}

Request request_of(const Event& e, const std::string& key, const std::string& value, std::uint64_t cas) {
  switch (e.kind) {
    case Kind::get:
      return {.action = Action::get, .key = key};
    case Kind::set:
      return {.action = Action::set, .key = key, .value = value};
    case Kind::add:
      return {.action = Action::add, .key = key, .value = value};
    case Kind::replace:
      return {.action = Action::replace, .key = key, .value = value};
    case Kind::compare_and_set:
      return {.action = Action::compare_and_set, .key = key, .value = value, .cas = cas};
    case Kind::remove:
      return {.action = Action::remove, .key = key};
    case Kind::increment:
      return {.action = Action::increment, .key = key, .delta = e.argument};
  }
  return {};
}

void play_round(Client& c, const Mix& mix, std::atomic<std::uint64_t>& next_state, int round) {
  c.events.clear();
  std::string key[operations], value[operations];
  Request request[operations];
  for (unsigned i = 0; i < operations; ++i) {
    const auto k = static_cast<unsigned>(c.rng() % keys);
    Event e{.kind = draw(c, mix), .client = c.id, .number = i};
    // Counters grow by small steps from far apart, so that no number stands for two states.
    e.argument = e.kind == Kind::increment ? 1 : next_state.fetch_add(1) * (mix.counters ? 1'000'000 : 1);
    std::uint64_t cas = 0;
    if (e.kind == Kind::compare_and_set) {
      cas = c.read[k].first;
      e.expected = c.read[k].second;
      if (cas == 0) e.kind = Kind::get;
    }
    key[i] = "key" + std::to_string(k);
    value[i] =
        std::to_string(e.argument) + (mix.counters ? "" : std::string(static_cast<std::size_t>(c.rng() % 200), ' '));
    request[i] = request_of(e, key[i], value[i], cas);
    c.events.emplace_back(k, e);
  }
  const auto take = [&](std::size_t i, const Reply& r) {
    auto& [k, e] = c.events[i];
    const bool reads = e.kind == Kind::get;
    if (reads) {
      e.result = r.code == Code::hit ? std::stoull(std::string(r.value)) : 0;
      c.read[k] = {r.cas, e.result};
    } else if (e.kind == Kind::increment) {
      e.result = r.code == Code::hit ? r.number : 0;
    } else {
      e.result = r.code == Code::stored || r.code == Code::removed;
    }
  };
  static_cast<void>(round);
  if (mix.batches) {
    const std::uint64_t invoked = tick();
    c.session.execute(request, take);
    const std::uint64_t answered = tick();
    for (auto& [k, e] : c.events) {
      e.invoked = invoked;
      e.answered = answered;
    }
    return;
  }
  for (unsigned i = 0; i < operations; ++i) {
    c.events[i].second.invoked = tick();
    c.session.execute({&request[i], 1}, [&](std::size_t, const Reply& r) { take(i, r); });
    c.events[i].second.answered = tick();
  }
}

TEST_P(LinearizabilityTest, EveryKeysHistoryHasAnOrder) {
  const Mix mix = GetParam();
  Store store(
      {.memory_bytes = std::uint64_t{256} << 20, .item_bytes_expected = 1 << 16});  // a small index: it will grow
  std::vector<std::set<std::uint64_t>> states(keys, {0});
  std::atomic<std::uint64_t> next_state{1};
  std::atomic<bool> stop{false};
  std::vector<Client> players;
  for (std::uint32_t id = 0; id < clients; ++id)
    players.push_back({store.session(), std::mt19937_64(id + 1), id, {}, {}});

  std::thread churn;
  if (mix.churn) {
    churn = std::thread([&] {
      Session session = store.session();
      std::mt19937_64 rng(99);
      for (std::uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        session.set("churn" + std::to_string(i % 400'000), std::string(rng() % 64, 'c'));
        if (i % 3 == 0) session.remove("churn" + std::to_string(rng() % 400'000));
      }
    });
  }
  int bad_round = -1;
  unsigned bad_key = 0;
  const int round_count = rounds();
  std::barrier start(clients), end(clients);
  std::vector<std::thread> threads;
  for (std::uint32_t id = 0; id < clients; ++id) {
    threads.emplace_back([&, id] {
      for (int round = 0; round < round_count; ++round) {
        start.arrive_and_wait();
        play_round(players[id], mix, next_state, round);
        end.arrive_and_wait();
        if (id != 0 || bad_round >= 0) continue;
        for (unsigned k = 0; k < keys; ++k) {
          std::vector<Event> history;
          for (const Client& c : players) {
            for (const auto& [key, event] : c.events) {
              if (key == k) history.push_back(event);
            }
          }
          states[k] = test::RoundChecker(history).final_states(states[k]);
          if (states[k].empty()) {
            bad_round = round;
            bad_key = k;
            states[k] = {0};
          }
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  stop.store(true);
  if (churn.joinable()) churn.join();
  EXPECT_EQ(bad_round, -1) << "key " << bad_key << " has no order in round " << bad_round;
  EXPECT_EQ(store.stats().evictions, 0u) << "the store was meant to hold everything";
}

INSTANTIATE_TEST_SUITE_P(Mixes, LinearizabilityTest,
                         testing::Values(Mix{.batches = false, .counters = false, .churn = false},
                                         Mix{.batches = true, .counters = false, .churn = false},
                                         Mix{.batches = false, .counters = true, .churn = true},
                                         Mix{.batches = true, .counters = false, .churn = true}),
                         [](const auto& mix) {
                           return std::string(mix.param.batches ? "Batches" : "Singles") +
                                  (mix.param.counters ? "Counters" : "Cas") + (mix.param.churn ? "WithChurn" : "");
                         });

}  // namespace
}  // namespace tandem
