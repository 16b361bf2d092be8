// The replies of answered lines, in shared memory and from there: WR of frames-inl.hpp, which says what T is.
#pragma once
#include <cstdint>

#include "frames/raw_frames-inl.hpp"
#include "heap/item.hpp"

namespace tandem::frames {

// An item's image, if the location has one.
struct Image {
  const char* item;
  std::uint64_t state, fixed;

  TD_LANE std::uint32_t key_offset() const { return word::HasFlags::get(fixed) != 0 ? 20 : 16; }
  TD_LANE std::uint32_t key_bytes() const { return static_cast<std::uint32_t>(word::KeyBytes::get(fixed)); }
  TD_LANE std::uint32_t value_bytes() const { return static_cast<std::uint32_t>(word::ValueBytes::get(fixed)); }
  TD_LANE const char* value() const { return item + key_offset() + key_bytes(); }
  TD_LANE std::uint32_t client_flags() const {
    return word::HasFlags::get(fixed) != 0 ? *reinterpret_cast<const std::uint32_t*>(item + 16) : 0;
  }
  TD_LANE std::uint64_t cas() const {
    return word::CasHigh::get(state) << word::CasLow::width | word::CasLow::get(fixed);
  }
};

TD_LANE Image image_at(const ItemImages& images, std::uint32_t location) {
  const auto head = *reinterpret_cast<const Scratch::Unit*>(images.granules + location);
  return {reinterpret_cast<const char*>(images.granules + location), head.word[0], head.word[1]};
}

// --- WR

TD_LANE std::uint32_t digits_of(std::uint64_t n) {
  std::uint32_t digits = 1;
  for (; n >= 10; n /= 10) ++digits;
  return digits;
}

TD_LANE char* put(char* p, const char* from, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) p[i] = from[i];
  return p + bytes;
}
TD_LANE char* put_digits(char* p, std::uint64_t n) {
  const std::uint32_t digits = digits_of(n);
  for (std::uint32_t i = digits; i-- != 0; n /= 10) p[i] = static_cast<char>('0' + n % 10);
  return p + digits;
}
TD_LANE char* put_line_end(char* p) {
  p[0] = '\r';
  p[1] = '\n';
  return p + 2;
}

TD_LANE bool is_last_key(const Scratch& s, std::uint32_t k) {
  const std::uint32_t j = s.key_line[k];
  return k + 1 == s.line_first_key[j] + std::uint32_t{s.line_keys[j]};
}
template <Form form>
TD_LANE bool begins_datagram(const Scratch& s, std::uint32_t k) {
  const std::uint32_t j = s.key_line[k];
  return k == s.line_first_key[j] && (form == Form::raw || s.piece[s.line_piece[j]].kind == FramePiece::datagram);
}

// What the flags of a line's request return, in their order, and the line's end: counted, or put.
struct Counted {
  std::uint32_t bytes = 0;
  TD_LANE void put(const char* /*from*/, std::uint32_t count) { bytes += count; }
  TD_LANE void put_number(std::uint64_t n) { bytes += digits_of(n); }
};
struct Put {
  char* p;
  TD_LANE void put(const char* from, std::uint32_t count) { p = frames::put(p, from, count); }
  TD_LANE void put_number(std::uint64_t n) { p = put_digits(p, n); }
};
// image: of a hit; nullptr: a miss, of which there is only what the request said.
template <class To>
TD_LANE void return_flags(const Scratch& s, const Job& job, std::uint32_t k, const Image* image, To& to) {
  const char* const key = s.bytes() + s.key_at[k];
  const char* at = key + s.key_bytes[k];
  while (*at == ' ') {
    const char* const begin = at;
    const char flag = begin[1];
    at += 2;
    if (flag == 'O') {
      while (static_cast<unsigned char>(*at) > ' ') ++at;
      to.put(begin, static_cast<std::uint32_t>(at - begin));
    } else if (flag == 'k' || flag == 'K') {
      to.put(" k", 2);
      to.put(key, s.key_bytes[k]);
    } else if (image != nullptr && flag != 'v' && flag != 'q') {
      to.put(begin, 2);
      const auto expiry_s = static_cast<std::uint32_t>(word::ExpiryS::get(image->state));
      if (flag == 't' && expiry_s == 0) {
        to.put("-1", 2);
      } else {
        to.put_number(flag == 's'   ? image->value_bytes()
                      : flag == 'f' ? image->client_flags()
                      : flag == 't' ? expiry_s - job.now_s
                      : job.cas     ? image->cas()
                                    : 0);
      }
    }
  }
  to.put("\r\n", 2);
}

