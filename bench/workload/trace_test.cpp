#include "bench/workload/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "bench/workload/value_bytes.hpp"

namespace tandem::workload {
namespace {

Trace parse(const std::string& text, std::uint64_t records_max = Trace::records_max_default) {
  std::istringstream in(text);
  return Trace::parse(in, "t.csv", records_max);
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "";
}

TEST(Trace, ReadsTheOwnForm) {
  const Trace trace = parse(
      "op,key,value_bytes,ttl_s,time_us\n"
      "set,user:1,100,60,1000\n"
      "get,user:1,,,1500\r\n"
      "\n"
      "delete,user:2,0,0,2500\n"
      "GETS,user:1,0,0,2500");
  const auto records = trace.records();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].kind, OpKind::set);
  EXPECT_EQ(trace.key(records[0].key), "user:1");
  EXPECT_EQ(records[0].value_bytes, 100U);
  EXPECT_EQ(records[0].ttl_s, 60U);
  EXPECT_EQ(records[0].time_us, 0U);
  EXPECT_EQ(records[1].kind, OpKind::get);
  EXPECT_EQ(records[1].key, records[0].key);
  EXPECT_EQ(records[1].time_us, 500U);
  EXPECT_EQ(records[2].kind, OpKind::remove);
  EXPECT_EQ(trace.key(records[2].key), "user:2");
  EXPECT_EQ(records[3].kind, OpKind::get);
  EXPECT_EQ(records[3].time_us, 1500U);
  EXPECT_EQ(trace.key_count(), 2U);
  EXPECT_TRUE(trace.has_times());
  EXPECT_FALSE(trace.is_cut());
  EXPECT_TRUE(trace.replaced().empty());
}

TEST(Trace, ColumnsStandInAnyOrderAndMostMayBeMissing) {
  const Trace trace = parse("\xef\xbb\xbfKEY,op\na,set\nb,get\n");
  ASSERT_EQ(trace.records().size(), 2U);
  EXPECT_EQ(trace.key(trace.records()[0].key), "a");
  EXPECT_EQ(trace.records()[0].kind, OpKind::set);
  EXPECT_EQ(trace.records()[0].value_bytes, 0U);
  EXPECT_FALSE(trace.has_times());
}

// Lines as in the published traces: 3 requests in second 5 and one in second 7.
TEST(Trace, ReadsTwittersForm) {
  const Trace trace = parse(
      "5,q:q:1:8WTfjZU14ee,17,213,0,get,0\n"
      "5,yDqF:3q:1AJrrJ1nnCJKKrnGx1A,27,27,1,get,0\n"
      "5,q:q:1:8WTfjZU14ee,17,213,2,set,86400\n"
      "7,q:q:1:8WTfjZU14ee,17,213,0,incr,99999999\n");
  const auto records = trace.records();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(trace.key(records[0].key), "q:q:1:8WTfjZU14ee");
  EXPECT_EQ(records[0].value_bytes, 213U);
  EXPECT_EQ(records[2].kind, OpKind::set);
  EXPECT_EQ(records[2].ttl_s, 86'400U);
  EXPECT_EQ(records[3].kind, OpKind::read_modify_write);
  EXPECT_EQ(records[3].ttl_s, 2'592'000U);  // 30 days at most
  const std::uint64_t times[] = {0, 333'333, 666'666, 2'000'000};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(records[i].time_us, times[i]);
}

TEST(Trace, OperationsBecomeTheNearestAndAreCounted) {
  std::string text = "op,key\n";
  const std::pair<const char*, OpKind> all[] = {{"get", OpKind::get},
                                                {"gets", OpKind::get},
                                                {"set", OpKind::set},
                                                {"add", OpKind::set},
                                                {"replace", OpKind::set},
                                                {"cas", OpKind::set},
                                                {"append", OpKind::set},
                                                {"prepend", OpKind::set},
                                                {"incr", OpKind::read_modify_write},
                                                {"decr", OpKind::read_modify_write},
                                                {"delete", OpKind::remove},
                                                {"remove", OpKind::remove},
                                                {"touch", OpKind::touch},
                                                {"gat", OpKind::touch},
                                                {"gats", OpKind::touch}};
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, kind] : all) text += std::string(name) + ",k\n";
  }
  const Trace trace = parse(text);
  for (std::size_t i = 0; i < 2 * std::size(all); ++i)
    EXPECT_EQ(trace.records()[i].kind, all[i % std::size(all)].second);
  std::map<std::string, std::uint64_t> expected;
  for (const char* name : {"add", "replace", "cas", "append", "prepend", "incr", "decr", "gat", "gats"})
    expected[name] = 2;
  EXPECT_EQ(trace.replaced(), expected);
}

