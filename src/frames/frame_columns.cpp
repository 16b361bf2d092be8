#include "frames/frame_columns.hpp"

#include <algorithm>
#include <memory>
#include <span>

namespace tandem {
namespace {

// Of an arena of raw frames, or of pieces that begin at cache lines: a tile that is closed has that many bytes of it.
constexpr std::uint64_t arena_bytes_of_tile = 2048, arena_bytes_of_piece = raw_frame_bytes_min;
constexpr std::uint32_t runs_of_tile = 32;
// A stream's piece is not made shorter than this for the sake of a tile's end.
constexpr std::uint32_t piece_bytes_min = 64;

constexpr std::uint64_t tiles_for(std::uint64_t input_bytes) { return input_bytes / arena_bytes_of_tile + 2; }
constexpr std::uint64_t pieces_for(std::uint64_t input_bytes) {
  return input_bytes / arena_bytes_of_piece + tiles_for(input_bytes);
}
// The first line of the run that is left to the host, of the cuts in the order of their lines; nullptr: none is.
const FrameMiss* cut_of(std::span<const FrameMiss> cuts, const FrameRun& run) noexcept {
  if (TD_LIKELY(cuts.empty())) return nullptr;
  const auto cut = std::ranges::lower_bound(cuts, run.begin, {}, &FrameMiss::line);
  return cut != cuts.end() && cut->line < run.begin + run.bytes ? &*cut : nullptr;
}
constexpr std::uint64_t whole_units(std::uint64_t bytes) {
  return (bytes + frame_unit_bytes - 1) / frame_unit_bytes * frame_unit_bytes;
}

}  // namespace

FrameColumns::FrameColumns(Device& device, std::uint64_t input_bytes, std::uint32_t keys, std::uint64_t reply_bytes)
    : input_bytes_(input_bytes / frame_unit_bytes * frame_unit_bytes),
      pieces_(device, pieces_for(input_bytes)),
      tiles_(device, tiles_for(input_bytes)),
      answers_(device, tiles_for(input_bytes)),
      runs_(device, pieces_for(input_bytes) + runs_of_tile * tiles_for(input_bytes)),
      misses_(device, keys),
      reads_(device, keys),
      replies_(device, whole_units(reply_bytes)) {
  cuts_.reserve(keys);
}

void FrameColumns::clear() noexcept {
  piece_count_ = tile_count_ = bytes_of_tile_ = 0;
  has_raw_ = false;
}

bool FrameColumns::begin_tile(bool is_raw) noexcept {
  if (tile_count_ == tiles_.count()) return false;
  tiles_[tile_count_++] = {.first_piece = piece_count_, .pieces = 0, .is_raw = is_raw, .units = 0};
  bytes_of_tile_ = 0;
  return true;
}

// Puts the piece into the present tile, or a new one; its units are still to be determined.
bool FrameColumns::add(std::uint64_t begin, FramePiece piece) noexcept {
  const std::uint64_t from = begin - (piece.continues ? 1 : 0);
  const std::uint64_t first_unit = from / frame_unit_bytes;
  const std::uint64_t end = begin + piece.bytes + piece.more;
  if (piece_count_ == pieces_.count() || whole_units(end) > input_bytes_) return false;
  piece.first_unit = static_cast<std::uint32_t>(first_unit);
  piece.units = static_cast<std::uint16_t>(whole_units(end) / frame_unit_bytes - first_unit);
  piece.skip = static_cast<std::uint16_t>(begin - first_unit * frame_unit_bytes);
  const bool fits = tile_count_ != 0 && !tiles_[tile_count_ - 1].is_raw && bytes_of_tile_ + piece.bytes <= tile_bytes &&
                    tiles_[tile_count_ - 1].pieces < tile_pieces_max &&
                    tiles_[tile_count_ - 1].units + std::uint32_t{piece.units} <= tile_units_max;
  if (!fits && !begin_tile(false)) return false;
  FrameTile& tile = tiles_[tile_count_ - 1];
  piece.tile_unit = tile.units;
  tile.units = static_cast<std::uint16_t>(tile.units + piece.units);
  ++tile.pieces;
  bytes_of_tile_ += piece.bytes;
  pieces_[piece_count_++] = piece;
  return true;
}

bool FrameColumns::add_stream(std::uint64_t begin, std::uint64_t bytes) noexcept {
  if (bytes < frame_line_bytes_min) return false;
  for (std::uint64_t at = 0; at < bytes;) {
    std::uint64_t room = tile_count_ != 0 ? tile_bytes - bytes_of_tile_ : 0;
    if (room < std::min<std::uint64_t>(piece_bytes_min, bytes - at)) room = tile_bytes;
    FramePiece piece{};
    piece.kind = FramePiece::stream;
    piece.continues = at != 0;
    const std::uint64_t of_piece = std::min(room, bytes - at);
    piece.bytes = static_cast<std::uint16_t>(of_piece);
    piece.more = static_cast<std::uint16_t>(std::min<std::uint64_t>(frame_line_bytes_max, bytes - at - of_piece));
    if (!add(begin + at, piece)) return at != 0;
    at += of_piece;
  }
  return true;
}

bool FrameColumns::add_datagram(std::uint64_t begin, std::uint64_t bytes) noexcept {
  if (bytes > frame_line_bytes_max) return false;
  FramePiece piece{};
  piece.kind = FramePiece::datagram;
  piece.bytes = static_cast<std::uint16_t>(bytes);
  return bytes != 0 && add(begin, piece);
}

bool FrameColumns::add_frame(std::uint64_t begin, std::uint64_t bytes) noexcept {
  if (bytes < raw_frame_bytes_min || bytes > raw_frame_bytes_max) return false;
  const std::uint64_t first_unit = begin / frame_unit_bytes, end_unit = whole_units(begin + bytes) / frame_unit_bytes;
  if (piece_count_ == pieces_.count() || end_unit * frame_unit_bytes > input_bytes_) return false;
  const bool fits = tile_count_ != 0 && tiles_[tile_count_ - 1].is_raw &&
                    tiles_[tile_count_ - 1].pieces < tile_pieces_max &&
                    end_unit - first_unit_of_tile_ <= tile_units_max;
  if (!fits) {
    if (!begin_tile(true)) return false;
    first_unit_of_tile_ = first_unit;
    has_raw_ = true;
  }
  FrameTile& tile = tiles_[tile_count_ - 1];
  tile.units = static_cast<std::uint16_t>(end_unit - first_unit_of_tile_);
  ++tile.pieces;
  pieces_[piece_count_++] = {.first_unit = static_cast<std::uint32_t>(first_unit),
                             .tile_unit = static_cast<std::uint16_t>(first_unit - first_unit_of_tile_),
                             .units = static_cast<std::uint16_t>(end_unit - first_unit),
                             .skip = static_cast<std::uint16_t>(begin % frame_unit_bytes),
                             .bytes = static_cast<std::uint16_t>(bytes),
                             .more = 0,
                             .kind = FramePiece::raw,
                             .continues = false};
  return true;
}

FramePart FrameColumns::part(DevicePtr<const char> input) const noexcept {
  return {.input = input.address(),
          .pieces = pieces_.at().address(),
          .tiles = tiles_.at().address(),
          .answers = answers_.at().address(),
          .runs = runs_.at().address(),
          .misses = misses_.at().address(),
          .reads = reads_.at().address(),
          .replies = replies_.at().address(),
          .input_bytes = input_bytes_,
          .tile_count = tile_count_,
          .piece_count = piece_count_,
          .runs_max = static_cast<std::uint32_t>(runs_.count()),
          .misses_max = static_cast<std::uint32_t>(misses_.count()),
          .reads_max = static_cast<std::uint32_t>(reads_.count()),
          .reply_bytes_max = static_cast<std::uint32_t>(replies_.count()),
          .has_raw = has_raw_};
}

FrameRun FrameColumns::final_part(const FrameRun& run) const noexcept {
  FrameRun part = run;
  const FrameMiss* const cut = cut_of(cuts_, run);
  if (TD_LIKELY(cut == nullptr)) return part;
  part.bytes = static_cast<std::uint16_t>(cut->line - run.begin);
  part.reply_bytes = cut->reply_bytes;
  part.requests = cut->requests;
  part.keys = cut->keys;
  part.hits = cut->hits;
  part.metas = cut->metas;
  return part;
}

std::span<const Location> FrameColumns::some_reads_of(const FrameTileAnswer& answer,
                                                      const FrameRun& run) const noexcept {
  const auto behind =
      std::ranges::upper_bound(std::span(runs_.data() + answer.run_at, answer.runs), run.begin, {}, &FrameRun::begin);
  const FrameRun* const next = std::to_address(behind);
  const std::uint32_t end = next != runs_.data() + answer.run_at + answer.runs ? next->first_read : answer.reads;
  return {reads_.data() + answer.read_at + run.first_read, end - run.first_read};
}

FrameColumns::Place FrameColumns::place_of(std::uint64_t at) const noexcept {
  const auto tiles = std::span(tiles_.data(), tile_count_);
  const auto behind = std::ranges::upper_bound(tiles, at, {}, [&](const FrameTile& tile) {
    const FramePiece& first = pieces_[tile.first_piece];
    return first.first_unit * std::uint64_t{frame_unit_bytes} + first.skip;
  });
  return {static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(behind - tiles.begin(), 1) - 1), 0};
}

std::uint64_t FrameColumns::keys() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < tile_count_; ++t) sum += answers_[t].keys;
  return sum;
}

std::array<std::uint64_t, frame_left_count> FrameColumns::left() const noexcept {
  std::array<std::uint64_t, frame_left_count> sum{};
  for (std::uint32_t t = 0; t < tile_count_; ++t) {
    for (std::size_t why = 0; why < frame_left_count; ++why) sum[why] += answers_[t].left[why];
  }
  return sum;
}

}  // namespace tandem
