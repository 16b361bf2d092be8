// 10,000 seeded lives of a fleet, with every kind of failure; and the failures of docs/fleet.md one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/fleet_fixture.hpp"

namespace tandem::cluster {
namespace {

using std::chrono::seconds;

// One kind of failure, from now on; ends by itself.
void begin_fault(Fleet& fleet, Time length) {
  const auto i = static_cast<unsigned>(fleet.draw(fleet.machines()));
  Fleet::Machine& m = fleet.machine(i);
  const std::string who = " of " + m.node.host + " for " + std::to_string(length.count()) + " ms";
  switch (fleet.draw(19)) {
    case 0:
      fleet.note("etcd is away" + who);
      fleet.etcd_away();
      fleet.after(length, [&fleet] { fleet.etcd_back(Fleet::Back::same); });
      break;
    case 1:
      fleet.note("etcd is wiped" + who);
      fleet.etcd_away();
      fleet.after(length, [&fleet] { fleet.etcd_back(Fleet::Back::wiped); });
      break;
    case 2:
      fleet.note("etcd is restored" + who);
      fleet.etcd_away();
      fleet.after(length, [&fleet] { fleet.etcd_back(Fleet::Back::restored); });
      break;
    case 3:
      fleet.note("network cut" + who);
      fleet.cut(i, true);
      fleet.after(length, [&fleet, i] { fleet.cut(i, false); });
      break;
    case 4:
      fleet.note("server killed" + who);
      fleet.kill_server(i);
      fleet.after(length, [&fleet, i] { fleet.start(i); });
      break;
    case 5:
      fleet.note("server hangs" + who);
      fleet.hang_server(i, true);
      fleet.after(length, [&fleet, i] { fleet.hang_server(i, false); });
      break;
    case 6:
      fleet.note("member killed" + who);
      fleet.kill_member(i);
      fleet.after(length, [&fleet, i] { fleet.start(i); });
      break;
    case 7:
      fleet.note("member stopped" + who);
      fleet.stop_member(i, true);
      fleet.after(length, [&fleet, i] { fleet.stop_member(i, false); });
      break;
    case 8:
      fleet.note("machine dies, and has another address" + who);
      fleet.kill_member(i);
      fleet.kill_server(i);
      if (!m.is_rival) m.node.ip = "192.0.2." + std::to_string(100 + fleet.draw(100));
      fleet.after(length, [&fleet, i] { fleet.start(i); });
      break;
    case 9:
      fleet.note("node leaves" + who);
      if (m.member) m.member->leave(fleet.now());
      break;
    case 10:
      fleet.note("node drained" + who);
      m.is_drained = true;
      fleet.after(length, [&m] { m.is_drained = false; });
      break;
    case 11:
      m.clock_off_s = static_cast<std::int64_t>(fleet.draw(400'000'000)) - 200'000'000;
      fleet.note("clock jumps" + who);
      break;
    case 12:
      fleet.note("slow and lossy network" + who);
      fleet.set_network(Time{static_cast<std::int64_t>(1 + fleet.draw(2'500))}, static_cast<unsigned>(fleet.draw(60)));
      fleet.after(length, [&fleet] { fleet.set_network(Time{20}, 0); });
      break;
    case 13: {
      const unsigned rival = fleet.add_machine(m.node.host);
      fleet.note("another of the same name" + who);
      fleet.machine(rival).is_rival = true;
      fleet.start(rival);
      fleet.after(length, [&fleet, rival] {
        fleet.kill_member(rival);
        fleet.kill_server(rival);
      });
      break;
    }
    case 14:
      fleet.note("the list is deleted");
      fleet.etcd().remove(key_prefix("f") + "config");
      fleet.forget_history();
      break;
    case 15:
      fleet.note("a record is deleted" + who);
      fleet.etcd().remove(key_prefix("f") + "members/" + m.node.name());
      break;
    case 16:
      fleet.note("watches are compacted");
      fleet.etcd().compact(fleet.etcd().revision());
      for (unsigned j = 0; j < fleet.machines(); ++j) fleet.break_watch(j, Time{1});
      break;
    case 17:
      fleet.note("somebody sets a list" + who);
      if (m.server) {
        std::optional<FleetConfig> list = read_document(fleet.served(i));
        if (!list) break;
        list->version += 1 + fleet.draw(3) * fleet.draw(1000);
        // May be a version that was another's: then it is refused, or a list of its own.
        if (fleet.config().version < list->version) m.server->set(ConfigStore::cluster, 0, document_of(*list));
        fleet.forget_history();
      }
      break;
    default:
      fleet.note("most machines die" + who);
      for (unsigned j = 0; j < fleet.machines(); ++j) {
        if (fleet.is_drawn(30)) continue;
        fleet.kill_member(j);
        if (fleet.is_drawn(50)) fleet.kill_server(j);
        fleet.after(length, [&fleet, j] { fleet.start(j); });
      }
      break;
  }
}

// Everything is as it should be again, but for one machine in some fleets.
bool end_faults(Fleet& fleet, bool loses_one) {
  fleet.note("faults end");
  fleet.etcd_back(Fleet::Back::same);
  fleet.set_network(Time{20}, 0);
  for (unsigned i = 0; i < fleet.machines(); ++i) {
    Fleet::Machine& m = fleet.machine(i);
    if (m.is_rival) {
      fleet.kill_member(i);
      fleet.kill_server(i);
      continue;
    }
    fleet.cut(i, false);
    fleet.hang_server(i, false);
    fleet.stop_member(i, false);
    m.is_drained = false;
    if (m.member && m.member->status(fleet.now()).is_leaving) fleet.kill_member(i);
    fleet.start(i);
  }
  if (!loses_one || fleet.live().size() < 2) return false;
  fleet.kill_member(0);
  fleet.kill_server(0);
  return true;
}

// What is left of a life's faults must not come after their end.
std::string live(std::uint64_t seed, bool through_json, std::uint64_t& published) {
  std::mt19937_64 plan(seed * 7919 + 1);
  Fleet fleet({.seed = seed, .machines = 1 + static_cast<unsigned>(plan() % 6), .through_json = through_json});
  for (unsigned i = 0; i < fleet.machines(); ++i) fleet.after(Time(fleet.draw(3'000)), [&fleet, i] { fleet.start(i); });
  fleet.at(Time(12'000 + fleet.draw(5'000)), [&fleet] { fleet.back_up(); });
  const Time end{80'000};
  for (std::uint64_t faults = 1 + fleet.draw(6); faults != 0; --faults) {
    const Time begin(15'000 + static_cast<std::int64_t>(fleet.draw(50'000)));
    const Time length(
        std::min<std::int64_t>(500 + static_cast<std::int64_t>(fleet.draw(40'000)), (end - begin).count()));
    fleet.at(begin, [&fleet, length] { begin_fault(fleet, length); });
  }
  fleet.run_until(end + Time{1});
  const bool lost = end_faults(fleet, fleet.is_drawn(20));
  const Time settled = fleet.now() + (lost ? Time{150'000} : Time{60'000});
  while (fleet.problems().empty() && fleet.now() < settled && !fleet.is_settled()) fleet.run_for(Time{1'000});
  published = fleet.published();
  if (fleet.problems().empty() && fleet.is_settled()) return {};
  return fleet.picture();
}

TEST(FleetLives, EndWithOneListOfTheLiveNodes) {
#ifdef TANDEM_SANITIZED
  std::uint64_t lives = 300;
#else
  std::uint64_t lives = 10'000;
#endif
  std::uint64_t first = 0, all = 0;
  if (const char* seed = std::getenv("TANDEM_FLEET_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    lives = 1;
  }
  for (std::uint64_t seed = first; seed < first + lives; ++seed) {
    std::uint64_t published = 0;
    const std::string wrong = live(seed, seed % 40 == 0, published);
    ASSERT_EQ(wrong, "") << wrong;
    all += published;
  }
  EXPECT_GE(all, lives);
}

// --- each failure alone: a fleet whose members have all joined

class FleetOf : public testing::Test {
 protected:
  Fleet& begin(unsigned machines) {
    fleet_ = std::make_unique<Fleet>(FleetOptions{.seed = 5, .machines = machines});
    for (unsigned i = 0; i < machines; ++i) fleet_->start(i);
    run_until([this] { return fleet_->is_settled(); });
    return *fleet_;
  }
  // Runs until it is so; fails after five minutes.
  void run_until(const std::function<bool()>& is_so) {
    const Time end = fleet_->now() + Time{300'000};
    while (!is_so() && fleet_->now() < end && fleet_->problems().empty()) fleet_->run_for(Time{100});
    EXPECT_TRUE(is_so()) << fleet_->picture();
  }
  Time time_until(const std::function<bool()>& is_so) {
    const Time begun = fleet_->now();
    run_until(is_so);
    return fleet_->now() - begun;
  }
  // For a whole minute nothing changes.
  void expect_same(const std::string& document) {
    fleet_->run_for(Time{60'000});
    EXPECT_EQ(document_of(fleet_->config()), document) << fleet_->picture();
    EXPECT_TRUE(fleet_->problems().empty()) << fleet_->picture();
  }
  bool has_said(std::string_view text) const {
    return std::ranges::any_of(fleet_->messages(),
                               [&](const std::string& m) { return m.find(text) != std::string::npos; });
  }
  std::string document() { return document_of(fleet_->config()); }
  bool lists(unsigned i) { return fleet_->listed().contains(fleet_->machine(i).node.name()); }
  static std::string without_version(const std::string& document) { return document.substr(document.find('\n')); }

  std::unique_ptr<Fleet> fleet_;
};

TEST_F(FleetOf, NodesThatStartTogetherAreListedInOrder) {
  begin(3);
  EXPECT_EQ(without_version(document()), "\nn0|192.0.2.1|11211 n1|192.0.2.2|11211 n2|192.0.2.3|11211\n");
  EXPECT_EQ(fleet_->config().version, fleet_epoch_s + static_cast<std::uint64_t>(fleet_->now().count()) / 1000);
}

TEST_F(FleetOf, ANodeThatLeavesIsOutBeforeItStops) {
  Fleet& fleet = begin(3);
  fleet.machine(1).member->leave(fleet.now());
  EXPECT_LE(time_until([&] { return !lists(1) && fleet.served(1) == document(); }), Time{2'000});
  EXPECT_GE(time_until([&] { return !fleet.machine(1).member; }), Time{19'000});
  // And has its place again.
  fleet.start(1);
  run_until([&] { return lists(1); });
  EXPECT_EQ(without_version(document()), "\nn0|192.0.2.1|11211 n1|192.0.2.2|11211 n2|192.0.2.3|11211\n");
}

TEST_F(FleetOf, ASecondSignalEndsWithoutWaiting) {
  Fleet& fleet = begin(2);
  fleet.machine(1).member->leave(fleet.now());
  fleet.machine(1).member->leave(fleet.now());
  EXPECT_LE(time_until([&] { return !fleet.machine(1).member; }), Time{1'000});
}

TEST_F(FleetOf, BesideADeadServerAMemberEndsAndTheListWaits) {
  Fleet& fleet = begin(3);
  const std::string before = document();
  // As a service manager that restarts both does it.
  fleet.kill_server(1);
  fleet.machine(1).member->leave(fleet.now());
  EXPECT_LE(time_until([&] { return !fleet.machine(1).member; }), Time{1'000});
  fleet.start(1);
  expect_same(before);
}

TEST_F(FleetOf, TheLastNodeStaysListedAndLeavesAtOnce) {
  Fleet& fleet = begin(1);
  const std::string before = document();
  fleet.machine(0).member->leave(fleet.now());
  EXPECT_LE(time_until([&] { return !fleet.machine(0).member; }), Time{1'000});
  EXPECT_EQ(document(), before);
}

TEST_F(FleetOf, ADrainedNodeIsOutUntilThatIsUndone) {
  Fleet& fleet = begin(3);
  fleet.machine(2).is_drained = true;
  EXPECT_LE(time_until([&] { return !lists(2); }), Time{3'000});
  fleet.run_for(Time{60'000});
  EXPECT_TRUE(fleet.machine(2).member && !lists(2));
  fleet.machine(2).is_drained = false;
  EXPECT_LE(time_until([&] { return lists(2); }), Time{10'000});
}

TEST_F(FleetOf, EtcdAwayForAWhileChangesNothing) {
  Fleet& fleet = begin(3);
  const std::string before = document();
  fleet.etcd_away();
  fleet.run_for(Time{120'000});
  fleet.kill_server(1);
  fleet.start(1);
  fleet.run_for(Time{3'000});
  EXPECT_EQ(fleet.served(1), before);  // a server that starts meanwhile gets the last list
  fleet.etcd_back(Fleet::Back::same);
  // All leases have ended.
  for (const auto& [key, pair] : std::map(fleet.etcd().pairs())) fleet.etcd().revoke(pair.lease);
  expect_same(before);
}

TEST_F(FleetOf, AWipedEtcdGetsTheListBack) {
  Fleet& fleet = begin(4);
  const std::uint64_t version = fleet.config().version;
  const std::string nodes = without_version(document());
  fleet.etcd_away();
  fleet.run_for(Time{20'000});
  fleet.etcd_back(Fleet::Back::wiped);
  run_until([&] { return fleet.config().version > version; });
  EXPECT_EQ(without_version(document()), nodes);
  fleet.run_for(Time{60'000});
  EXPECT_EQ(without_version(document()), nodes);
  EXPECT_TRUE(fleet.is_settled()) << fleet.picture();
}

TEST_F(FleetOf, AWipedEtcdAndRestartedMembersGetTheServersList) {
  Fleet& fleet = begin(3);
  fleet.machine(0).member->leave(fleet.now());
  run_until([&] { return !lists(0) && fleet.is_settled(); });
  const std::uint64_t version = fleet.config().version;
  fleet.etcd_away();
  for (unsigned i = 0; i < 3; ++i) fleet.kill_member(i);
  fleet.etcd_back(Fleet::Back::wiped);
  fleet.start(1);
  fleet.start(2);
  run_until([&] { return fleet.config().version > version; });
  EXPECT_EQ(without_version(document()), "\nn1|192.0.2.2|11211 n2|192.0.2.3|11211\n");
}

TEST_F(FleetOf, ARestoredEtcdDoesNotTakeTheListBack) {
  Fleet& fleet = begin(2);
  fleet.back_up();
  fleet.start(fleet.add_machine("n2"));
  run_until([&] { return fleet.is_settled(); });
  const std::uint64_t version = fleet.config().version;
  fleet.etcd_away();
  fleet.run_for(Time{3'000});
  fleet.etcd_back(Fleet::Back::restored);
  run_until([&] { return fleet.is_settled(); });
  EXPECT_TRUE(lists(2));
  EXPECT_GT(fleet.config().version, version);
}

TEST_F(FleetOf, AMemberThatComesBackInTimeChangesNothing) {
  Fleet& fleet = begin(3);
  const std::string before = document();
  fleet.kill_member(1);
  fleet.run_for(Time{25'000});
  EXPECT_EQ(document(), before);
  fleet.start(1);
  expect_same(before);
}

TEST_F(FleetOf, AMachineThatDiesIsOutAfterItsLeaseAndTheGrace) {
  Fleet& fleet = begin(4);
  fleet.kill_member(1);
  fleet.kill_server(1);
  const Time out = time_until([&] { return !lists(1); });
  EXPECT_GE(out, Time{26'000});
  EXPECT_LE(out, Time{36'000});
}

TEST_F(FleetOf, AServerThatHangsOrDiesIsOutInSecondsAndBackWhenItAnswers) {
  Fleet& fleet = begin(4);
  const std::string nodes = without_version(document());
  for (const bool dies : {false, true}) {
    dies ? fleet.kill_server(2) : fleet.hang_server(2, true);
    const Time out = time_until([&] { return !lists(2); });
    EXPECT_GE(out, Time{1'500});
    EXPECT_LE(out, Time{6'000});
    fleet.run_for(Time{20'000});
    dies ? fleet.start(2) : fleet.hang_server(2, false);
    EXPECT_GE(time_until([&] { return lists(2); }), Time{5'000});
    EXPECT_EQ(without_version(document()), nodes);
    fleet.run_for(Time{60'000});
  }
}

TEST_F(FleetOf, ANodeCutFromEtcdServesOnAndTakesTheNewList) {
  Fleet& fleet = begin(4);
  const std::string before = document();
  fleet.cut(3, true);
  run_until([&] { return !lists(3); });
  EXPECT_EQ(fleet.served(3), before);
  fleet.cut(3, false);
  run_until([&] { return fleet.is_settled() && lists(3); });
}

TEST_F(FleetOf, OfTwoWithOneNameTheSecondWaitsAndSaysSo) {
  Fleet& fleet = begin(3);
  const std::string before = document();
  const unsigned rival = fleet.add_machine("n1");
  fleet.machine(rival).is_rival = true;
  fleet.start(rival);
  expect_same(before);
  EXPECT_TRUE(has_said("another member has the name n1:11211"));
  // Nor does it keep anybody when it goes.
  fleet.machine(rival).member->leave(fleet.now());
  EXPECT_LE(time_until([&] { return !fleet.machine(rival).member; }), Time{1'000});
}

TEST_F(FleetOf, ClocksThatJumpChangeNothing) {
  Fleet& fleet = begin(3);
  const std::string before = document();
  std::int64_t years = -30;
  for (unsigned i = 0; i < 3; ++i, years += 35) fleet.machine(i).clock_off_s = years * 31'557'600;
  expect_same(before);
  const std::uint64_t version = fleet.config().version;
  fleet.start(fleet.add_machine("n3"));
  run_until([&] { return fleet.is_settled(); });
  EXPECT_GT(fleet.config().version, version);
}

TEST_F(FleetOf, MoreThanAThirdIsHeldAndSaid) {
  Fleet& fleet = begin(6);
  for (unsigned i = 0; i < 5; ++i) {
    fleet.kill_member(i);
    fleet.kill_server(i);
  }
  run_until([&] { return fleet.listed().size() == 4; });
  fleet.run_for(Time{50'000});
  EXPECT_EQ(fleet.listed().size(), 4U);
  EXPECT_EQ(fleet.machine(5).member->status(fleet.now()).held.size(), 3U);
  EXPECT_TRUE(has_said("held in the list"));
  // A third of what is left, minute by minute, and never the last one.
  run_until([&] { return fleet.listed() == Fleet::Names{"n5:11211"}; });
  EXPECT_TRUE(fleet.problems().empty()) << fleet.picture();
}

TEST_F(FleetOf, ForceTakesOutAllThatDoNotServe) {
  Fleet& fleet = begin(6);
  std::vector<MemberRecord> records(1);
  records[0] = {fleet.machine(3).node, MemberState::serving, "boot"};
  const Decision decision = next_config(fleet.config(), records, {}, {}, Time{0}, 0, true);
  ASSERT_TRUE(decision.config);
  EXPECT_EQ(without_version(document_of(*decision.config)), "\nn3|192.0.2.4|11211\n");
  EXPECT_TRUE(decision.held.empty());
  // Not even by force is the list empty.
  EXPECT_EQ(next_config(fleet.config(), {}, {}, {}, Time{0}, 0, true).held.size(), 1U);
}

TEST_F(FleetOf, AListThatPassesWhatClientsReadRefusesTheJoin) {
  FleetConfig config{.version = 1};
  std::vector<MemberRecord> records;
  Sightings seen;
  for (unsigned i = 0; i < 140; ++i)
    records.push_back(
        {{std::string(40, 'a') + std::to_string(1000 + i), "192.0.2.1", 11211}, MemberState::serving, "b"});
  seen.see(config, records, Time{0});
  const Decision decision = next_config(config, records, seen, {}, Time{5'000}, 1'795'000'000);
  ASSERT_TRUE(decision.config);
  EXPECT_LE(document_of(*decision.config).size(), document_bytes_max);
  EXPECT_GE(document_of(*decision.config).size(), document_bytes_max - 70);
  EXPECT_EQ(decision.config->nodes() + decision.refused.size(), 140U);
}

TEST_F(FleetOf, AnAddressThatChangesIsTakenOver) {
  Fleet& fleet = begin(3);
  fleet.kill_member(1);
  fleet.kill_server(1);
  fleet.machine(1).node.ip = "192.0.2.77";
  fleet.start(1);
  run_until([&] { return fleet.is_settled() && document().find("n1|192.0.2.77|") != std::string::npos; });
}

TEST_F(FleetOf, AListThatSomebodySetIsTheFleets) {
  Fleet& fleet = begin(3);
  const std::string list = "1999999999\nn2|192.0.2.3|11211 n0|192.0.2.1|11211 n1|192.0.2.2|11211\n";
  fleet.forget_history();
  EXPECT_EQ(fleet.machine(0).server->set(ConfigStore::cluster, 0, list), "");
  run_until([&] { return fleet.is_settled() && without_version(document()) == without_version(list); });
}

TEST_F(FleetOf, AListOfAFileIsFollowed) {
  Membership follower({.self = {}, .boot = {}, .is_listed = false}, Time{0});
  std::vector<std::string> given;
  const FleetConfig list{.version = 7, .places = {{{"a.b", "192.0.2.1", 1}}}};
  for (Time now{0}; now < Time{5'000}; now += Time{100}) {
    follower.advance(now, 0);
    for (const RegistryRequest& request : follower.take_registry_requests()) {
      EXPECT_EQ(request.call, RegistryCall::read);
      follower.on_registry(
          {.call = request.call, .outcome = RegistryOutcome::done, .revision = 1, .config = list, .config_revision = 1},
          now, 0);
    }
    for (const ServerRequest& request : follower.take_server_requests()) {
      if (request.call == ServerCall::set) given.push_back(request.document);
      follower.on_server({.call = request.call, .done = true, .document = given.empty() ? "" : given.back()}, now);
    }
  }
  EXPECT_EQ(given, std::vector<std::string>{"7\na.b|192.0.2.1|1\n"});
  follower.leave(Time{5'000});
  EXPECT_TRUE(follower.is_done());
}

}  // namespace
}  // namespace tandem::cluster
