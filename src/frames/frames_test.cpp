// The key hash, the tiling of input, and what columns tell about answers. Whole replies are compared with the general
// path's in src/engine/frames_test.cpp.
#include "frames/frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "codec/ethernet_builder.hpp"
#include "frames/frames_rig.hpp"
#include "frames/key_hash-inl.hpp"

namespace tandem {
namespace {

using std::string;

TEST(KeyHash, IsTheHosts) {
  std::mt19937_64 random(1);
  for (std::uint32_t bytes = 1; bytes <= frame_key_bytes_max; ++bytes) {
    for (int round = 0; round < 40; ++round) {
      // What stands behind the key is not part of it.
      string key(bytes + 8, '\0');
      for (char& c : key) c = static_cast<char>(round == 0 ? 0xff : random());
      const std::uint64_t seed = round == 1 ? 0 : random();
      const FrameRules rules = frame_rules(seed);
      const Fingerprint expected = fingerprint_of(key.data(), bytes, seed);
      const Fingerprint f =
          frames::fingerprint(key.data(), bytes, rules.seed, rules.secret.data(), short_hash::columns.data());
      ASSERT_EQ(f.signature, expected.signature) << bytes;
      ASSERT_EQ(f.hash, expected.hash) << bytes;
    }
  }
}

// What the device was given, copied by a kernel of its own.
std::vector<FramePiece> seen_pieces;
std::vector<FrameTile> seen_tiles;

bool host_see(const FramesArguments& a, const HostMemory& memory) noexcept {
  const FramePart& part = a.part[0];
  const FramePiece* const pieces = memory.at(DevicePtr<const FramePiece>(part.pieces));
  const FrameTile* const tiles = memory.at(DevicePtr<const FrameTile>(part.tiles));
  seen_pieces.assign(pieces, pieces + part.piece_count);
  seen_tiles.assign(tiles, tiles + part.tile_count);
  return true;
}
const Kernel<FramesArguments> see{"see frames", host_see, nullptr};
struct SeenRig : FramesRig {
  explicit SeenRig(std::uint64_t bytes, std::uint32_t keys = usual_keys) : FramesRig(bytes, keys) { ahead = &see; }
};

struct Span {
  std::uint64_t begin, bytes;
  bool is_datagram;
};

// Each byte is in one piece, in order; pieces and tiles keep to their limits and describe the arena.
void expect_pieces_of(const std::vector<Span>& spans) {
  std::size_t p = 0;
  for (const Span& span : spans) {
    for (std::uint64_t at = span.begin; at != span.begin + span.bytes; ++p) {
      ASSERT_LT(p, seen_pieces.size());
      const FramePiece& piece = seen_pieces[p];
      ASSERT_NE(piece.bytes, 0);
      ASSERT_EQ(piece.first_unit * std::uint64_t{frame_unit_bytes} + piece.skip, at);
      ASSERT_EQ(piece.continues, at != span.begin);
      ASSERT_GE(piece.skip, piece.continues ? 1 : 0) << "the byte before it is in its units";
      at += piece.bytes;
      ASSERT_LE(at, span.begin + span.bytes);
      ASSERT_EQ(piece.more, std::min<std::uint64_t>(frame_line_bytes_max, span.begin + span.bytes - at));
      const std::uint32_t end = std::uint32_t{piece.skip} + piece.bytes + piece.more;
      ASSERT_EQ(piece.units, (end + frame_unit_bytes - 1) / frame_unit_bytes);
      ASSERT_EQ(piece.kind, span.is_datagram ? FramePiece::datagram : FramePiece::stream);
    }
  }
  ASSERT_EQ(p, seen_pieces.size());
  std::uint32_t next = 0;
  for (const FrameTile& tile : seen_tiles) {
    ASSERT_EQ(tile.first_piece, next);
    ASSERT_GE(tile.pieces, 1);
    ASSERT_LE(tile.pieces, tile_pieces_max);
    ASSERT_LE(tile.units, tile_units_max);
    std::uint32_t units = 0, bytes = 0;
    for (next += tile.pieces; const FramePiece& piece : std::span(seen_pieces).subspan(tile.first_piece, tile.pieces)) {
      ASSERT_EQ(piece.tile_unit, units);
      units += piece.units;
      bytes += piece.bytes;
    }
    ASSERT_EQ(tile.units, units);
    ASSERT_LE(bytes, tile_bytes);
  }
  ASSERT_EQ(next, seen_pieces.size());
}

TEST(FrameColumns, HaveEveryByteInOnePiece) {
  std::mt19937 random(1);
  SeenRig rig(1 << 16);
  for (int round = 0; round < 300; ++round) {
    const bool crowded = round % 3 == 0, large = round % 3 == 1;
    rig.columns.clear();
    std::vector<Span> spans;
    for (std::uint64_t at = random() % 40; spans.size() < 500;) {
      const bool is_datagram = random() % 4 == 0;
      std::uint64_t bytes = frame_line_bytes_min + random() % (crowded ? 30 : 400);
      if (large && !is_datagram && random() % 4 == 0) bytes = 3000 + random() % 12000;
      if (at + bytes + frame_unit_bytes > rig.input.count()) break;
      // Where there is no room for all of a stream, its beginning may be in it.
      if (!(is_datagram ? rig.columns.add_datagram(at, bytes) : rig.columns.add_stream(at, bytes))) break;
      spans.push_back({at, bytes, is_datagram});
      at += bytes + (crowded ? 0 : 64 + random() % 20);
    }
    ASSERT_GT(spans.size(), 3u);
    rig.launch();
    ASSERT_NO_FATAL_FAILURE(expect_pieces_of(spans)) << round;
  }
}

TEST(FrameColumns, RefuseWhatTheyHaveNoRoomFor) {
  FramesRig rig(4096);
  EXPECT_FALSE(rig.columns.add_stream(0, frame_line_bytes_min - 1));
  EXPECT_FALSE(rig.columns.add_datagram(0, 0));
  EXPECT_FALSE(rig.columns.add_datagram(0, frame_line_bytes_max + 1));
  EXPECT_TRUE(rig.columns.empty());
  EXPECT_FALSE(rig.columns.add_stream(4096 - 6, 7)) << "ends behind the arena";
  EXPECT_TRUE(rig.columns.empty());
  // Packed as close as can be, there are more streams than pieces; those that were taken are answered.
  const string line = "get k\r\n";
  std::uint64_t added = 0;
  for (std::uint64_t at = 0; at + line.size() <= 4096; at += line.size()) {
    rig.put(at, line);
    if (added * line.size() == at && rig.columns.add_stream(at, line.size())) ++added;
  }
  EXPECT_GE(added, 4096u / 64);
  EXPECT_LT(added, 4096u / line.size());
  rig.launch();
  rig.begin();
  for (std::uint64_t i = 0; i < added; ++i) {
    ASSERT_FALSE(rig.is_whole(i * line.size(), i * line.size() + 1)) << "it is a part of it";
    ASSERT_TRUE(i % 2 == 0 ? rig.finds(i * line.size()) : rig.is_whole(i * line.size(), (i + 1) * line.size()));
    ASSERT_EQ(rig.reply(rig.runs.run()), "END\r\n");
    ASSERT_EQ(rig.runs.run().bytes, line.size()) << "runs end with their stream";
  }
  EXPECT_FALSE(rig.finds(added * line.size()));
}

// The last bytes of the arena are read, and nothing behind them.
TEST(FrameColumns, ReachToTheEndOfTheArena) {
  const string line = "gets k l\r\n";
  for (std::uint64_t skip = 0; skip < frame_unit_bytes; ++skip) {
    FramesRig rig(4096);
    const std::uint64_t at = 4096 - skip - line.size();
    rig.put(at, line);
    ASSERT_TRUE(rig.columns.add_stream(at, line.size()));
    rig.launch();
    rig.begin();
    FrameRun run;
    ASSERT_TRUE(rig.take_run(at, run));
    EXPECT_EQ(run.keys, 2);
    EXPECT_EQ(run.hits, 0);
    EXPECT_EQ(run.bytes, line.size());
  }
}

TEST(FrameColumns, EndRunsAtMissesThatAreNotFinal) {
  const std::vector<string> lines = {"get a\r\n", "gets b c\r\n", "mg d v\r\n", "get e\r\n"};
  const std::vector<string> replies = {"END\r\n", "END\r\n", "EN\r\n", "END\r\n"};
  const string all = lines[0] + lines[1] + lines[2] + lines[3];
  FramesRig rig(4096);
  rig.put(32, all);
  ASSERT_TRUE(rig.columns.add_stream(32, all.size()));
  rig.put(1000, string("\0\1\0\0\0\1\0\0get c\r\n", 15));
  ASSERT_TRUE(rig.columns.add_datagram(1000, 15));
  rig.launch();
  const auto expect_until = [&](std::size_t line, const std::vector<string>& not_final) {
    rig.begin(not_final);
    string expected;
    std::size_t bytes = 0, keys = 0;
    for (std::size_t i = 0; i < line; ++i) {
      expected += replies[i];
      bytes += lines[i].size();
      keys += i == 1 ? 2 : 1;
    }
    FrameRun run{};
    ASSERT_EQ(rig.take_run(32, run), line != 0);
    if (line != 0) {
      EXPECT_EQ(rig.reply(run), expected);
      EXPECT_EQ(run.bytes, bytes);
      EXPECT_EQ(run.requests, line);
      EXPECT_EQ(run.keys, keys);
      EXPECT_EQ(run.hits, 0);
    }
    if (line != lines.size()) {
      EXPECT_FALSE(rig.take_run(32 + bytes, run));
    }
    ASSERT_EQ(rig.take_run(1000, run), std::ranges::find(not_final, "c") == not_final.end());
  };
  expect_until(4, {});
  expect_until(4, {"another"});
  expect_until(0, {"a"});
  expect_until(0, {"a", "e"});
  expect_until(1, {"b"});
  expect_until(1, {"c"});
  expect_until(1, {"d", "c"});
  expect_until(2, {"d"});
  expect_until(3, {"e"});
}

// Of raw frames, some without gaps, among streams: every frame is a piece, tiles have one or the other, and a tile of
// frames is one stretch of the arena.
TEST(FrameColumns, HaveRawFramesInTilesOfTheirOwn) {
  std::mt19937 random(1);
  SeenRig rig(1 << 16);
  for (int round = 0; round < 200; ++round) {
    rig.columns.clear();
    std::vector<Span> spans;
    for (std::uint64_t at = random() % 40;;) {
      const bool is_raw = round % 3 == 0 || random() % 8 != 0;
      const std::uint64_t bytes =
          is_raw ? raw_frame_bytes_min + random() % (round % 2 == 0 ? 40 : 400) : 100 + random() % 3000;
      if (at + bytes + frame_unit_bytes > rig.input.count()) break;
      if (!(is_raw ? rig.columns.add_frame(at, bytes) : rig.columns.add_stream(at, bytes))) break;
      spans.push_back({at, bytes, is_raw});
      at += bytes + (random() % 3 == 0 ? random() % (round % 5 == 0 ? 6000 : 60) : 0);
    }
    ASSERT_GT(spans.size(), 5u);
    rig.launch();
    auto span = spans.begin();
    for (const FrameTile& tile : seen_tiles) {
      ASSERT_LE(tile.pieces, tile_pieces_max);
      ASSERT_LE(tile.units, tile_units_max);
      const std::span pieces(seen_pieces.data() + tile.first_piece, tile.pieces);
      for (const FramePiece& piece : pieces) {
        ASSERT_EQ(piece.kind == FramePiece::raw, tile.is_raw);
        if (!tile.is_raw) {
          span += piece.continues ? 0 : 1;
          continue;
        }
        ASSERT_TRUE(span->is_datagram);
        ASSERT_EQ(piece.first_unit * std::uint64_t{frame_unit_bytes} + piece.skip, span->begin);
        ASSERT_LT(piece.skip, frame_unit_bytes);
        ASSERT_EQ(piece.bytes, span->bytes);
        ASSERT_EQ(piece.first_unit - piece.tile_unit, pieces[0].first_unit);
        ASSERT_EQ(piece.units, (piece.skip + piece.bytes + frame_unit_bytes - 1) / frame_unit_bytes);
        ASSERT_LE(piece.tile_unit + piece.units, tile.units);
        ++span;
      }
      ASSERT_TRUE(!tile.is_raw || pieces.back().tile_unit + pieces.back().units == tile.units);
    }
    ASSERT_EQ(span, spans.end());
  }
}

string raw_get(const string& key) { return ethernet::frame_of(string("\0\1\0\0\0\1\0\0get ", 12) + key + "\r\n"); }

TEST(FrameColumns, RefuseRawFramesThatAreNone) {
  FramesRig rig(4096);
  const string frame = raw_get("k");
  ASSERT_EQ(frame.size(), raw_frame_bytes_min);
  EXPECT_FALSE(rig.columns.add_frame(0, raw_frame_bytes_min - 1));
  EXPECT_FALSE(rig.columns.add_frame(0, raw_frame_bytes_max + 1));
  EXPECT_FALSE(rig.columns.add_frame(4096 - raw_frame_bytes_min + 1, raw_frame_bytes_min)) << "ends behind the arena";
  EXPECT_TRUE(rig.columns.empty());
  // As many of the shortest as the arena holds; behind the last one is memory that cannot be read.
  const std::uint64_t frames = 4096 / frame.size(), first = 4096 - frames * frame.size();
  for (std::uint64_t i = 0; i < frames; ++i) {
    rig.put(first + i * frame.size(), frame);
    ASSERT_TRUE(rig.columns.add_frame(first + i * frame.size(), frame.size())) << i;
  }
  rig.launch();
  rig.begin();
  FrameRun run;
  ASSERT_TRUE(rig.take_run(first, run));
  EXPECT_EQ(run.requests, frames);
  EXPECT_EQ(run.bytes, frames * frame.size());
  const string reply = ethernet::reply_frame(frame, string("\0\1\0\0\0\1\0\0END\r\n", 13));
  for (std::uint64_t i = 0; i < frames; ++i)
    ASSERT_EQ(rig.reply(run).substr(i * reply.size(), reply.size()), reply) << i;
  EXPECT_EQ(run.reply_bytes, frames * reply.size());
}

// A frame with a miss that is not final is left, and what follows it in its run.
TEST(FrameColumns, EndRunsOfRawFramesAtMissesThatAreNotFinal) {
  FramesRig rig(4096);
  string all;
  std::vector<std::uint64_t> begin;
  for (const char* key : {"a", "b", "cc c", "d"}) {
    begin.push_back(16 + all.size());
    all += raw_get(key);
  }
  rig.put(16, all);
  for (std::size_t i = 0; i < 4; ++i)
    ASSERT_TRUE(rig.columns.add_frame(begin[i], (i + 1 < 4 ? begin[i + 1] : 16 + all.size()) - begin[i]));
  rig.launch();
  const char* const last[] = {"a", "b", "c", "d"};
  for (std::size_t i = 0; i <= 4; ++i) {
    rig.begin(i < 4 ? std::vector<string>{last[i]} : std::vector<string>{});
    FrameRun run{};
    ASSERT_EQ(rig.take_run(16, run), i != 0) << i;
    if (i == 0) continue;
    EXPECT_EQ(run.requests, i);
    EXPECT_EQ(run.bytes, (i < 4 ? begin[i] : 16 + all.size()) - 16) << i;
    EXPECT_EQ(run.reply_bytes, i * (ethernet::header_bytes + 8 + 5));
    EXPECT_EQ(run.keys, i > 2 ? i + 1 : i);
    EXPECT_TRUE(i == 4 || !rig.take_run(begin[i], run));
  }
}

// A tile without room for its answers is the host's; it touches no other tile.
TEST(FrameColumns, LeaveTilesThatTheyHaveNoRoomFor) {
  const auto lines = [](std::size_t n, std::string_view line) {
    string all;
    for (; n != 0; --n) all += line;
    return all;
  };
  struct {
    const char* what;
    string input;
    std::uint32_t keys;
    std::uint64_t reply_bytes;
    bool is_answered;
  } const cases[] = {
      {"misses", lines(20, "get k\r\n"), 20, 1 << 12, true},
      {"too many misses", lines(21, "get k\r\n"), 20, 1 << 12, false},
      {"replies", lines(16, "get k\r\n"), 100, 80, true},
      {"too long replies", lines(17, "get k\r\n"), 100, 80, false},
      {"runs", lines(150, "get k\r\n\n"), 1000, 1 << 12, true},
      {"too many runs", lines(300, "get k\r\n\n"), 1000, 1 << 12, false},
  };
  for (const auto& c : cases) {
    FramesRig rig(4096, c.keys, c.reply_bytes);
    rig.put(0, c.input);
    ASSERT_TRUE(rig.columns.add_stream(0, c.input.size()));
    rig.launch();
    rig.begin();
    FrameRun run;
    EXPECT_EQ(rig.take_run(0, run), c.is_answered) << c.what;
    EXPECT_EQ(rig.left(FrameLeft::room) != 0, !c.is_answered) << c.what;
  }
  // The first of two tiles has room.
  SeenRig rig(1 << 14, 600);
  const string line = "get k\r\n", input = lines(400, line) + lines(400, line) + lines(400, line);
  rig.put(0, input);
  ASSERT_TRUE(rig.columns.add_stream(0, input.size()));
  rig.launch();
  ASSERT_EQ(seen_tiles.size(), 3u);
  rig.begin();
  FrameRun run;
  ASSERT_TRUE(rig.take_run(0, run));
  EXPECT_EQ(run.bytes, tile_bytes);
  EXPECT_FALSE(rig.take_run(tile_bytes, run));
}

// Only so many lines have places in a tile's tables: those behind them are the host's.
TEST(FrameColumns, LeaveLinesBeyondATilesTables) {
  FramesRig rig(8192);
  const string input = "get a\r\n" + string(tile_lines_max - 2, '\n') + "get b\r\nget c\r\n";
  rig.put(0, input);
  ASSERT_TRUE(rig.columns.add_stream(0, input.size()));
  rig.launch();
  rig.begin();
  FrameRun run;
  ASSERT_TRUE(rig.take_run(0, run));
  const std::uint64_t at = input.find("get b");
  ASSERT_TRUE(rig.take_run(at, run));
  EXPECT_EQ(run.requests, 1);
  EXPECT_FALSE(rig.take_run(at + 7, run));
}

// 16 keys a line, as many lines as a tile has bytes for: more keys than places.
TEST(FrameColumns, LeaveKeysBeyondATilesTables) {
  FramesRig rig(8192);
  string line = "get", input;
  for (std::uint32_t i = 0; i < frame_line_keys_max; ++i) line += " k";
  line += "\r\n";
  while (input.size() + line.size() <= tile_bytes) input += line;
  const std::uint64_t keys = input.size() / line.size() * frame_line_keys_max;
  ASSERT_GT(keys, tile_keys_max);
  rig.put(0, input);
  ASSERT_TRUE(rig.columns.add_stream(0, input.size()));
  rig.launch();
  rig.begin();
  FrameRun run;
  ASSERT_TRUE(rig.take_run(0, run));
  EXPECT_EQ(run.keys, tile_keys_max / frame_line_keys_max * frame_line_keys_max);
  EXPECT_EQ(run.requests, run.keys / frame_line_keys_max);
  EXPECT_EQ(rig.left(FrameLeft::room), keys / frame_line_keys_max - run.requests);
  EXPECT_FALSE(rig.take_run(run.bytes, run));
}

}  // namespace
}  // namespace tandem