TEST(Trace, QuotesAreThoseOfRfc4180) {
  const Trace trace = parse("\"op\",\"key\",\"value_bytes\"\nset,\"a,b\"\"c\",\"7\"\n\"get\",\"plain\",\"\"\n");
  ASSERT_EQ(trace.records().size(), 2U);
  EXPECT_EQ(trace.key(0), "a,b\"c");
  EXPECT_EQ(trace.records()[0].value_bytes, 7U);
  EXPECT_EQ(trace.key(1), "plain");
}

TEST(Trace, ErrorsNameTheLine) {
  const struct {
    const char *text, *error;
  } wrong[] = {
      {"", "t.csv:1: the trace has no requests"},
      {"op,key\n", "t.csv:2: the trace has no requests"},
      {"op,key\nget,a\nget\n", "t.csv:3: 1 columns where 2 are due"},
      {"op,key\nget,a\n\r\nget,a,b\n", "t.csv:4: 3 columns where 2 are due"},
      {"op,key\nfly,a\n", "t.csv:2: unknown operation \"fly\""},
      {"op,key\nget,\n", "t.csv:2: the key is empty"},
      {"op,key\nget,a b\n", "t.csv:2: a space or control character in the key \"a b\""},
      {"op,key\nget,\"a\nb\"\n", "t.csv:2: a space or control character in the key \"a?b\""},
      {"op,key\nget,\"a\nb\"\nset,b\n", "t.csv:2: a space"},
      {"op,key,value_bytes\nset,a,12x\n", "t.csv:2: value size is no number: \"12x\""},
      {"op,key,value_bytes\nset,a,-1\n", "t.csv:2: value size is no number: \"-1\""},
      {"op,key,value_bytes\nset,a,1073741825\n", "t.csv:2: value size too large"},
      {"op,key,value_bytes\nset,a,99999999999999999999999\n", "t.csv:2: value size too large"},
      {"op,key,time_us\nset,a,1.5\n", "t.csv:2: time is no number"},
      {"op,key\nget,\"a\n", "t.csv:2: a quoted field without its closing quote"},
      {"op,key\nget,\"a\"b\n", "t.csv:2: text after a closing quote"},
      {"op,key\nget,a\"b\n", "t.csv:2: a quote within a field"},
      {"op,value_bytes\nget,1\n", "t.csv:1: the header names no column \"key\""},
      {"op,key,size\n", "t.csv:1: unknown column \"size\""},
      {"op,key,op\n", "t.csv:1: column \"op\" twice"},
      {"a,b,c\n", "t.csv:1: neither a header"},
      {"18446744073709551615,k,1,1,1,get,0\n", "t.csv:1: time too large"},
  };
  for (const auto& w : wrong) EXPECT_TRUE(error_of(w.text).starts_with(w.error)) << w.text << ": " << error_of(w.text);
  EXPECT_EQ(error_of("op,key\nget," + std::string(251, 'k')), "t.csv:2: the key has 251 bytes, 250 are allowed");
  EXPECT_EQ(error_of("op,key\nget," + std::string(250, 'k')), "");
  EXPECT_EQ(error_of("op,key\n\"" + std::string(70'000, 'k')), "t.csv:2: longer than 65536 bytes");
}

TEST(Trace, ALimitOfRecordsCutsIt) {
  const std::string text = "op,key\nget,a\nget,b\nget,c\n";
  EXPECT_EQ(parse(text, 2).records().size(), 2U);
  EXPECT_TRUE(parse(text, 2).is_cut());
  EXPECT_EQ(parse(text, 3).records().size(), 3U);
  EXPECT_FALSE(parse(text, 3).is_cut());
}

TEST(Trace, TimesThatGoBackStandStill) {
  const Trace trace = parse("op,key,time_us\nget,a,50\nget,a,40\nget,a,60\n");
  const std::uint64_t times[] = {0, 0, 10};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(trace.records()[i].time_us, times[i]);
}

TEST(Trace, TheSpeedFactorMovesWhenRecordsAreDue) {
  const TraceRecord record{.time_us = 1'000'000, .key = 0, .value_bytes = 0, .ttl_s = 0, .kind = OpKind::get};
  EXPECT_EQ(Trace::due_ns(record, 1), 1'000'000'000U);
  EXPECT_EQ(Trace::due_ns(record, 10), 100'000'000U);
  EXPECT_EQ(Trace::due_ns(record, 0.5), 2'000'000'000U);
}

TEST(Trace, AValueIsVerifiedWhateverItsLength) {
  std::string value(300, '\0');
  Trace::write_value(3, 300, value.data());
  for (const std::size_t n : {0U, 1U, 7U, 8U, 100U, 300U}) {
    std::string shorter(n, '\0');
    EXPECT_EQ(Trace::write_value(3, static_cast<std::uint32_t>(n), shorter.data()), shorter.data() + n);
    EXPECT_EQ(shorter, value.substr(0, n));
    EXPECT_TRUE(Trace::is_value(3, shorter));
    if (n >= 7) {
      EXPECT_FALSE(Trace::is_value(4, shorter)) << n;
    }
  }
}

// The streams' records are the trace's, each once; those of a key are in order and in one stream.
TEST(TracePartition, DealsRecordsOutByKey) {
  std::string text = "op,key,value_bytes\n";
  for (std::uint32_t i = 0; i < 5000; ++i)
    text += "set,key" + std::to_string(i * i % 97) + ',' + std::to_string(i) + '\n';
  const Trace trace = parse(text);
  for (const std::uint32_t streams : {1U, 4U, 1000U}) {
    const TracePartition partition(trace, streams);
    std::vector<int> seen(trace.records().size());
    std::map<std::uint32_t, std::uint32_t> stream_of_key;
    std::size_t used = 0;
    for (std::uint32_t s = 0; s < streams; ++s) {
      const auto numbers = partition.stream(s);
      used += !numbers.empty();
      EXPECT_TRUE(std::ranges::is_sorted(numbers));
      for (const std::uint32_t number : numbers) {
        ++seen[number];
        EXPECT_EQ(stream_of_key.emplace(trace.records()[number].key, s).first->second, s);
      }
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int count) { return count == 1; }));
    EXPECT_GE(used, std::min<std::size_t>(streams, 20));
  }
  EXPECT_THROW(TracePartition(trace, 0), std::invalid_argument);
}

TEST(Trace, IsReadFromAFile) {
  const std::string path = testing::TempDir() + "trace_test.csv";
  std::ofstream(path) << "op,key\nget,a\nbad\n";
  try {
    Trace::read(path);
    FAIL();
  } catch (const TraceError& error) {
    EXPECT_EQ(error.what(), path + ":3: 1 columns where 2 are due");
  }
  std::ofstream(path) << "op,key\nget,a\n";
  EXPECT_EQ(Trace::read(path).records().size(), 1U);
  std::remove(path.c_str());
  EXPECT_THROW(Trace::read(path), std::system_error);
  EXPECT_THROW(Trace::read(testing::TempDir()), std::system_error);  // a folder
}

// Keys fill many blocks of memory, and are never moved.
TEST(Trace, ManyKeysKeepTheirBytes) {
  std::string text = "op,key\n";
  for (int i = 0; i < 20'000; ++i) text += "get," + std::string(200, 'p') + std::to_string(i) + '\n';
  const Trace trace = parse(text);
  ASSERT_EQ(trace.key_count(), 20'000U);
  for (std::uint32_t i = 0; i < 20'000; ++i) ASSERT_EQ(trace.key(i), std::string(200, 'p') + std::to_string(i));
}

}  // namespace
}  // namespace tandem::workload
