// flush_all, verbosity, stats and the administrative commands.
#include <gtest/gtest.h>

#include <string>

#include "engine/reply_expect.hpp"
#include "engine/reply_harness.hpp"

namespace tandem::codec {
namespace {

using std::string;
using Calls = std::vector<string>;

const string bad_flush_time = "CLIENT_ERROR invalid exptime argument\r\n";

TEST(Control, FlushAll) {
  ReplyHarness server;
  server.exchange("set a 0 0 1\r\nx\r\n");
  EXPECT_EQ(server.exchange("get a\r\nflush_all\r\nget a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\nOK\r\nEND\r\n");
  EXPECT_EQ(server.exchange("flush_all 0\r\nflush_all -1\r\nflush_all 0 x\r\n"), "OK\r\nOK\r\nOK\r\n");
  EXPECT_EQ(server.exchange("flush_all noreply\r\nflush_all 5 noreply\r\nflush_all noreply noreply\r\n"), "");
  EXPECT_EQ(server.calls, (Calls{"flush_all 0", "flush_all 0", "flush_all 0", "flush_all 0", "flush_all 0",
                                 "flush_all " + std::to_string(ReplyHarness::start_s + 4)}));
  EXPECT_EQ(server.exchange("flush_all x\r\nflush_all noreply 0\r\n"), bad_flush_time + bad_flush_time);
  EXPECT_EQ(server.exchange("flush_all x noreply\r\n"), "");
  EXPECT_EQ(server.exchange("flush_all 0 1 2\r\n"), "ERROR\r\n");
  // A time before the server's start, memcached's way of flushing nothing.
  server.exchange("set a 0 0 1\r\nx\r\n");
  EXPECT_EQ(server.exchange("flush_all 2592001\r\nget a\r\n"), "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.calls.size(), 6u);
}

TEST(Control, FlushAllTurnedOff) {
  ProtocolOptions options;
  options.flush_enabled = false;
  ReplyHarness server(options);
  EXPECT_EQ(server.exchange("flush_all\r\nflush_all x\r\n"),
            "CLIENT_ERROR flush_all not allowed\r\nCLIENT_ERROR flush_all not allowed\r\n");
  EXPECT_EQ(server.exchange("flush_all noreply\r\n"), "");
  EXPECT_TRUE(server.calls.empty());
}

TEST(Control, Verbosity) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange("verbosity 1\r\nverbosity 99 x\r\nverbosity 2 noreply\r\n"), "OK\r\nOK\r\n");
  EXPECT_EQ(server.calls, (Calls{"verbosity 1", "verbosity 99", "verbosity 2"}));
  EXPECT_EQ(server.exchange("verbosity\r\nverbosity 1 2 3\r\n"), "ERROR\r\nERROR\r\n");
  EXPECT_EQ(server.exchange("verbosity x\r\nverbosity -1\r\nverbosity noreply\r\n"), bad_format + bad_format);
}

TEST(Control, Stats) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange("stats\r\nstats \r\n"), "STAT name value\r\nEND\r\nSTAT name value\r\nEND\r\n");
  EXPECT_EQ(server.exchange("stats settings\r\nstats items x y\r\n"), "STAT name value\r\nEND\r\nEND\r\n");
  EXPECT_EQ(server.exchange("stats reset x\r\n"), "STAT name value\r\nRESET\r\n") << "the sink is there for it";
  EXPECT_EQ(server.exchange("stats nosuch\r\n"), "ERROR\r\n");
  EXPECT_EQ(server.calls, (Calls{"stats ", "stats ", "stats settings", "stats items", "stats reset", "stats nosuch"}));
  EXPECT_EQ(server.exchange("stats sizes_enable\r\nstats sizes_disable\r\n"),
            "STAT sizes_status enabled\r\nSTAT sizes_status disabled\r\n");
  EXPECT_EQ(server.exchange("stats detail\r\nstats detail x\r\n"),
            "CLIENT_ERROR usage: stats detail on|off|dump\r\nCLIENT_ERROR usage: stats detail on|off|dump\r\n");
  server.calls.clear();
  EXPECT_EQ(server.exchange("stats detail on\r\nstats detail dump\r\nstats detail off\r\n"),
            "OK\r\nPREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\nOK\r\n");
  EXPECT_EQ(server.calls, (Calls{"detail on", "detail off"}));
  EXPECT_EQ(server.exchange("stats extstore\r\n"), "END\r\n");
  EXPECT_EQ(server.exchange("STATS\r\nstat\r\nstats\treset\r\n"), "ERROR\r\nERROR\r\nERROR\r\n");
}