// Of the key's part of its line's reply.
template <Form form>
TD_LANE std::uint32_t reply_bytes(const Scratch& s, const Job& job, std::uint32_t k) {
  constexpr std::uint32_t header_bytes = form == Form::raw ? raw_header_bytes : datagram_header_bytes;
  const LineKind kind = s.line_kind[s.key_line[k]];
  std::uint32_t bytes = begins_datagram<form>(s, k) ? header_bytes : 0;
  if (!is_meta(kind) && is_last_key(s, k)) bytes += 5;  // "END\r\n"
  if ((s.key_mark[k] & mark::miss) != 0) {
    if (kind <= LineKind::meta) return bytes + (kind == LineKind::meta ? 4 : 0);  // "EN\r\n"
    if (kind == LineKind::meta_quiet) return bytes;
    Counted flags{bytes + 2};
    return_flags(s, job, k, nullptr, flags);
    return flags.bytes;
  }
  const Image image = image_at(job.images, s.key_location[k]);
  const std::uint32_t value_bytes = image.value_bytes();
  bytes += digits_of(value_bytes) + 2 + value_bytes + 2;
  if (kind == LineKind::meta) return bytes + 3;  // "VA "
  if (kind > LineKind::meta) {
    Counted flags{bytes + 3 - 2};
    return_flags(s, job, k, &image, flags);
    return flags.bytes;
  }
  bytes += 6 + s.key_bytes[k] + 1 + digits_of(image.client_flags()) + 1;  // "VALUE "
  return kind == LineKind::with_cas ? bytes + 1 + digits_of(job.cas ? image.cas() : 0) : bytes;
}

TD_LANE char* put_hit(const Scratch& s, const Job& job, std::uint32_t k, char* p) {
  const LineKind kind = s.line_kind[s.key_line[k]];
  const Image image = image_at(job.images, s.key_location[k]);
  if (is_meta(kind)) {
    p = put_digits(put(p, "VA ", 3), image.value_bytes());
    if (kind != LineKind::meta) {
      Put flags{p};
      return_flags(s, job, k, &image, flags);
      return put_line_end(put(flags.p, image.value(), image.value_bytes()));
    }
  } else {
    p = put(put(p, "VALUE ", 6), s.bytes() + s.key_at[k], s.key_bytes[k]);
    *p++ = ' ';
    p = put_digits(p, image.client_flags());
    *p++ = ' ';
    p = put_digits(p, image.value_bytes());
    if (kind == LineKind::with_cas) {
      *p++ = ' ';
      p = put_digits(p, job.cas ? image.cas() : 0);
    }
  }
  return put_line_end(put(put_line_end(p), image.value(), image.value_bytes()));
}

// All but the headers of a raw frame.
template <Form form>
TD_LANE void put_reply(const Scratch& s, const Job& job, std::uint32_t k, char* p) {
  if (begins_datagram<form>(s, k)) {
    const char* request = s.bytes() + first_byte(s.piece[s.line_piece[s.key_line[k]]]);
    if constexpr (form == Form::raw) {
      request += ethernet::header_bytes;
      p += ethernet::header_bytes;
    }
    for (std::uint32_t i = 0; i < datagram_header_bytes; ++i) p[i] = i < 2 ? request[i] : static_cast<char>(i == 5);
    p += datagram_header_bytes;
  }
  const LineKind kind = s.line_kind[s.key_line[k]];
  if ((s.key_mark[k] & mark::miss) == 0) {
    p = put_hit(s, job, k, p);
  } else if (kind == LineKind::meta) {
    p = put(p, "EN\r\n", 4);
  } else if (kind == LineKind::meta_flags) {
    Put flags{put(p, "EN", 2)};
    return_flags(s, job, k, nullptr, flags);
  }
  if (!is_meta(kind) && is_last_key(s, k)) put(p, "END\r\n", 5);
}

