// The gateway's replies as bytes: a model's (real_etcd_test.cpp holds it to a real etcd), and what is none.
#include "cluster/gateway.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cluster/etcd_model_fixture.hpp"

namespace tandem::cluster {
namespace {

const std::string fleet_prefix = key_prefix("f");

struct Asked {
  EtcdModel etcd;
  Time now{0};

  RegistryReply ask(const RegistryRequest& request) {
    const GatewayRequest asked = gateway_request(request, fleet_prefix);
    const EtcdModel::Answer answer = etcd.answer(asked.path, asked.body, now);
    return read_gateway_reply(request.call, fleet_prefix, answer.status, answer.body);
  }
};

MemberRecord record_named(const std::string& host, const std::string& boot) {
  return {{host, "192.0.2.1", 11211}, MemberState::serving, boot, 7};
}

TEST(Gateway, AKeepaliveOfALostLeaseHasNoTtl) {
  Asked etcd;
  const RegistryReply granted = etcd.ask({.call = RegistryCall::grant, .ttl = Time{10'000}});
  ASSERT_EQ(granted.outcome, RegistryOutcome::done);
  EXPECT_EQ(granted.ttl, Time{10'000});
  const RegistryRequest keep{.call = RegistryCall::keep_alive, .lease = granted.lease};
  EXPECT_EQ(etcd.ask(keep).ttl, Time{10'000});
  etcd.etcd.expire(Time{10'000});
  EXPECT_EQ(etcd.ask(keep).outcome, RegistryOutcome::lease_lost);
  EXPECT_EQ(
      etcd.ask({.call = RegistryCall::put_record, .lease = granted.lease, .record = record_named("a", "1")}).outcome,
      RegistryOutcome::lease_lost);
  EXPECT_EQ(etcd.ask({.call = RegistryCall::revoke, .lease = granted.lease}).outcome, RegistryOutcome::lease_lost);
}

TEST(Gateway, ARecordIsWrittenOnlyOverItsRevision) {
  Asked etcd;
  const std::int64_t lease = etcd.ask({.call = RegistryCall::grant, .ttl = Time{10'000}}).lease;
  RegistryRequest put{.call = RegistryCall::put_record, .lease = lease, .record = record_named("a", "1")};
  const RegistryReply written = etcd.ask(put);
  ASSERT_EQ(written.outcome, RegistryOutcome::done);
  put.record.boot = "2";
  const RegistryReply refused = etcd.ask(put);
  EXPECT_EQ(refused.outcome, RegistryOutcome::refused);
  ASSERT_TRUE(refused.holder);
  EXPECT_EQ(refused.holder->boot, "1");
  EXPECT_EQ(refused.holder_revision, written.revision);
  put.revision = written.revision;
  EXPECT_EQ(etcd.ask(put).outcome, RegistryOutcome::done);
}

TEST(Gateway, AListIsPublishedOnlyOverItsRevision) {
  Asked etcd;
  const FleetConfig list{.version = 9, .places = {{{"a", "192.0.2.1", 1}}, {{"b", "192.0.2.2", 2}, 8}}};
  RegistryRequest publish{.call = RegistryCall::publish, .config = list};
  ASSERT_EQ(etcd.ask(publish).outcome, RegistryOutcome::done);
  EXPECT_EQ(etcd.ask(publish).outcome, RegistryOutcome::refused);
  const RegistryReply read = etcd.ask({.call = RegistryCall::read});
  EXPECT_EQ(read.config, list);
  publish.revision = read.config_revision;
  EXPECT_EQ(etcd.ask(publish).outcome, RegistryOutcome::done);
}

TEST(Gateway, ReadsRecordsAndListAndLeavesOutWhatItCannotRead) {
  Asked etcd;
  EXPECT_FALSE(etcd.ask({.call = RegistryCall::read}).config);
  etcd.etcd.put(fleet_prefix + "members/a:11211", to_json(record_named("a", "1")), 0);
  etcd.etcd.put(fleet_prefix + "members/c:11211", to_json(record_named("b", "1")), 0);  // under another name
  etcd.etcd.put(fleet_prefix + "members/d:1", "{", 0);
  etcd.etcd.put(fleet_prefix + "members/e:1", "", 0);
  etcd.etcd.put("/tandem/f0", "another's", 0);
  RegistryReply read = etcd.ask({.call = RegistryCall::read});
  ASSERT_EQ(read.outcome, RegistryOutcome::done) << read.problem;
  ASSERT_EQ(read.records.size(), 1U);
  EXPECT_EQ(read.records[0], record_named("a", "1"));
  etcd.etcd.put(fleet_prefix + "config", "{\"version\":1}", 0);
  read = etcd.ask({.call = RegistryCall::read});
  EXPECT_TRUE(read.config_unreadable && !read.config && read.config_revision > 0);
}

TEST(Gateway, WhatIsNoReplyFails) {
  const std::vector<std::string> bodies{"",
                                        "{",
                                        "[]",
                                        "null",
                                        "7",
                                        "{}",
                                        R"({"header":{}})",
                                        R"({"header":{"revision":"x"}})",
                                        R"({"header":{"revision":"-1"}})",
                                        R"({"header":{"revision":"1"},"kvs":7})",
                                        R"({"header":{"revision":"1"},"kvs":[{"key":7}]})",
                                        R"({"header":{"revision":"1"},"kvs":[{"key":"YQ=="}]})",
                                        R"({"header":{"revision":"1.0"}})",
                                        R"({"result":{"header":{"revision":"1"}}})"};
  for (const RegistryCall call :
       {RegistryCall::grant, RegistryCall::keep_alive, RegistryCall::put_record, RegistryCall::read}) {
    for (const std::string& body : bodies) {
      const RegistryReply reply = read_gateway_reply(call, fleet_prefix, 200, body);
      EXPECT_EQ(reply.outcome, RegistryOutcome::failed) << static_cast<int>(call) << ' ' << body;
      EXPECT_FALSE(reply.problem.empty());
    }
    EXPECT_EQ(read_gateway_reply(call, fleet_prefix, 503, "busy\n").problem, "HTTP status 503 busy ");
  }
  EXPECT_TRUE(wants_token(401, "{\"code\":16}") && wants_token(500, "{\"code\":16}"));
  EXPECT_TRUE(wants_token(400, R"({"error":"etcdserver: user name is empty","code":3})"));
  EXPECT_FALSE(wants_token(404, "{\"code\":5}"));
  EXPECT_EQ(read_token(200, R"({"token":"a.1"})"), "a.1");
  EXPECT_EQ(read_token(200, "{\"token\":\"a\\r\\nHost: b\"}"), "");
}

TEST(Gateway, AWatchIsReadWhereverItIsCut) {
  Asked etcd;
  etcd.etcd.put(fleet_prefix + "config", "x", 0);
  const std::string create = gateway_request({.call = RegistryCall::watch, .revision = 1}, fleet_prefix).body;
  const std::string lines = etcd.etcd.watch(create);
  for (std::size_t cut = 0; cut <= lines.size(); ++cut) {
    WatchReader reader;
    const WatchReader::Seen first = reader.read(lines.substr(0, cut)), second = reader.read(lines.substr(cut));
    EXPECT_TRUE(first.has_changed != second.has_changed && !first.has_ended && !second.has_ended) << cut;
  }
  etcd.etcd.compact(3);
  EXPECT_TRUE(WatchReader().read(etcd.etcd.watch(create)).has_ended);
  EXPECT_TRUE(WatchReader().read("<html>\n").has_ended);
  WatchReader endless;
  EXPECT_TRUE(endless.read(std::string(gateway_bytes_max + 1, ' ')).has_ended);
}

}  // namespace
}  // namespace tandem::cluster