TEST(Control, RefreshCerts) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange("refresh_certs\r\nrefresh_certs noreply\r\n"),
            "Error TLS not enabled\r\nError TLS not enabled\r\n");
  server.certificate_error.clear();
  EXPECT_EQ(server.exchange("refresh_certs\r\nrefresh_certs x\r\nrefresh_certs noreply\r\n"), "OK\r\nOK\r\n");
  EXPECT_EQ(server.calls.size(), 5u);
  EXPECT_EQ(server.exchange("refresh_certsx\r\n"), "ERROR\r\n");
}

TEST(Control, Sizes) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange("stats sizes\r\n"), "STAT sizes_status disabled\r\nEND\r\n");
  server.exchange("stats sizes_enable\r\n");
  EXPECT_EQ(server.exchange("stats sizes\r\n"), "");
  EXPECT_EQ(server.calls, (Calls{"stream 4 classes all items 0 events 0"}));
}

TEST(Control, Administration) {
  ReplyHarness server;
  const Exchange exchanges[] = {
      {"shutdown\r\nshutdown graceful\r\nshutdown x\r\n",
       "ERROR: shutdown not enabled\r\nERROR: shutdown not enabled\r\nERROR: shutdown not enabled\r\n"},
      {"watch nosuch\r\nwatch fetchers nosuch\r\nwatch noreply\r\n", "ERROR\r\nERROR\r\n"},
      {"slabs reassign 1 x\r\nslabs reassign 1\r\nslabs reassign 1 2 noreply\r\n",
       "CLIENT_ERROR bad command line format\r\nERROR\r\nERROR\r\n"},
      {"slabs automove 3\r\nslabs automove x\r\n", "ERROR\r\nCLIENT_ERROR bad command line format\r\n"},
      {"slabs automove ratio 0.5\r\nslabs automove ratio\r\nslabs automove\r\nslabs\r\n",
       "OK\r\nERROR\r\nERROR\r\nERROR\r\n"},
      {"cache_memlimit 1\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"},
      {"cache_memlimit 1000000001\r\n", "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"},
      {"cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit 1 2 3\r\n", "ERROR\r\nERROR\r\nERROR\r\n"},
      {"lru tune 10 25 0.1 2\r\nlru tune 10 25 0.1 2 noreply\r\n", "OK\r\n"},
      {"lru tune 50 31 0.1 2\r\n", "ERROR hot and warm pcts must not exceed 80\r\n"},
      {"lru tune 4294967295 4294967295 0.1 2\r\n", "ERROR hot and warm pcts must not exceed 80\r\n"},
      {"lru tune 10 25 0 2\r\n", "ERROR hot/warm age factors must be greater than 0\r\n"},
      {"lru\r\nlru mode x\r\nlru temp_ttl x\r\nlru tune 1 2\r\nlru mode flat noreply\r\n",
       "ERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
      {"lru mode flat\r\nlru mode segmented\r\nlru temp_ttl 5\r\n", "OK\r\nOK\r\nOK\r\n"},
      {"lru_crawler crawl hash\r\nlru_crawler crawl ,\r\n",
       "ERROR an unknown error happened\r\nNOTSTARTED no items to crawl\r\n"},
      {"lru_crawler metadump\r\nlru_crawler metadump 1 2\r\n", "ERROR\r\nERROR\r\n"},
      {"lru_crawler metadump 0\r\nlru_crawler mgdump 256\r\nlru_crawler metadump 1,x\r\n",
       "BADCLASS invalid class id\r\nBADCLASS invalid class id\r\nBADCLASS invalid class id\r\n"},
      {"stats cachedump\r\nstats cachedump 1\r\n",
       "CLIENT_ERROR bad command line\r\nCLIENT_ERROR bad command line\r\n"},
      {"stats cachedump x 0\r\nstats cachedump 1 -1\r\n",
       "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n"},
      {"stats cachedump 256 0\r\n", "CLIENT_ERROR Illegal slab id\r\n"},
  };
  for (const Exchange& e : exchanges) EXPECT_EQ(server.exchange(e.request), e.reply) << e.request;
  EXPECT_EQ(server.calls, Calls{}) << "none of these reaches the server";
}

TEST(Control, AdministrationThatReachesTheServer) {
  ReplyHarness server;
  EXPECT_EQ(server.exchange("slabs reassign 1 2\r\nslabs reassign -1 0\r\nslabs automove 2\r\n"), "OK\r\nOK\r\nOK\r\n");
  EXPECT_EQ(server.exchange("slabs automove 0 noreply\r\n"), "");
  EXPECT_EQ(server.exchange("cache_memlimit 64\r\ncache_memlimit 9 noreply\r\n"), "OK\r\n");
  EXPECT_EQ(server.exchange("cache_memlimit 999999999\r\n"),
            "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n");
  EXPECT_EQ(server.calls, (Calls{"reassign 1 2", "reassign -1 0", "automove 2", "automove 0", "memory 67108864",
                                 "memory 9437184", "memory 1048575998951424"}));
}

TEST(Control, Streams) {
  ReplyHarness server;
  EXPECT_EQ(
      server.exchange("lru_crawler metadump all\r\nlru_crawler metadump 1,3\r\nlru_crawler mgdump hash\r\n"
                      "stats cachedump 2 7\r\nstats cachedump 0 0\r\nwatch\r\nwatch rawcmds evictions deletions\r\n"),
      "");
  EXPECT_EQ(server.calls,
            (Calls{"stream 1 classes all items 0 events 0", "stream 1 classes 1,3 items 0 events 0",
                   "stream 2 classes all items 0 events 0", "stream 3 classes 2 items 7 events 0",
                   "stream 3 classes 0 items 0 events 0", "stream 5 classes all items 0 events 2",
                   "stream 5 classes all items 0 events " +
                       std::to_string(watch_event::silent | watch_event::evictions | watch_event::deletions)}));
}

TEST(Control, SwitchesOfAdministration) {
  ProtocolOptions options;
  options.dump_enabled = options.watch_enabled = false;
  options.shutdown_enabled = true;
  ReplyHarness server(options);
  EXPECT_EQ(server.exchange("lru_crawler metadump all\r\nlru_crawler metadump x\r\n"),
            "ERROR metadump not allowed\r\nERROR metadump not allowed\r\n");
  EXPECT_EQ(server.exchange("stats cachedump\r\nstats cachedump 1 0\r\n"),
            "CLIENT_ERROR stats cachedump not allowed\r\nCLIENT_ERROR stats cachedump not allowed\r\n");
  EXPECT_EQ(server.exchange("watch\r\nwatch nosuch\r\nwatch noreply\r\n"),
            "CLIENT_ERROR watch commands not allowed\r\nCLIENT_ERROR watch commands not allowed\r\n");
  EXPECT_EQ(server.exchange("shutdown x\r\nshutdown graceful x\r\n"),
            "CLIENT_ERROR invalid shutdown mode\r\nCLIENT_ERROR invalid shutdown mode\r\n");
  EXPECT_EQ(server.exchange("shutdown\r\nshutdown graceful\r\n"), "");
  EXPECT_EQ(server.calls, (Calls{"shutdown", "shutdown graceful"}));
}

TEST(Control, Crawler) {
  ReplyHarness server;
  const Exchange exchanges[] = {
      {"lru_crawler crawl all\r\nlru_crawler crawl 1,3\r\n", "OK\r\nOK\r\n"},
      {"lru_crawler crawl 0\r\nlru_crawler crawl 1,x\r\n",
       "BADCLASS invalid class id\r\nBADCLASS invalid class id\r\n"},
      {"lru_crawler tocrawl 5\r\nlru_crawler tocrawl x\r\n", "OK\r\nCLIENT_ERROR bad command line format\r\n"},
      {"lru_crawler sleep 1000000\r\nlru_crawler sleep 1000001\r\n",
       "OK\r\nCLIENT_ERROR sleep must be one second or less\r\n"},
      {"lru_crawler enable\r\nlru_crawler disable\r\nlru_crawler disable\r\n",
       "ERROR failed to start lru crawler thread\r\nOK\r\nOK\r\n"},
      {"lru_crawler crawl all\r\nlru_crawler metadump all\r\n",
       "CLIENT_ERROR lru crawler disabled\r\nCLIENT_ERROR lru crawler disabled\r\n"},
      {"lru_crawler enable\r\n", "OK\r\n"},
      {"lru_crawler\r\nlru_crawler x\r\nlru_crawler x y\r\nlru_crawler crawl 1 2\r\n",
       "ERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
  };
  for (const Exchange& e : exchanges) EXPECT_EQ(server.exchange(e.request), e.reply) << e.request;
  EXPECT_EQ(server.calls, (Calls{"crawl 256", "crawl 2", "tocrawl 5", "sleep 1000000"}));
}

}  // namespace
}  // namespace tandem::codec
