#include "bench/engine/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "bench/engine/memory_access.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/subject.hpp"
#include "bench/engine/test_support.hpp"
#include "bench/engine/wire.hpp"
#include "bench/workload/stream.hpp"
#include "codec/binary.hpp"

namespace tandem::bench {
namespace {

workload::Spec small(const std::string& name) {
  workload::Spec spec = workload::preset(name);
  spec.keys = 500;
  return spec;
}

std::string value_of(const workload::KeySpace& keys, std::uint64_t key) {
  std::string value(keys.value_bytes(key), '\0');
  keys.write_value(key, value.data());
  return value;
}

std::string key_of(const workload::KeySpace& keys, std::uint64_t key) {
  std::string bytes(keys.key_bytes(key), '\0');
  keys.write_key(key, bytes.data());
  return bytes;
}

// --- the wire format

class Formats : public testing::TestWithParam<WireProtocol> {
 protected:
  const workload::Spec spec_ = small("K16-G50-U");
  const workload::KeySpace keys_{spec_};
  const WireFormat format_{GetParam(), keys_};

  std::string value_reply(std::uint64_t key, const std::string& value) const {
    switch (GetParam()) {
      case WireProtocol::text:
        return "VALUE " + key_of(keys_, key) + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
      case WireProtocol::meta:
        return "VA " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
      case WireProtocol::binary:
      case WireProtocol::udp:  // frames_test.cpp
      case WireProtocol::raw:
        break;
    }
    return packet(codec::binary::opcode::get, 0, std::string(4, '\0') + value, 4);
  }
  std::string miss_reply() const {
    if (GetParam() == WireProtocol::text) return "END\r\n";
    if (GetParam() == WireProtocol::meta) return "EN\r\n";
    return packet(codec::binary::opcode::get, 1, "Not found", 0);
  }
  std::string stored_reply() const {
    if (GetParam() == WireProtocol::text) return "STORED\r\n";
    if (GetParam() == WireProtocol::meta) return "HD\r\n";
    return packet(codec::binary::opcode::set, 0, "", 0);
  }
  static std::string packet(std::uint8_t opcode, std::uint16_t status, const std::string& body, std::uint8_t extras) {
    namespace b = codec::binary;
    std::string p(b::header_bytes, '\0');
    b::write<std::uint8_t>(p.data() + b::at::magic, b::response_magic);
    b::write<std::uint8_t>(p.data() + b::at::opcode, opcode);
    b::write<std::uint8_t>(p.data() + b::at::extras_bytes, extras);
    b::write<std::uint16_t>(p.data() + b::at::status, status);
    b::write<std::uint32_t>(p.data() + b::at::body_bytes, static_cast<std::uint32_t>(body.size()));
    b::write<std::uint64_t>(p.data() + b::at::cas, 77);
    return p + body;
  }
  ReplyErrors check(const std::vector<WireOp>& ops, const std::string& replies) const {
    ReplyErrors errors;
    format_.check(ops, replies, errors);
    return errors;
  }
};

TEST_P(Formats, SizesAreThoseOfWhatIsWritten) {
  for (const bool is_set : {false, true}) {
    const WireOp op(123, is_set);
    std::string bytes(format_.request_bytes(op) + 8, '!');
    EXPECT_EQ(format_.write_request(op, bytes.data()), bytes.data() + format_.request_bytes(op));
    EXPECT_EQ(bytes.substr(format_.request_bytes(op)), "!!!!!!!!");
    bytes.resize(format_.request_bytes(op));
    EXPECT_EQ(format_.key_in(op, bytes), key_of(keys_, 123));
    EXPECT_EQ(format_.value_in(op, bytes), is_set ? value_of(keys_, 123) : "");
  }
}

TEST_P(Formats, RightRepliesPass) {
  const std::string replies = value_reply(3, value_of(keys_, 3)) + stored_reply() + value_reply(4, value_of(keys_, 4));
  const std::vector<WireOp> ops = {{3, false}, {9, true}, {4, false}};
  std::uint64_t bytes = 0;
  for (const WireOp op : ops) bytes += format_.reply_bytes(op);
  EXPECT_EQ(bytes, replies.size());
  EXPECT_EQ(check(ops, replies).count(), 0U);
}

TEST_P(Formats, EachWrongReplyIsCountedAndTheOthersStillRead) {
  std::string wrong = value_of(keys_, 3);
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  const std::string good = value_reply(4, value_of(keys_, 4));
  const std::vector<WireOp> ops = {{3, false}, {4, false}};
  EXPECT_EQ(check(ops, value_reply(3, wrong) + good).wrong_values, 1U);
  EXPECT_EQ(check(ops, value_reply(3, "short") + good).wrong_values, 1U);
  EXPECT_EQ(check(ops, value_reply(3, value_of(keys_, 4)) + good).wrong_values, 1U);
  const ReplyErrors missed = check(ops, miss_reply() + good);
  EXPECT_EQ(missed.unexpected_misses, 1U);
  EXPECT_EQ(missed.count(), 1U);
  EXPECT_NE(missed.first.find("key 3"), std::string::npos) << missed.first;
}

TEST_P(Formats, WhatIsNoReplyEndsTheReading) {
  const std::string good = value_reply(3, value_of(keys_, 3));
  const std::vector<WireOp> ops = {{3, false}, {4, true}, {5, false}};
  EXPECT_EQ(check(ops, "SERVER_ERROR out of memory\r\n").wrong_replies, 3U);
  EXPECT_EQ(check(ops, good).wrong_replies, 2U);
  EXPECT_EQ(check({{3, false}}, good.substr(0, good.size() - 1)).wrong_replies, 1U);
  EXPECT_EQ(check({{3, false}}, good + "x").wrong_replies, 1U);
  EXPECT_EQ(check({{3, true}}, good).wrong_replies, 1U);
  EXPECT_EQ(check({{3, false}}, "").wrong_replies, 1U);
}

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::Values(WireProtocol::text, WireProtocol::meta, WireProtocol::binary),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST(WireFormat, AnotherKeysReplyIsWrong) {
  const workload::Spec spec = small("K16-G50-U");
  const workload::KeySpace keys(spec);
  const WireFormat format(WireProtocol::text, keys);
  ReplyErrors errors;
  format.check(std::vector<WireOp>{{3, false}},
               "VALUE " + key_of(keys, 4) + " 0 64\r\n" + value_of(keys, 3) + "\r\nEND\r\n", errors);
  EXPECT_EQ(errors.wrong_replies, 1U);
}

// --- tapes

TEST(Tape, IsCutIntoBatchesOfTheStreamsRequests) {
  const workload::Spec spec = small("K8-G50-S");
  const workload::KeySpace keys(spec);
  const Tape tape(spec, keys, WireProtocol::text, 1, 2, 100, {.ops = 250, .bytes = 1 << 20});
  ASSERT_EQ(tape.size(), 3U);
  ASSERT_EQ(tape.ops().size(), 250U);
  EXPECT_EQ(tape.batch(2).ops.size(), 50U);
  workload::Stream stream(spec, 1, 2);
  std::uint64_t bytes = 0, replies = 0, sets = 0;
  for (std::size_t b = 0; b < tape.size(); ++b) {
    std::string text;
    for (std::size_t i = 0; i < tape.batch(b).ops.size(); ++i) {
      const workload::Op op = stream.next();
      const WireOp wire = tape.batch(b).ops[i];
      EXPECT_EQ(wire.key(), op.key);
      EXPECT_EQ(wire.is_set(), op.kind == workload::OpKind::set);
      sets += wire.is_set() ? 1U : 0U;
      std::string request(tape.format().request_bytes(wire), '\0');
      tape.format().write_request(wire, request.data());
      text += request;
      replies += tape.format().reply_bytes(wire);
    }
    EXPECT_EQ(tape.batch(b).requests, text);
    bytes += text.size();
  }
  EXPECT_EQ(tape.bytes(), bytes);
  EXPECT_EQ(tape.batch(0).reply_bytes + tape.batch(1).reply_bytes + tape.batch(2).reply_bytes, replies);

  // Replayed: two and a half times from the 200th request on.
  const Tape::Sums sums = tape.sums(200, 625);
  EXPECT_EQ(sums.gets + sums.sets, 625U);
  const Tape::Sums head = tape.sums(0, 75), tail = tape.sums(200, 50);
  EXPECT_EQ(sums.sets, 2 * sets + head.sets + tail.sets);
  EXPECT_EQ(sums.request_bytes, 2 * bytes + head.request_bytes + tail.request_bytes);

  const Tape::Slice part = tape.prefix(1, 7);
  EXPECT_EQ(part.ops.size(), 7U);
  EXPECT_TRUE(tape.batch(1).requests.starts_with(part.requests));
  EXPECT_EQ(part.requests.size(), tape.sums(100, 7).request_bytes);
  EXPECT_EQ(part.reply_bytes, tape.sums(100, 7).reply_bytes);
}

TEST(Tape, SizeIsBoundedAndScansAreRefused) {
  const workload::Spec spec = small("K128-G50-U");
  const workload::KeySpace keys(spec);
  const Tape tape(spec, keys, WireProtocol::text, 0, 1, 16, {.ops = 1 << 20, .bytes = 100'000});
  EXPECT_LT(tape.bytes(), 102'000U);
  const workload::Spec scans = small("ycsb-e");
  const workload::KeySpace scan_keys(scans);
  EXPECT_THROW(Tape(scans, scan_keys, WireProtocol::text, 0, 1, 16, {}), std::invalid_argument);
}

// --- whole runs

TEST(BenchEngine, TheMixIsExactlyTheStreams) {
  EngineSettings settings = quick({"K8-G50-S"});
  settings.threads = {2};
  settings.seed = 5;
  Json document = new_document();
  run_engine(settings, document);
  std::uint64_t gets = 0, sets = 0;
  for (std::uint32_t t = 0; t < 2; ++t) {
    workload::Spec spec = small("K8-G50-S");
    spec.seed = 5;
    workload::Stream stream(spec, t, 2);
    for (int i = 0; i < 3000; ++i) (stream.next().kind == workload::OpKind::get ? gets : sets) += 1;
  }
  const Json result = runs_of(document, "tandem").at(0)["result"];
  EXPECT_EQ(result["ops"], 6000);
  EXPECT_EQ(result["gets"], gets);
  EXPECT_EQ(result["hits"], gets);
  EXPECT_EQ(result["misses"], 0);
  EXPECT_EQ(result["sets"], sets);
  EXPECT_EQ(result["verified"], 12000);  // before the first round and after the last one
  EXPECT_GT(gets, 2500U);
  EXPECT_GT(sets, 2500U);
}

TEST(BenchEngine, EveryPresetRunsOrSaysWhyNot) {
  for (const workload::Preset& preset : workload::all_presets()) {
    EngineSettings settings = quick({preset.name});
    settings.subjects.clear();  // all that apply
    Json document = new_document();
    if (workload::preset(preset.name).mix[workload::OpKind::scan] > 0) {
      EXPECT_THROW(run_engine(settings, document), std::invalid_argument) << preset.name;
      continue;
    }
    run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "") << preset.name;
    for (const std::string_view subject : {subject_wire, subject_embedded}) {
      const std::vector<Json> runs = runs_of(document, subject);
      ASSERT_EQ(runs.size(), 1U) << preset.name;
      EXPECT_EQ(runs[0]["result"]["ops"], 3000) << preset.name;
      EXPECT_EQ(runs[0]["result"]["gets"].get<int>() + runs[0]["result"]["sets"].get<int>(), 3000) << preset.name;
    }
  }
}

TEST(BenchEngine, ProtocolsBatchSizesAndThreads) {
  for (const WireProtocol protocol : {WireProtocol::text, WireProtocol::meta, WireProtocol::binary}) {
    EngineSettings settings = quick({"K16-G95-U"});
    settings.protocol = protocol;
    settings.batches = {1, 7, 1024};
    settings.threads = {1, 2};
    Json document = new_document();
    const Json cells = run_engine(settings, document);
    EXPECT_EQ(errors_of(document), "");
    ASSERT_EQ(cells.size(), 6U);
    for (const Json& run : runs_of(document, "tandem")) {
      const auto threads = run["settings"]["threads"].get<std::uint64_t>(),
                 batch = run["settings"]["batch"].get<std::uint64_t>();
      EXPECT_EQ(run["result"]["ops"], 3000 * threads);
      EXPECT_EQ(run["result"]["batches"], (3000 + batch - 1) / batch * threads);
    }
  }
}

TEST(BenchEngine, ValuesSentFromTheHeapAreVerifiedToo) {
  EngineSettings settings = quick({"K16-V40000-G95-U"});
  settings.keys = 50;
  settings.ops = 500;
  Json document = new_document();
  std::uint64_t reply_bytes = 0;
  run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  reply_bytes = runs_of(document, "tandem").at(0)["result"]["bytes_received"];
  EXPECT_GT(reply_bytes, 400U * 40000U);
}

// The errors after a foreign client's request to the store, before any measurement.
std::string errors_after(const std::string& request, const std::string& workload = "K8-G100-U") {
  EngineSettings settings = quick({workload});
  settings.keys = 100;  // so that every key is requested
  Json document = new_document();
  EngineHooks hooks;
  hooks.loaded = [&](Engine& engine) {
    WireDriver driver(engine, engine_plan("cpu"), WireProtocol::text, 1, request.size());
    const std::uint32_t end = static_cast<std::uint32_t>(request.size());
    driver.run({request, {}, 0, {&end, 1}});
  };
  run_engine(settings, document, hooks);
  return errors_of(document);
}

TEST(BenchEngine, PlantedFaultsFailTheRun) {
  const workload::Spec spec = small("K8-G100-U");
  const workload::KeySpace keys(spec);
  const std::string key = key_of(keys, 42);
  const std::string same_size = errors_after("set " + key + " 0 0 8\r\n????????\r\n");
  EXPECT_NE(same_size.find("wrong values"), std::string::npos) << same_size;
  EXPECT_FALSE(same_size.starts_with("0 wrong values")) << same_size;
  EXPECT_NE(same_size.find("key 42"), std::string::npos) << same_size;
  EXPECT_FALSE(errors_after("set " + key + " 0 0 3\r\n???\r\n").starts_with("0 wrong values"));
  const std::string missing = errors_after("delete " + key + "\r\n");
  EXPECT_TRUE(missing.starts_with("0 wrong values")) << missing;
  EXPECT_NE(missing.find("misses of keys"), std::string::npos) << missing;
  EXPECT_EQ(missing.find(" 0 misses"), std::string::npos) << missing;
  EXPECT_NE(errors_after("touch " + key + " -1\r\n"), "");
  EXPECT_EQ(errors_after("get " + key + "\r\n"), "");  // no fault
}

TEST(BenchEngine, TasksAddUp) {
  EngineSettings settings = quick({"K16-G95-U"});
  settings.ops = 100'000;
  settings.batches = {16};
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  const Json tasks = runs_of(document, "tandem").at(0)["result"]["tasks"];
  ASSERT_EQ(tasks.size(), task_count);
  double share = 0;
  for (std::size_t t = 0; t < task_count; ++t) {
    EXPECT_EQ(tasks[t]["task"], task_names[t]);
    EXPECT_EQ(tasks[t]["processor"], "cpu");
    EXPECT_GE(tasks[t]["ns_per_query"].get<double>(), 0);
    EXPECT_FALSE(tasks[t].contains("cache_misses_per_query"));  // not requested
    share += tasks[t]["share"].get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-9);
  double ns = 0;
  for (const Json& t : tasks) ns += t["ns_per_query"].get<double>();
  const Json& wire = cells.at(0)["subjects"].at(0);
  EXPECT_NEAR(wire["tasks_of_rate"].get<double>(), ns * wire["ops_per_s"]["median"].get<double>() / 1e9, 1e-6);
  for (const char* task : {"PP", "Search", "KC", "WR"}) {
    for (const Json& t : tasks) {
      if (t["task"] == task) {
        EXPECT_GT(t["ns_per_query"].get<double>(), 0) << task;
      }
    }
  }
}

TEST(BenchEngine, CacheMissesAreCountedOrTheDocumentSaysWhyNot) {
  EngineSettings settings = quick({"K16-G95-U"});
  settings.cache_misses = true;
  Json document = new_document();
  run_engine(settings, document);
  const Json result = runs_of(document, "tandem").at(0)["result"];
  if (result.contains("cache_misses")) {
    std::set<std::string> tasks;
    for (const Json& group : result["cache_misses"]) {
      for (const Json& task : group["tasks"]) tasks.insert(task);
      EXPECT_GE(group["per_query"].get<double>(), 0);
    }
    EXPECT_EQ(tasks.size(), task_count);
  } else {
    ASSERT_EQ(document["notes"].size(), 1U);
    EXPECT_TRUE(document["notes"][0].get<std::string>().starts_with("cache misses per task: not counted, "));
  }
}

TEST(BenchEngine, ComparisonsFollowFromTheRuns) {
  EngineSettings settings = quick({"K16-G100-U"});
  settings.subjects.clear();
  settings.rounds = 3;
  Json document = new_document();
  const Json cells = run_engine(settings, document);
  std::map<std::string, std::vector<double>> rates;
  for (const Json& run : document["runs"]) {
    if (run["cell"] == "K16-G100-U b64 t1") rates[run["subject"]].push_back(run["result"]["ops_per_s"]);
  }
  ASSERT_EQ(rates.size(), 4U);
  ASSERT_EQ(document["comparisons"].size(), 4U);
  for (const Json& c : document["comparisons"]) {
    EXPECT_EQ(c["rounds"], 3);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < 3; ++i) ratios.push_back(rates[c["subject"]][i] / rates[c["base"]][i]);
    std::ranges::sort(ratios);
    EXPECT_DOUBLE_EQ(c["ratio"]["low"], ratios[0]);
    EXPECT_DOUBLE_EQ(c["ratio"]["median"], ratios[1]);
    EXPECT_DOUBLE_EQ(c["ratio"]["high"], ratios[2]);
  }
  for (const Json& subject : cells[0]["subjects"]) {
    for (const Json& run : subject["runs"])
      EXPECT_EQ(document["runs"][run.get<std::size_t>()]["subject"], subject["subject"]);
  }
  EXPECT_NE(engine_row(cells[0]).find("K16-G100-U"), std::string::npos);
}

TEST(BenchEngine, LoadingIsARunOfItsOwn) {
  Json document = new_document();
  run_engine(quick({"K16-G100-U", "K16-G50-S", "K8-G50-S"}), document);
  std::vector<std::string> loads;
  for (const Json& run : document["runs"]) {
    if (run["cell"].get<std::string>().starts_with("load ")) {
      loads.push_back(run["cell"]);
      EXPECT_EQ(run["result"]["sets"], 500);
    }
  }
  EXPECT_EQ(loads, (std::vector<std::string>{"load K16-G100-U t1", "load K8-G50-S t1"}));  // same sizes, same keys
}

TEST(BenchEngine, WorkloadsAlternate) {
  EngineSettings settings = quick({"K8-G50-U", "K16-G95-S"});
  settings.ops = 0;
  settings.alternates = true;
  settings.alternate_every_s = 0.001;
  settings.seconds = 0.05;
  Json document = new_document();
  run_engine(settings, document);
  EXPECT_EQ(errors_of(document), "");
  const Json result = runs_of(document, "tandem").at(0)["result"];
  ASSERT_EQ(result["phases"].size(), 2U);
  EXPECT_GT(result["phases"][0]["ops"], 0);
  EXPECT_GT(result["phases"][1]["ops"], 0);
  EXPECT_EQ(result["phases"][0]["ops"].get<std::uint64_t>() + result["phases"][1]["ops"].get<std::uint64_t>(),
            result["ops"].get<std::uint64_t>());
  double ops = 0;
  for (const Json& t : result["timeline"]) ops += t["ops_per_s"].get<double>() * 1e-4;
  EXPECT_GT(ops, 0);
  EXPECT_LE(ops, result["ops"].get<double>() * 1.001);
}

TEST(BenchEngine, WhatCannotRunIsRefusedBeforeAnythingRuns) {
  const auto refused = [](auto change) {
    EngineSettings settings = quick({"K8-G50-U"});
    change(settings);
    try {
      validate(settings);
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused([](auto&) {}), "accepted");
  EXPECT_NE(refused([](auto& s) { s.plan = "gpu"; }).find("there are: cpu"), std::string::npos);
  for (const char* plan : {"frames-sim", "located-sim"}) {
    EXPECT_EQ(refused([&](auto& s) { s.plan = plan; }), "accepted");
    EXPECT_NE(refused([&](auto& s) {
                s.plan = plan;
                s.devices = 2;
              }).find("one device"),
              std::string::npos);
  }
  EXPECT_NE(refused([](auto& s) {
              s.plan = "located-sim";
              s.index = "set_associative";
            }).find("cuckoo"),
            std::string::npos);
  const auto dispatched = [&](auto change) {
    return refused([&](auto& s) {
      s.plan = "dispatched";
      s.index = "hash_tree";
      change(s);
    });
  };
  EXPECT_EQ(dispatched([](auto&) {}), "accepted");
  EXPECT_NE(dispatched([](auto& s) { s.index = "cuckoo"; }).find("leaves"), std::string::npos);
  EXPECT_NE(dispatched([](auto& s) { s.protocol = WireProtocol::meta; }).find("text"), std::string::npos);
  EXPECT_NE(dispatched([](auto& s) { s.threads = {65}; }).find("at most 64 threads"), std::string::npos);
  EXPECT_NE(dispatched([](auto& s) { s.workloads = {"K8-V20000-G95-U"}; }).find("16384 bytes"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.workloads = {"K8-G50-X"}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.workloads = {"ycsb-e"}; }).find("scan"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.workloads = {}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.threads = {0}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.batches = {0}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.batches = {100'000}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.batches_per_us = {4}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.rounds = 0; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.seconds = std::nan(""); }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.subjects = {"embedded"}; }), "accepted");
  EXPECT_NE(refused([](auto& s) { s.subjects = {"wire", "paper"}; }), "accepted");
  EXPECT_NE(refused([](auto& s) {
              s.theta = -1;
              s.workloads = {"K8-G50-S"};
            }),
            "accepted");
  const auto alternating = [&](const char* a, const char* b) {
    return refused([&](auto& s) {
      s.workloads = {a, b};
      s.alternates = true;
      s.ops = 0;
    });
  };
  EXPECT_EQ(alternating("K8-G50-U", "K16-G95-S"), "accepted");
  EXPECT_EQ(alternating("K8-G50-U", "K8-G95-S"), "accepted");
  EXPECT_NE(alternating("K32-G50-U", "K32-V512-G95-S").find("other values"), std::string::npos);
}

TEST(BenchEngine, DidosNames) {
  const std::set<std::string> names(dido_workloads().begin(), dido_workloads().end());
  EXPECT_EQ(names.size(), 24U);
  std::set<std::string> presets;
  for (const workload::Preset& preset : workload::all_presets()) presets.insert(preset.name);
  for (const std::string& name : names) EXPECT_TRUE(presets.contains(name)) << name;
}

TEST(PointerChase, VisitsEveryBlockBeforeOneAgain) {
  PointerChase chase(64 * 1024, 7);
  EXPECT_EQ(chase.block_count(), 64U);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 64; ++i) {
    seen.insert(chase.position());
    EXPECT_GT(chase.ns_per_block(1 + static_cast<unsigned>(i) % PointerChase::lines_max, 1), 0);
  }
  EXPECT_EQ(seen.size(), 64U);
  EXPECT_EQ(chase.position(), 0U);
}

}  // namespace
}  // namespace tandem::bench