// Sends the window, which has the replies' bytes from `base` up to `end`, in whole units.
template <class T>
TD_LANE void send_window(T& t, Scratch& s, const Job& job, std::uint32_t base, std::uint32_t end, bool is_last) {
  auto* const to = reinterpret_cast<Scratch::Unit*>(job.replies + s.reply_at);
  const std::uint32_t units = (end - base) / frame_unit_bytes + (is_last && end % frame_unit_bytes != 0 ? 1 : 0);
  t.each(units, [&](std::uint32_t u) { to[base / frame_unit_bytes + u] = s.window[u]; });
  if (!is_last) t.once([&] { s.window[0] = s.window[units]; });  // the beginning of the next unit
}

// Writes the replies: into a window of shared memory, as many at a time as it holds, and from there in whole units, so
// that they cross the bus in large pieces.
template <class T>
TD_LANE void write_replies(T& t, Scratch& s, const Job& job, std::uint32_t total) {
  char* const window = reinterpret_cast<char*>(s.window);
  const std::uint32_t keys = s.keys;
  for (std::uint32_t begin = 0; begin < total;) {
    const std::uint32_t base = begin / frame_unit_bytes * frame_unit_bytes;
    t.once([&] { s.next = total; });
    t.each(keys, [&](std::uint32_t k) {
      const std::uint32_t at = s.sum[k], end = k + 1 < keys ? s.sum[k + 1] : total;
      if (at < begin || at == end) return;
      if (end - base <= window_bytes) {
        put_reply<Form::lines>(s, job, k, window + (at - base));
      } else {
        t.lower(&s.next, at);
      }
    });
    const std::uint32_t end = s.next;
    send_window(t, s, job, base, end, end == total);
    begin = end;
  }
}

// Where the reply to frame j lies among the replies.
struct FrameReply {
  std::uint32_t begin, end;
};
// REQUIRES: the frame is answered.
TD_LANE FrameReply frame_reply(const Scratch& s, std::uint32_t j, std::uint32_t total) {
  const std::uint32_t first = s.line_first_key[j], behind = first + s.line_keys[j];
  return {s.sum[first], behind < s.keys ? s.sum[behind] : total};
}

// write_replies() for raw frames, which are whole in their window: main warps write payloads, helper warps the headers
// beside them; the checksum over both is last.
template <class T>
TD_LANE void write_frames(T& t, Scratch& s, const Job& job, std::uint32_t frames, std::uint32_t total) {
  char* const window = reinterpret_cast<char*>(s.window);
  for (std::uint32_t begin = 0; begin < total;) {
    const std::uint32_t base = begin / frame_unit_bytes * frame_unit_bytes;
    t.once([&] { s.next = total; });
    t.both(
        s.keys,
        [&](std::uint32_t k) {
          const std::uint32_t j = s.key_line[k];
          if (s.line_state[j] != mark::good) return;
          const FrameReply reply = frame_reply(s, j, total);
          if (reply.begin < begin) return;
          if (reply.end - base <= window_bytes) {
            put_reply<Form::raw>(s, job, k, window + (s.sum[k] - base));
          } else {
            t.lower(&s.next, reply.begin);
          }
        },
        frames,
        [&](std::uint32_t j) {
          if (s.line_state[j] != mark::good) return;
          const FrameReply reply = frame_reply(s, j, total);
          if (reply.begin < begin || reply.end - base > window_bytes) return;
          const std::uint32_t payload_bytes = reply.end - reply.begin - ethernet::header_bytes;
          ethernet::write_reply_headers(raw_frame(s, j), payload_bytes, window + (reply.begin - base));
        });
    const std::uint32_t end = s.next;
    t.each(frames, [&](std::uint32_t j) {
      if (s.line_state[j] != mark::good) return;
      const FrameReply reply = frame_reply(s, j, total);
      if (reply.begin < begin || reply.end > end) return;
      ethernet::write_udp_sum(window + (reply.begin - base), reply.end - reply.begin - ethernet::header_bytes);
    });
    send_window(t, s, job, base, end, end == total);
    begin = end;
  }
}

}  // namespace tandem::frames
