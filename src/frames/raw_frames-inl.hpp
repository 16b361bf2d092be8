// Raw frames of a tile: their headers, checksums and lines. PP of frames-inl.hpp, which says what T is. A frame is a
// line of the tile's tables: its position is the frame's, and its end the last byte of the frame.
#pragma once
#include <cstdint>

#include "codec/ethernet.hpp"
#include "frames/lines-inl.hpp"

namespace tandem::frames {

inline constexpr std::uint32_t raw_header_bytes = ethernet::header_bytes + datagram_header_bytes;

TD_LANE const char* raw_frame(const Scratch& s, std::uint32_t j) { return s.bytes() + s.line_begin[j]; }
// REQUIRES: its headers are right.
TD_LANE std::uint32_t raw_payload_bytes(const char* frame) {
  return ethernet::number_at(frame, ethernet::udp_at + 4) - ethernet::udp_header_bytes;
}

// Parses frame j, but for its checksums.
TD_LANE void begin_frame(Scratch& s, std::uint32_t j) {
  const FramePiece& p = s.piece[j];
  const std::uint32_t begin = first_byte(p);
  s.line_piece[j] = static_cast<std::uint8_t>(j);
  s.line_begin[j] = static_cast<std::uint16_t>(begin);
  s.line_end[j] = static_cast<std::uint16_t>(begin + p.bytes - 1);
  s.line_keys[j] = 0;
  s.line_state[j] = mark::of(FrameLeft::headers);
  const char* const frame = raw_frame(s, j);
  const ethernet::Udp udp = ethernet::read_headers(frame, p.bytes);
  if (udp.fault != ethernet::Fault::none) return;
  s.line_state[j] = mark::of(FrameLeft::other);
  const char* const header = frame + ethernet::header_bytes;
  if (udp.payload_bytes <= datagram_header_bytes || header[4] != 0 || header[5] != 1) return;
  const std::uint32_t end = begin + ethernet::header_bytes + udp.payload_bytes - 1;
  if (s.bytes()[end] != '\n') return;
  std::uint32_t first_key = 0;
  const std::uint32_t keys = parse_line(s.bytes(), begin + raw_header_bytes, end, s.line_kind[j], first_key);
  if (keys == 0 || s.line_kind[j] == LineKind::meta_quiet) return;
  s.line_state[j] = mark::good;
  s.line_keys[j] = static_cast<std::uint8_t>(keys);
  s.line_first_key[j] = static_cast<std::uint16_t>(first_key);  // a position, until the keys have numbers
}

// Loads the tile and parses its frames. Returns their number.
template <class T>
TD_LANE std::uint32_t find_frames(T& t, Scratch& s, const Job& job, const FrameTile& tile) {
  const FramePiece* const pieces = job.pieces + tile.first_piece;
  const auto* const units = reinterpret_cast<const Scratch::Unit*>(job.input) + pieces[0].first_unit;
  t.both(
      tile.units, [&](std::uint32_t u) { s.input[u] = units[u]; },  //
      tile.pieces, [&](std::uint32_t i) { s.piece[i] = pieces[i]; });
  t.each(tile.pieces, [&](std::uint32_t j) { begin_frame(s, j); });
  return tile.pieces;
}

// A frame with a wrong checksum is not answered.
TD_LANE void verify_frame(Scratch& s, std::uint32_t j) {
  if (s.line_state[j] != mark::good) return;
  const char* const frame = raw_frame(s, j);
  if (ethernet::verify_sums(frame, raw_payload_bytes(frame)) != ethernet::Fault::none)
    s.line_state[j] = mark::of(FrameLeft::checksum);
}

}  // namespace tandem::frames
